"""Many files in many folders: indexing time, delay of pings, memory and descriptors."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.corpus import Prose
from bench.daemon import INSPECTABLE, Place, daemon, peak_bytes, place, resident_bytes, until_ready
from bench.figures import Report, at_most
from bench.wire import Prober, echo, indexing

MIB = 2**20
FOLDERS = 3_000
FILES_PER_FOLDER = 5
CHANGED = 10_000
ROUNDS = 6
DESCRIPTORS = 64
"""Maximum open descriptors of a daemon with one agent, however many folders it watches."""


def run(report: Report, *, quick: bool) -> None:
    """Index a large tree, check out another commit of it repeatedly, and read /proc."""
    part = 10 if quick else 1
    with place() as where, echo(where) as bare:
        where.configure('provider = "none"')
        folders = FOLDERS // part
        report.note(f"{folders * FILES_PER_FOLDER:,} files in {folders:,} folders ...")
        repository = where.root / "repository"
        _make_repository(repository, folders, CHANGED // part)
        (where.workspace / "memory").mkdir()
        with daemon(where, program=INSPECTABLE) as process:
            until_ready(where)
            with where.client() as client:
                client.sync()
            idle, before = resident_bytes(process.pid), descriptors(process.pid)
            with contextlib.closing(Prober(where.socket, bare)) as prober:
                repository.rename(where.workspace / "memory" / "repository")
                repository = where.workspace / "memory" / "repository"
                _timed(report, where, prober, f"{folders * FILES_PER_FOLDER:,} files indexed")
                report.add(
                    "memory above idle, at most", (peak_bytes(process.pid) - idle) / MIB, "MiB"
                )
                _until(lambda: watches(process.pid) >= folders)
                open_after, rss_after = descriptors(process.pid), resident_bytes(process.pid)
                for number in range(ROUNDS):
                    _git(repository, "checkout", "--quiet", ("second", "first")[number % 2])
                    title = f"{CHANGED // part:,} files changed by git checkout, round {number + 1}"
                    _timed(report, where, prober, title)
                with where.client() as client:
                    _until(lambda: not client.status().dirty)
            report.add("folders watched", watches(process.pid), "watches")
            report.add("descriptors when nothing is watched", before, "open")
            report.add("descriptors", open_after, "open", at_most(DESCRIPTORS))
            grown = descriptors(process.pid) - open_after
            report.add(f"descriptors after {ROUNDS} rounds", grown, "more", at_most(2))
            more = (resident_bytes(process.pid) - rss_after) / MIB
            report.add(f"memory after {ROUNDS} rounds", more, "MiB more")


def _timed(report: Report, where: Place, prober: Prober, title: str) -> None:
    """Report the time until a change is searchable, and the pings meanwhile."""
    started = time.perf_counter()
    rounds = prober.rounds(indexing(where))
    report.add(f"searchable after, {title}", time.perf_counter() - started, "s")
    report.add_times(f"ping meanwhile, {title}", rounds.ping_s)
    report.add(f"longest ping, {title}", max(rounds.ping_s) * 1000, "ms")
    report.add(f"longest bare echo, {title}", max(rounds.echo_s) * 1000, "ms")


def _make_repository(folder: Path, folders: int, changed: int) -> None:
    """Make a repository of notes with the commits `first` and `second`, and check out the first.

    `second` changes `changed` notes; it replaces a tenth of them by new ones.
    """
    prose, notes = Prose(), list[Path]()
    for number in range(folders):
        below = folder / f"{number // 50:02d}" / f"{number:04d}"
        below.mkdir(parents=True)
        notes += [below / f"note-{n}.md" for n in range(FILES_PER_FOLDER)]
    words = [prose.note(1) for _ in range(500)]
    for number, note in enumerate(notes):
        note.write_text(f"# Note {number}\n\n{words[number % 500]}")
    _git(folder, "init", "--quiet")
    _commit(folder, "first")
    for number, note in enumerate(notes[:changed]):
        if number % 10 == 0:
            note.unlink()
            note.with_name("new.md").write_text(f"# New {number}\n\n{words[number % 500]}")
        else:
            note.write_text(f"# Changed {number}\n\n{words[(number + 1) % 500]}")
    _commit(folder, "second")
    _git(folder, "checkout", "--quiet", "first")


def _commit(folder: Path, name: str) -> None:
    _git(folder, "add", "--all")
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    _git(folder, *who, "commit", "--quiet", "--message", name)
    _git(folder, "tag", name)


def _git(folder: Path, *arguments: str) -> None:
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "-C", str(folder), *arguments], env=environment, check=True)


def descriptors(pid: int) -> int:
    """Return the number of open descriptors of a process. Linux only."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def watches(pid: int) -> int:
    """Return the number of folders that a process watches. Linux only."""
    found = 0
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            found += info.read_text().count("inotify wd:")
    return found


def _until(condition: Callable[[], bool]) -> None:
    end = time.perf_counter() + 60
    while not condition() and time.perf_counter() < end:
        time.sleep(0.1)
