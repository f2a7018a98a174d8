"""One soak: the load, the readings, and the checks of the results."""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bench.daemon import Place, environment
from bench.soak.files import Files
from bench.soak.growth import Reading, read
from bench.soak.provider import FailingProvider
from memoryd_client import AsyncClient, MemorydError

KEY = {"OPENAI_API_KEY": "sk-soak"}
CHANGES_PER_S = 50
SEARCHES_PER_S = 20
READ_EVERY_S = 2.0
CHECK_EVERY_S = 1.0
SEARCHES_AT_ONCE = 16
CACHE_ENTRIES = 2_000
PATIENCE_S = 60.0
"""Maximum seconds to wait for an answer."""


@dataclass(slots=True)
class Outcome:
    """Outcome of a soak. Times in seconds; `lost` and `risen` are words, `errors` messages.

    `found_s`: from a keyword `sync` request until the newest change is found. `held_back` counts
    searches that were skipped because too many were unanswered; `findings` are the doctor's errors.
    """

    changes: int = 0
    readings: list[Reading] = field(default_factory=list)
    searches_s: list[float] = field(default_factory=list)
    keywords_s: list[float] = field(default_factory=list)
    pings_s: list[float] = field(default_factory=list)
    found_s: list[float] = field(default_factory=list)
    held_back: int = 0
    lost: list[str] = field(default_factory=list)
    risen: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    served: dict[int, int] = field(default_factory=dict)
    waiting: int = 0
    findings: list[str] = field(default_factory=list)


def settings(url: str, transcripts: str) -> str:
    """Return the configuration of a soak, TOML for `[defaults]`."""
    return (
        f'provider = "openai"\nremote = {{ base_url = "{url}" }}\n'
        f"sync = {{ watch_debounce_ms = 300 }}\ncache = {{ max_entries = {CACHE_ENTRIES} }}\n"
        f'sessions = {{ enabled = true, paths = ["{transcripts}/*.jsonl"] }}\n'
    )


async def soak(
    where: Place, pid: int, provider: FailingProvider, files: Files, seconds: float, speed: float
) -> Outcome:
    """Put the daemon of a place under load for some seconds, then search for everything.

    `speed` multiplies its clock, and therefore the timeouts that we send.
    """
    outcome = Outcome()
    database = where.root / "index.sqlite"
    async with AsyncClient(where.socket, timeout_s=PATIENCE_S * speed, wait_s=PATIENCE_S) as client:
        await client.ping()
        started = time.monotonic()

        async def note_reading() -> None:
            tasks = (await client.status()).tasks
            age_s = time.monotonic() - started
            outcome.readings.append(await asyncio.to_thread(read, pid, database, age_s, tasks))

        async def change() -> None:
            files.change()

        searches = Searches(client, files, outcome)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for every_s, work in (
                    (1 / CHANGES_PER_S, change),
                    (1 / SEARCHES_PER_S, searches.ask),
                    (CHECK_EVERY_S, searches.check_newest),
                    (CHECK_EVERY_S, searches.ping),
                    (READ_EVERY_S, note_reading),
                ):
                    group.create_task(paced(every_s, work))
        await searches.end()
        outcome.changes = files.changes
        await client.sync(vectors=False, timeout_s=None)
        await searches.check_all()
        await until_embedded(client, outcome)
    outcome.served = dict(provider.served)
    return outcome


class Searches:
    """Sends requests, and records their times and wrong answers."""

    def __init__(self, client: AsyncClient, files: Files, outcome: Outcome) -> None:
        self._client = client
        self._files = files
        self._outcome = outcome
        self._asked: set[asyncio.Task[None]] = set()
        self._dice = random.Random(3)

    async def ask(self) -> None:
        """Send a search without waiting for it."""
        if len(self._asked) >= SEARCHES_AT_ONCE:
            self._outcome.held_back += 1
            return
        by_words = self._dice.random() < 0.5
        work = self._search("keyword" if by_words else "hybrid")
        task = asyncio.create_task(self._noted(work))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def ping(self) -> None:
        """Time a ping."""
        started = time.monotonic()
        await self._noted(self._client.ping())
        self._outcome.pings_s.append(time.monotonic() - started)

    async def check_newest(self) -> None:
        """Search for the last change and for deleted texts."""
        if not self._files.words:
            return
        path, word = next(reversed(self._files.words.items()))
        gone = self._files.gone[-1:]
        started = time.monotonic()
        await self._noted(self._client.sync(vectors=False, timeout_s=None))
        found = await self.finds(word)
        self._outcome.found_s.append(time.monotonic() - started)
        # The text may have changed again meanwhile.
        if not found and self._files.words.get(path) == word:
            self._outcome.lost.append(f"{word} of {path.name}")
        self._outcome.risen += [word for word in gone if await self.finds(word)]

    async def check_all(self) -> None:
        """Search for the word of every text, and for deleted words."""
        for path, word in self._files.words.items():
            if not await self.finds(word):
                self._outcome.lost.append(f"{word} of {path.name}, at the end")
        for word in self._files.gone:
            if await self.finds(word):
                self._outcome.risen.append(f"{word}, at the end")

    async def end(self) -> None:
        """Wait for the searches under way."""
        if self._asked:
            await asyncio.wait(set(self._asked))

    async def _search(self, mode: str) -> None:
        started = time.monotonic()
        await self._client.search(self._files.question(), mode=mode)
        took_s = time.monotonic() - started
        times = self._outcome.keywords_s if mode == "keyword" else self._outcome.searches_s
        times.append(took_s)

    async def finds(self, word: str) -> bool:
        """Return whether a search finds a text with this word."""
        found = await self._client.search(word, mode="keyword", max_results=3)
        return any(word in hit.snippet for hit in found.results)

    async def _noted(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except MemorydError as error:
            self._outcome.errors.append(f"{type(error).__name__}: {error}")


async def paced(every_s: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do something at a steady pace, without catching up on delays."""
    due = time.monotonic()
    while True:
        await work()
        due = max(due + every_s, time.monotonic() - every_s)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


def examine(where: Place, variables: Mapping[str, str] | None = None) -> list[str]:
    """Let the doctor compare disk, index and vectors; return the errors that it finds."""
    command = [sys.executable, "-m", "memoryd", "doctor", "--json"]
    done = subprocess.run(
        [*command, "--config", str(where.root / "config.toml"), "--socket", where.socket],
        env=environment() | KEY | dict(variables or {}),
        stdout=subprocess.PIPE,
        check=False,
    )
    found = json.loads(done.stdout)["findings"]
    return [f"{f['check']}: {f['message']}" for f in found if f["level"] == "error"]


async def until_embedded(client: AsyncClient, outcome: Outcome) -> None:
    """Wait until every chunk has its vector, at most as long as an outage may last."""
    with suppress(TimeoutError):
        async with asyncio.timeout(120):
            while (await client.status()).pending_vectors:
                await client.probe()
                await client.sync()
    outcome.waiting = (await client.status()).pending_vectors
