"""Command line and report of the soak."""

import argparse
import asyncio
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.daemon import INSPECTABLE, Place, daemon, place, until_ready
from bench.figures import Report, at_most, table
from bench.soak.files import Files
from bench.soak.growth import Growth, Reading, growth, warm
from bench.soak.mixed import MixedOutcome, soak_mixed
from bench.soak.provider import FailingProvider
from bench.soak.run import KEY, Outcome, examine, settings, soak

MINUTES = 20.0
FAST_CLOCK = Path(__file__).with_name("fast_clock")
FLAT = ("resident_mib", "anonymous_mib", "descriptors", "threads", "tasks", "wal_mib", "index_mib")


def main(argv: Sequence[str]) -> int:
    """Soak a daemon. Returns 1 if anything grew, was lost, came back or failed."""
    parser = argparse.ArgumentParser(prog="python -m bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="default: %(default)g")
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        help="of the daemon's clock (default: %(default)g)",
    )
    parser.add_argument(
        "--mixed",
        action="store_true",
        help="notes and transcripts of all kinds, with restarts, instead of the highest load",
    )
    arguments = parser.parse_args(argv)
    report = Report("soak")
    with place() as where:
        if arguments.mixed:
            mixed = asyncio.run(soak_mixed(where, arguments.minutes * 60))
            missed = report_mixed(report, mixed)
            print(table(report.figures), file=sys.stderr)
            return 1 if missed else 0
        outcome = asyncio.run(run(where, arguments.minutes * 60, arguments.speed))
    missed = report_outcome(report, outcome)
    print(table(report.figures), file=sys.stderr)
    return 1 if missed else 0


async def run(where: Place, seconds: float, speed: float = 1.0) -> Outcome:
    """Soak a new daemon on a place for some seconds; `speed` multiplies its clock."""
    transcripts = where.root / "transcripts"
    transcripts.mkdir()
    variables = KEY
    if speed != 1.0:
        path = [str(FAST_CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = KEY | {"PYTHONPATH": os.pathsep.join(path), "SOAK_SPEED": str(speed)}
    async with FailingProvider(random.Random(1)) as provider:
        where.configure(settings(provider.url, str(transcripts)))
        files = Files(where.workspace, transcripts, random.Random(2))
        with daemon(where, variables, INSPECTABLE) as process:
            await asyncio.to_thread(until_ready, where)
            outcome = await soak(where, process.pid, provider, files, seconds, speed)
            outcome.findings = await asyncio.to_thread(examine, where)
            return outcome


def grown(readings: list[Reading]) -> dict[str, Growth]:
    """Return the readings that grow in the second half of the time, by name."""
    kept = warm(readings)
    at_s = [reading.at_s for reading in kept]
    lines = {name: growth(at_s, [getattr(r, name) for r in kept]) for name in FLAT}
    return {name: line for name, line in lines.items() if not line.is_flat}


def report_outcome(report: Report, outcome: Outcome) -> bool:
    """Report all figures; return whether any misses its target."""
    kept = warm(outcome.readings)
    at_s = [reading.at_s for reading in kept]
    report.add("changes", outcome.changes, "")
    report.add("searches", len(outcome.searches_s) + len(outcome.keywords_s), "")
    report.add("answers of the provider that failed", _failed(outcome), "×", served=outcome.served)
    report.add_times("keyword search", outcome.keywords_s)
    report.add_times("hybrid search", outcome.searches_s, held_back=outcome.held_back)
    report.add_times("ping", outcome.pings_s)
    report.add_times("newest change found", outcome.found_s)
    for name in FLAT:
        values = [float(getattr(reading, name)) for reading in kept]
        line = growth(at_s, values)
        report.add(
            f"{name}: growth in the second half", line.change, "", at_most(round(line.bound, 3)),
            start=round(getattr(outcome.readings[0], name), 2),
            first=round(line.first, 2), noise=round(line.noise, 3), highest=max(values),
        )  # fmt: skip
    report.add("changes not found", len(outcome.lost), "", at_most(0), which=outcome.lost[:5])
    report.add("deleted texts found", len(outcome.risen), "", at_most(0), which=outcome.risen[:5])
    report.add("errors", len(outcome.errors), "", at_most(0), which=outcome.errors[:5])
    report.add("chunks without a vector at the end", outcome.waiting, "", at_most(0))
    errors = outcome.findings
    report.add("errors that the doctor finds", len(errors), "", at_most(0), which=errors[:5])
    return any(f.target is not None and not f.target.is_met(f.value) for f in report.figures)


def report_mixed(report: Report, outcome: MixedOutcome) -> bool:
    """Report all figures of a mixed soak; return whether any misses its target."""
    report.add("changes", outcome.changes, "", events=dict(outcome.events))
    report.add("conversations", outcome.conversations, "", messages=outcome.messages)
    report.add_times("keyword search", outcome.keywords_s)
    report.add_times("hybrid search", outcome.searches_s)
    report.add("highest resident memory", outcome.resident_mib, "MiB")
    for name, wrong in (
        ("texts not found", outcome.lost),
        ("deleted or forgotten texts found", outcome.risen),
        ("errors", outcome.errors),
        ("errors that the doctor finds", outcome.findings),
    ):
        report.add(name, len(wrong), "", at_most(0), which=wrong[:9])
    report.add("chunks without a vector at the end", outcome.waiting, "", at_most(0))
    return any(f.target is not None and not f.target.is_met(f.value) for f in report.figures)


def _failed(outcome: Outcome) -> float:
    total = sum(outcome.served.values())
    return 1 - outcome.served.get(200, 0) / total if total else 0.0
