"""`python -m fuzz [TARGET ...] [--seconds N]`: the command of `make fuzz`.

It fuzzes the named targets, or all, with one process per processor. `--input FILE` runs one input
instead. `--keep` merges the new inputs into the kept corpus, which it reduces to the fewest inputs
with the same coverage.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fuzz.run import Run, fuzz, minimize, missing
from fuzz.target import NAMES, load

FOUND = Path(".fuzz")


def main() -> int:
    """Run the fuzzer and return the exit status."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz memoryd.")
    parser.add_argument("targets", nargs="*", choices=[*NAMES, []], metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--input", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    names = options.targets or NAMES
    if options.input is not None:
        for target in map(load, names):
            try:
                target.check(options.input.read_bytes())
            finally:
                target.close()
        return 0
    if (problem := missing()) is not None:
        print(problem)
        return 1

    def one(name: str) -> Run:
        run = fuzz(name, options.seconds, FOUND.absolute() / name)
        state = "fine" if run.passed else "BROKEN"
        print(
            f"{name:14} {state:7} {run.executions:>9,} inputs {run.executions_per_s:>7,}/s"
            f" {run.coverage:>6,} edges",
            flush=True,
        )
        return run

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = list(pool.map(one, names))
    for run in runs:
        if not run.passed:
            print(run.report())
    if options.keep:
        for name in names:
            minimize(name, FOUND.absolute() / name)
    return 0 if all(run.passed for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
