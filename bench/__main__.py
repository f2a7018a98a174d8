"""`python -m bench [NAME…] [--quick]`: run benchmarks, by default all of them.

Figures go to stdout, one JSON line each; the table and the progress go to stderr.
Three benchmarks have commands of their own, each with `--help`: `python -m bench quality` measures
search quality, `soak` a daemon under load for a long time, and `trips` the modules that one saved
note and one search run through.
"""

import argparse
import os
import sys
from importlib import import_module

from bench.figures import Figure, Report, table

NAMES = ("search", "index", "many", "embed", "sessions", "write", "wire", "agents")
APART = ("quality", "soak", "trips")


def main(argv: list[str] | None = None) -> int:
    """Run the chosen benchmarks. Returns 1 if a target that holds on any machine is missed."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] and given[0] in APART:
        return int(import_module(f"bench.{given[0]}").main(given[1:]))
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first impression")
    arguments = parser.parse_args(given)
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(
            f"no such benchmark: {', '.join(sorted(unknown))}. Benchmarks: {', '.join(NAMES)}"
        )
    # As in the daemon; numpy reads it once, on import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    figures: list[Figure] = []
    for name in arguments.names or NAMES:
        report = Report(name)
        import_module(f"bench.{name}").run(report, quick=arguments.quick)
        figures += report.figures
    print(table(figures), file=sys.stderr)
    missed = [f for f in figures if f.target and f.target.checked and not f.target.is_met(f.value)]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
