"""The process in which atheris (libFuzzer) runs one target.

`python -m fuzz.engine PROGRAM TARGET [option or folder of libFuzzer ...]`. PROGRAM runs this module
with further options, because libFuzzer starts itself again to merge inputs. libFuzzer ends the
process at the first input that breaks the target, or when its time is over.
"""

import logging
import sys

import atheris

CODE = ["memctl", "memoryd", "memoryd_client", "tomllib"]

with atheris.instrument_imports(include=CODE):
    from fuzz.target import load

    _target = load(sys.argv[2])


def main() -> None:
    """Run libFuzzer on the target."""
    # The product's log lines about bad input would take most of the time.
    logging.disable(logging.CRITICAL)
    # This hook makes the operands of string comparisons guide the search. (The hook for patterns
    # replaces `re.Pattern`, but its methods take no positions.)
    atheris.enabled_hooks.add("str")
    atheris.Setup([sys.argv[1], *sys.argv[3:]], _target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
