"""Measures the search quality of a real daemon with the bundled model.

Each set becomes a workspace; a real daemon indexes it and answers every question through the real
client. Figures go to stdout, one JSON line each; tables go to stderr.

A finished workspace stays in the cache folder with its index, under a hash of its notes and of the
settings that an index depends on: the first run of scifact takes minutes, a second one with other
settings of `query` only searches. You can remove the folder at any time. Recency has dates relative
to the day and is built again each time.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Report
from bench.quality import options, workspace
from bench.quality.calibrate import calibrate
from bench.quality.runner import NAMES, Run
from memoryd.config.validate import ConfigError
from memoryd_client import MemorydError

DATA_ENV = "MEMORYD_BENCH_DATA"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen sets. Returns 1 if a target is missed, 2 if the run fails."""
    arguments = _parser().parse_args(argv)
    report = Report("quality")
    try:
        run = Run(
            report,
            data=arguments.data,
            cache=arguments.cache,
            settings=options.read(arguments.config, arguments.set_option),
            half="tuned" if arguments.misses else arguments.half,
            quick=arguments.quick,
            ablate=arguments.ablate,
            misses=arguments.misses,
            rebuild=arguments.rebuild,
        )
        names = arguments.set or NAMES
        if arguments.calibrate:
            calibrate(run, names)
            return 0
        reached = [run.measure(name) for name in names]
        reached.append(run.measure_all())
        return 0 if all(reached) else 1
    except (ConfigError, MemorydError) as error:
        report.note(str(error))
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    data = os.environ.get(DATA_ENV)
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        metavar="DIR",
        default=Path(data) if data else None,
        help=f"folder with the public sets (default: ${DATA_ENV}); missing sets are skipped",
    )
    add(
        "--set",
        action="append",
        metavar="NAME",
        choices=NAMES,
        help=f"measure this set, repeatable (default: all of {', '.join(NAMES)})",
    )
    add(
        "--half",
        choices=("tuned", "kept", "all"),
        default="all",
        help="every other question: `tuned` for tuning, `kept` for checking",
    )
    add("--ablate", action="store_true", help="measure also with each ingredient switched off")
    add("--quick", action="store_true", help="few questions and notes, for a first impression")
    add("--misses", action="store_true", help="list the questions that failed; with --half tuned")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="measure with the [defaults] of a configuration file of memoryd",
    )
    add(
        "--set-option",
        action="append",
        metavar="KEY=VALUE",
        default=[],
        help="measure with a setting, such as query.hybrid.vector_weight=0.3; repeatable",
    )
    add(
        "--cache",
        type=Path,
        metavar="DIR",
        default=workspace.default_cache(),
        help="folder for workspaces and indexes (default: %(default)s)",
    )
    add(
        "calibrate",
        nargs="?",
        choices=("calibrate",),
        help="fit the constants of memoryd/search/confidence.py to these sets instead",
    )
    add("--rebuild", action="store_true", help="rebuild kept indexes from their vectors")
    return parser
