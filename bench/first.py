"""First indexing of many notes, and a scan without changes, against the bare minimum.

The baselines run in this process: reading, hashing and inserting the same text into a bare FTS5
table, and walking the same tree with `os.scandir` and `stat`.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.corpus import Prose, write_notes
from bench.daemon import Place, daemon, peak_bytes, place, resident_bytes, until_ready
from bench.figures import Report, at_most
from memoryd.index.driver import sqlite
from memoryd.source.notes.discover import Discovery
from memoryd.text.tokenize import FTS5_TOKENIZE

NOTES = 10_000
FEWER_NOTES = 2_500
ROUNDS = 3
SCANS = 9
MIB = 2**20


def run(report: Report, *, quick: bool) -> None:
    """Index thousands of notes of 4 kB several times, then a quarter as many."""
    with tempfile.TemporaryDirectory(prefix="mnotes-", dir="/tmp") as folder:
        notes = Path(folder)
        count = FEWER_NOTES if quick else NOTES
        report.note(f"writing {count:,} notes ...")
        _write(notes, count)
        _first_index(report, notes, count, rounds=1 if quick else ROUNDS)
        _scan(report, notes, count)
    if not quick:
        with tempfile.TemporaryDirectory(prefix="mnotes-", dir="/tmp") as folder:
            _write(Path(folder), FEWER_NOTES)
            report.note(f"indexing {FEWER_NOTES:,} notes ...")
            _memory(report, _index(Path(folder)), FEWER_NOTES)


def _write(folder: Path, count: int) -> None:
    """Write notes of three and four sections, 4 kB on average."""
    prose, longer = Prose(), count // 3
    write_notes(folder, count - longer, prose, sections=3)
    write_notes(folder, longer, prose, sections=4, first=count - longer)


@dataclass(frozen=True, slots=True)
class _Indexed:
    """One first indexing: seconds from the first scan and from process start; bytes of memory."""

    warm_s: float
    cold_s: float
    idle_bytes: int
    peak_bytes: int


def _first_index(report: Report, notes: Path, count: int, *, rounds: int) -> None:
    size = sum(path.stat().st_size for path in notes.rglob("*.md"))
    title = f"{count:,} notes"
    report.note(f"indexing {title}, {size / 1e6:.0f} MB, {rounds} times ...")
    bare_s: list[float] = []
    indexed: list[_Indexed] = []
    for _ in range(rounds):
        bare_s.append(_bare_index(notes))
        indexed.append(_index(notes))
    bare, warm = median(bare_s), median(each.warm_s for each in indexed)
    cold = median(each.cold_s for each in indexed)
    report.add(f"read, hash, insert into bare FTS5, {title}", bare, "s", bytes=size)
    report.add(f"first index, from the first scan, {title}", warm, "s")
    report.add(f"first index, from the start of the process, {title}", cold, "s")
    report.add(f"first index ÷ bare FTS5, {title}", warm / bare, "×", at_most(3.0))
    report.add(f"the same from the start of the process, {title}", cold / bare, "×")
    _memory(report, max(indexed, key=lambda each: each.peak_bytes), count)


def _memory(report: Report, indexed: _Indexed, count: int) -> None:
    above = (indexed.peak_bytes - indexed.idle_bytes) / MIB
    report.add(
        f"memory above idle while {count:,} notes are indexed",
        above,
        "MiB",
        at_most(200.0),
        idle_mib=round(indexed.idle_bytes / MIB),
    )


def _bare_index(notes: Path) -> float:
    """Read, hash and insert all notes in one transaction; return the seconds."""
    with tempfile.TemporaryDirectory(prefix="mbare-") as folder:
        connection = sqlite.connect(f"{folder}/bare.sqlite", isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(
                f'CREATE VIRTUAL TABLE bare USING fts5(text, tokenize = "{FTS5_TOKENIZE}")'
            )
            started = time.perf_counter()
            connection.execute("BEGIN")
            for path in notes.rglob("*.md"):
                data = path.read_bytes()
                hashlib.sha256(data).hexdigest()
                connection.execute("INSERT INTO bare VALUES (?)", (data.decode(),))
            connection.execute("COMMIT")
            return time.perf_counter() - started
        finally:
            connection.close()


def _index(notes: Path) -> _Indexed:
    """Index notes that are moved to a running daemon, then notes that a daemon starts with."""
    with place() as where:
        where.configure('provider = "none"')
        with daemon(where) as process:
            until_ready(where)
            with where.client() as client:
                client.sync()
                idle = resident_bytes(process.pid)
                _copy(notes, where)
                started = time.perf_counter()
                client.sync()
                warm_s = time.perf_counter() - started
                peak = peak_bytes(process.pid)
        for file in where.root.glob("index.sqlite*"):
            file.unlink()
        started = time.perf_counter()
        with daemon(where), where.client() as client:
            client.sync()
            cold_s = time.perf_counter() - started
    return _Indexed(warm_s, cold_s, idle, peak)


def _copy(notes: Path, where: Place) -> None:
    """Link the notes outside the workspace, then move all of them in at once."""
    for path in notes.rglob("*.md"):
        link = where.root / "new" / path.relative_to(notes)
        link.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, link)
    (where.root / "new" / "memory").rename(where.workspace / "memory")


def _scan(report: Report, notes: Path, count: int) -> None:
    """Scan an unchanged tree: walk it and compare every file with the known stats."""
    discovery = Discovery(notes.resolve(), ())
    known = discovery.scan().stats

    def scan() -> None:
        found = discovery.scan()
        assert not [key for key, stat in found.stats.items() if known.get(key) != stat]
        assert not known.keys() - found.stats.keys()

    bare_s: list[float] = []
    scan_s: list[float] = []
    for _ in range(SCANS):
        bare_s.append(_timed(lambda: _walk(str(notes))))
        scan_s.append(_timed(scan))
    bare, ours = median(bare_s), median(scan_s)
    title = f"{count:,} notes, nothing changed"
    report.add(f"os.scandir and stat, {title}", bare * 1000, "ms")
    report.add(f"scan, {title}", ours * 1000, "ms")
    report.add(f"scan ÷ os.scandir and stat, {title}", ours / bare, "×", at_most(3.0))


def _walk(folder: str) -> None:
    with os.scandir(folder) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False):
                _walk(entry.path)
            else:
                entry.stat(follow_symlinks=False)


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
