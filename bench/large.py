"""Huge files: the time and memory to index them, and the delay of pings meanwhile."""

import contextlib
import time
from collections.abc import Callable, Iterator

from bench.corpus import Prose
from bench.daemon import daemon, peak_bytes, place, resident_bytes, until_ready
from bench.figures import Report
from bench.wire import Prober, echo, indexing

MIB = 2**20
SECTIONS = 500
"""Number of distinct sections; a number in each copy makes all of them different."""


def run(report: Report, *, quick: bool) -> None:
    """Save one huge file after the other, and ping until keyword search finds it."""
    part = 10 if quick else 1
    sections = _sections()
    files: list[tuple[str, Callable[[], Iterator[str]]]] = [
        (f"{100 // part} MB of Markdown", lambda: _up_to(sections, 100_000_000 // part)),
        (f"{1_000_000 // part:,} lines", lambda: _lines(1_000_000 // part)),
        (
            f"one line of {50 // part} MB",
            lambda: (s.replace("\n", " ") for s in _up_to(sections, 50_000_000 // part)),
        ),
    ]
    for title, text in files:
        _one(report, title, text())


def _one(report: Report, title: str, text: Iterator[str]) -> None:
    report.note(f"indexing {title} ...")
    with place() as where, echo(where) as bare:
        where.configure('provider = "none"')
        (where.workspace / "memory").mkdir()
        with (where.root / "new.md").open("w", encoding="utf-8") as file:
            file.writelines(text)
        with daemon(where) as process:
            until_ready(where)
            with where.client() as client:
                client.sync()
            idle = resident_bytes(process.pid)
            with contextlib.closing(Prober(where.socket, bare)) as prober:
                (where.root / "new.md").rename(where.workspace / "memory" / "huge.md")
                started = time.perf_counter()
                rounds = prober.rounds(indexing(where))
                taken_s = time.perf_counter() - started
            peak = peak_bytes(process.pid)
    report.add(f"saved to keyword-searchable, {title}", taken_s, "s")
    report.add_times(f"ping while it is indexed, {title}", rounds.ping_s)
    report.add(f"longest ping while it is indexed, {title}", max(rounds.ping_s) * 1000, "ms")
    report.add(f"memory above idle, {title}", (peak - idle) / MIB, "MiB")


def _sections() -> list[str]:
    prose = Prose()
    return [prose.note(1) for _ in range(SECTIONS)]


def _up_to(sections: list[str], size: int) -> Iterator[str]:
    written = number = 0
    while written < size:
        text = sections[number % SECTIONS].replace("\n\n", f"\n\n{number} ", 1)
        yield text
        written += len(text)
        number += 1


def _lines(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"- line {number} of a list, {number * 7919 % 10_007}\n"
