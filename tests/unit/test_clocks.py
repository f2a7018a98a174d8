"""Clock changes: clocks set back or ahead, daylight saving time, and new time zones.

Delays use a monotonic clock; dates use the wall clock.
"""

import asyncio
import datetime
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import settle

from memoryd.chunk.facts import date_of_note
from memoryd.config.settings import Batch
from memoryd.embed.batch.api import JobState
from memoryd.embed.batch.jobs import Batches
from memoryd.embed.batch.mode import BatchMode
from memoryd.messages import BatchJobRow, FileFacts, FileKey, FileStat, JobChange
from memoryd.search.ageing import age_factor, age_of
from memoryd.search.query import Filters, modified_on
from memoryd.source.transcripts.due import Thresholds
from memoryd.source.transcripts.locations import Found
from memoryd.source.transcripts.tracker import TranscriptTracker

YEAR_S = 365 * 86_400.0
NOW_S = 1_800_000_000.0


@dataclass
class Clocks:
    """A monotonic clock, and a wall clock that tests may set."""

    steady_s: float = 1_000.0
    wall_s: float = NOW_S
    slept: list[float] = field(default_factory=list)

    def steady(self) -> float:
        return self.steady_s

    def wall(self) -> float:
        return self.wall_s

    def pass_by(self, seconds: float) -> None:
        self.steady_s += seconds
        self.wall_s += seconds


# --- batch jobs


class StuckApi:
    """A vendor whose jobs never end and which records its requests."""

    def __init__(self) -> None:
        self.looks = 0
        self.cancelled = 0

    async def state(self, remote_id: str) -> JobState:
        self.looks += 1
        return JobState("running", "in_progress")

    async def cancel(self, remote_id: str) -> None:
        self.cancelled += 1


class Office:
    """Batch jobs with these clocks; `step` advances the time and runs all due work."""

    def __init__(self, clocks: Clocks, created_at: float) -> None:
        self.clocks, self.api, self.mode = clocks, StuckApi(), BatchMode()
        self.writer: asyncio.Queue[Any] = asyncio.Queue()
        self.wake = asyncio.Event()
        job = BatchJobRow("key", "openai", "m", "k", created_at, ["text"], remote_id="r")

        async def batch_jobs() -> list[BatchJobRow]:
            return [job]

        api: Any = self.api
        identity = SimpleNamespace(provider="openai", model="m", provider_key="k")
        index: Any = SimpleNamespace(
            path=Path("/index"), target_identity=lambda **_: identity, batch_jobs=batch_jobs
        )
        calls: Any = SimpleNamespace(counts=SimpleNamespace(items=0), provider=SimpleNamespace())
        self.batches = Batches(
            self.writer,
            index,
            api=api,
            mode=self.mode,
            calls=calls,
            settings=Batch(poll_interval_ms=10_000, timeout_minutes=60),
            sleep=self.sleep,
            clock=clocks.steady,
            wall_clock=clocks.wall,
            jitter=lambda: 0.0,
        )

    async def sleep(self, seconds: float) -> None:
        end_s = self.clocks.steady_s + seconds
        while self.clocks.steady_s < end_s:
            await self.wake.wait()

    async def write(self) -> None:
        while True:
            message = await self.writer.get()
            if isinstance(message, JobChange):
                message.done.set_result(None)

    async def step(self, seconds: float) -> None:
        self.clocks.pass_by(seconds)
        woken, self.wake = self.wake, asyncio.Event()
        woken.set()
        await settle()


@asynccontextmanager
async def office(clocks: Clocks, created_at: float = NOW_S) -> AsyncIterator[Office]:
    made = Office(clocks, created_at)
    tasks = [asyncio.create_task(made.batches.run()), asyncio.create_task(made.write())]
    await made.step(0.0)
    yield made
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.parametrize("jump_s", [-YEAR_S, -3_600.0, 3_600.0, YEAR_S])
async def test_a_batch_job_is_asked_for_as_before_when_the_clock_is_set(jump_s: float) -> None:
    clocks = Clocks()
    async with office(clocks) as made:
        await made.step(10.0)
        assert made.api.looks == 1
        clocks.wall_s += jump_s
        await made.step(15.0)
        assert (made.api.looks, made.api.cancelled) == (2, 0), (
            "the job is neither cancelled nor forgotten"
        )
        for _ in range(12):
            await made.step(300.0)
        assert made.api.cancelled == 1, "the job is cancelled after an hour"
        assert made.mode.off_reason is None


@pytest.mark.parametrize("created_at", [0.0, NOW_S + YEAR_S])
async def test_a_job_of_another_time_that_was_left_is_not_given_up_at_once(
    created_at: float,
) -> None:
    async with office(Clocks(), created_at) as made:
        await made.step(10.0)
        assert (made.api.looks, made.api.cancelled) == (1, 0)


# --- transcripts


@pytest.mark.parametrize("jump_s", [-YEAR_S, -60.0, 60.0, YEAR_S])
def test_a_transcript_falls_idle_whatever_the_clock_says(jump_s: float, tmp_path: Path) -> None:
    clocks = Clocks()
    key, path = FileKey("sessions", "sessions/a/1.jsonl"), tmp_path / "1.jsonl"
    path.write_text("{}\n")
    # The file was written by the old wall clock, which has been set since.
    stat = FileStat(int((NOW_S - jump_s) * 1e9), 3, 1)
    unused: Any = None
    mounts: Any = SimpleNamespace(judge=lambda *_, **__: SimpleNamespace(away={}))
    transcripts: Any = SimpleNamespace(
        find=lambda: Found({key: (path, stat)}),
        open_file=lambda file: os.open(file, os.O_RDONLY),
        first_record=lambda file: "",
        thresholds=Thresholds(delta_bytes=1_000, delta_messages=100, idle_s=30.0),
    )
    tracker = TranscriptTracker(
        unused,
        unused,
        unused,
        transcripts,
        mounts=mounts,
        thread=unused,
        clock=clocks.steady,
        wall_clock=clocks.wall,
    )

    def is_due() -> bool:
        return bool(tracker._plan({}, frozenset(), False, False).due)

    # A file older than 30 s by its own time is read at once. Otherwise the wait is at most 30 s,
    # never a year.
    assert is_due() == (jump_s >= 30.0)
    clocks.pass_by(29.0)
    assert is_due() == (jump_s >= 30.0)
    clocks.pass_by(1.0)
    assert is_due()
    stat = FileStat(stat.mtime_ns, 4, 1)
    clocks.wall_s = stat.mtime_ns / 1e9
    assert not is_due(), "a changed file is not idle"


# --- dates


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Change the time zone, as a traveller does."""

    def travel(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield travel
    monkeypatch.undo()
    time.tzset()


def transcript_at(moment: str) -> FileStat:
    """Return the stat of a file written at this moment, in UTC."""
    at_s = datetime.datetime.fromisoformat(f"{moment}+00:00").timestamp()
    return FileStat(int(at_s * 1e9), 1, 1)


SESSION = FileKey("sessions", "sessions/a/1.jsonl")
# POSIX rules, which need no time zone files: Berlin, Auckland, and a zone with a half hour.
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
AUCKLAND = "NZST-12NZDT,M9.5.0,M4.1.0/3"
KOLKATA = "IST-5:30"


@pytest.mark.parametrize(
    ("name", "moment", "date"),
    [
        ("UTC", "2026-03-28 23:30", "2026-03-28"),
        (BERLIN, "2026-03-28 23:30", "2026-03-29"),
        # The nights of 23 and of 25 hours.
        (BERLIN, "2026-03-29 21:59", "2026-03-29"),
        (BERLIN, "2026-03-29 22:00", "2026-03-30"),
        (BERLIN, "2026-10-25 00:30", "2026-10-25"),
        (BERLIN, "2026-10-25 01:30", "2026-10-25"),
        (BERLIN, "2026-10-25 22:59", "2026-10-25"),
        (AUCKLAND, "2026-03-28 11:30", "2026-03-29"),
        (KOLKATA, "2026-03-28 18:30", "2026-03-29"),
    ],
)
def test_a_date_is_that_of_who_asks(zone: Any, name: str, moment: str, date: str) -> None:
    zone(name)
    stat, day = transcript_at(moment), datetime.date.fromisoformat(date)
    assert modified_on(stat) == day
    one = datetime.timedelta(days=1)
    assert Filters(since=day, until=day).accept(SESSION, stat)
    assert not Filters(since=day + one).accept(SESSION, stat)
    assert not Filters(until=day - one).accept(SESSION, stat)


def test_a_note_of_a_day_stays_of_that_day_wherever_one_travels(zone: Any) -> None:
    note = FileKey("memory", "memory/2026-03-29.md")
    for name in ("UTC", BERLIN, AUCKLAND, KOLKATA):
        zone(name)
        day = datetime.date(2026, 3, 29)
        stat, own = transcript_at("2001-01-01 00:00"), FileFacts(date=date_of_note(note.path, {}))
        assert age_of(own.date, day, 30.0, 0.0) == (day, 1.0)
        assert Filters(since=day, until=day).accept(note, stat, own)


def test_short_and_long_days_count_as_days_and_the_future_as_today() -> None:
    day = datetime.date(2026, 3, 28)
    for later, left in [(0, 1.0), (1, 0.5**0.5), (2, 0.5), (-400, 1.0)]:
        today = day + datetime.timedelta(days=later)
        assert age_factor(day, today, half_life_days=2.0, floor=0.0) == pytest.approx(left)


@pytest.mark.parametrize("mtime_ns", [-(2**63) + 1, 0, 2**63 - 1])
def test_no_time_of_a_file_is_too_early_or_too_late(mtime_ns: int) -> None:
    stat = FileStat(mtime_ns, 1, 1)
    today = datetime.date(2026, 11, 28)
    date = modified_on(stat)
    assert 0.0 <= age_factor(date, today, half_life_days=30.0, floor=0.0) <= 1.0
    assert Filters(since=today).accept(SESSION, stat) == (date >= today)
