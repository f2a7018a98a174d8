"""Entry of the `memctl` program: hooks must be quick, so they don't load the other commands."""

import sys


def main() -> int:
    """Run the command line of this process and return the exit status."""
    words = sys.argv[1:]
    if words[:1] == ["hook"] and not {"-h", "--help"} & set(words):
        from memctl import hook

        return hook.run(words[1:])
    from memctl.main import main as run

    return run()
