"""`python -m bench [NAME…] [--quick]`: run benchmarks, by default all of them.

Figures go to stdout, one JSON line each, after a line with the commit, the date and the machine.
The table and the progress go to stderr. Commands of their own, each with `--help`:
`python -m bench quality` measures search quality, `soak` a daemon under load for a long time,
`trips` the modules that one saved note and one search run through, and `report` writes
docs/performance.md.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from bench.figures import Figure, Report, table
from bench.machine import GitError, this_run

NAMES = (
    "search",
    "start",
    "index",
    "many",
    "embed",
    "sessions",
    "write",
    "wire",
    "agents",
    "trips",
)
APART = ("quality", "soak", "trips")


def main(argv: list[str] | None = None) -> int:
    """Run the chosen benchmarks. Returns 1 if a target that holds on any machine is missed."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["report"]:
        from bench import report

        return report.main(given[1:], measure)
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
    try:
        line = this_run(quick=arguments.quick).line()
        print(json.dumps(line, ensure_ascii=False), flush=True)
    except GitError as error:
        print(f"the figures name no commit: {error}", file=sys.stderr)
    figures = measure(arguments.names or NAMES, quick=arguments.quick)
    missed = [f for f in figures if f.target and f.target.checked and not f.target.is_met(f.value)]
    return 1 if missed else 0


def measure(names: Sequence[str] = NAMES, *, quick: bool) -> list[Figure]:
    """Run benchmarks, print their figures and a table, and return the figures."""
    # As in the daemon; numpy reads it once, on import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    figures: list[Figure] = []
    for name in names:
        report = Report(name)
        import_module(f"bench.{name}").run(report, quick=quick)
        figures += report.figures
    print(table(figures), file=sys.stderr)
    return figures


if __name__ == "__main__":
    sys.exit(main())
