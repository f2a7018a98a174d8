"""`python -m bench [NAME…] [--quick]`: run benchmarks, by default all of them.

Figures go to stdout, one JSON line each; the table and what is going on go to stderr.
`python -m bench quality --help` is about the quality of search, `python -m bench soak --help` about
a daemon under load for a long time; both take longer.
"""

import argparse
import os
import sys
from importlib import import_module

from bench.figures import Figure, Report, table

NAMES = ("search", "index", "many", "embed", "sessions", "wire")
APART = ("quality", "soak", "trips")


def main(argv: list[str] | None = None) -> int:
    """Run the chosen benchmarks. Returns 1 when a target that holds on any machine is missed."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] and given[0] in APART:
        return int(import_module(f"bench.{given[0]}").main(given[1:]))
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="smaller, for a first impression")
    arguments = parser.parse_args(given)
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose of {', '.join(NAMES)}")
    # As the daemon does; read once, when numpy is imported.
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
