"""A soak with everything mixed: encodings, formats, deletions, copies, restarts and settings."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from bench.daemon import Place, daemon, resident_bytes, until_ready
from bench.soak.conversations import Conversations
from bench.soak.notes import MixedNotes
from bench.soak.provider import FailingProvider
from bench.soak.run import KEY, PATIENCE_S, Outcome, Searches, examine, paced, until_embedded
from memoryd_client import AsyncClient, MemorydError

CHANGES_PER_S = 10
SEARCHES_PER_S = 4
_LAST_REBUILD_S = 3_600.0
SAMPLE = 20
"""Words of conversations that are searched for at each check."""
EVERY_S = {
    "check": 10.0,
    "forget": 17.0,
    "export or import": 97.0,
    "restart": 203.0,
    "rebuild": 241.0,
    "doctor": 593.0,
}
_SETTINGS = ("", "chunking = { tokens = 250 }", "redact = { notes = true }")
_USUAL_PLACES = (
    "OPENCLAW_STATE_DIR",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "PI_CODING_AGENT_DIR",
    "XDG_DATA_HOME",
)


@dataclass(slots=True)
class MixedOutcome(Outcome):
    """Outcome of a mixed soak. `events` counts what happened to daemon and transcripts."""

    events: Counter[str] = field(default_factory=Counter)
    conversations: int = 0
    messages: int = 0
    resident_mib: float = 0.0


class MixedFiles(MixedNotes):
    """Notes, and the conversations of all agents, which change as often."""

    def __init__(self, workspace: Path, home: Path, dice: random.Random) -> None:
        super().__init__(workspace, home, dice)
        self.conversations = Conversations(home, dice)

    def change(self) -> Path:
        """Change a note or a conversation."""
        if self.dice.random() < 0.5:
            return super().change()
        self.changes += 1
        return self.say()

    def say(self) -> Path:
        """Let a conversation go on."""
        self.conversations.go_on()
        return self.transcripts


async def soak_mixed(
    where: Place,
    seconds: float,
    every_s: Mapping[str, float] = EVERY_S,
    changes_per_s: float = CHANGES_PER_S,
) -> MixedOutcome:
    """Feed a daemon everything at once for some seconds, then search for everything."""
    home = where.root / "home"
    home.mkdir()
    files = MixedFiles(where.workspace, home, random.Random(5))
    async with FailingProvider(random.Random(1)) as provider:
        soak = _MixedSoak(where, files, provider.url)
        soak.start()
        try:
            async with AsyncClient(where.socket, timeout_s=None, wait_s=PATIENCE_S) as client:
                await soak.run(client, seconds, every_s, changes_per_s)
        finally:
            await soak.stop()
    return soak.outcome


class _MixedSoak:
    """The daemon, and what is done with it."""

    def __init__(self, where: Place, files: MixedFiles, url: str) -> None:
        self.outcome = MixedOutcome()
        self._where = where
        self._files = files
        self._talks = files.conversations
        self._url = url
        self._variables = KEY | {"HOME": str(files.transcripts)} | dict.fromkeys(_USUAL_PLACES, "")
        self._settings = itertools.cycle(_SETTINGS)
        self._restarted = 0
        self._ways_to_restart = itertools.cycle(("terminate", "kill", "reload"))
        self._daemon: AbstractContextManager[Popen[bytes]] | None = None
        self._process: Popen[bytes] | None = None
        self._rebuild: asyncio.Task[None] | None = None
        self._exported: list[bytes] = []
        self._is_up = True

    def start(self) -> None:
        """Start the daemon with the next settings. Blocking."""
        self._configure()
        self._daemon = daemon(self._where, self._variables)
        self._process = self._daemon.__enter__()
        until_ready(self._where)

    async def stop(self, *, kill: bool = False) -> None:
        """End the daemon, and keep the errors in its log."""
        assert self._daemon is not None
        assert self._process is not None
        if kill:
            self._process.kill()
        await asyncio.to_thread(self._daemon.__exit__, None, None, None)
        log = (self._where.root / "memoryd.log").read_text(encoding="utf-8")
        self.outcome.errors += [line for line in log.splitlines() if _is_error(line)]

    async def run(
        self,
        client: AsyncClient,
        seconds: float,
        every_s: Mapping[str, float],
        changes_per_s: float,
    ) -> None:
        """Change files and do everything else in turn; then check everything."""
        searches = Searches(client, self._files, self.outcome)

        async def ask() -> None:
            if self._is_up:
                await searches.ask()

        work: dict[str, Callable[[], Awaitable[Any]]] = {
            "check": lambda: self._check(client, searches, SAMPLE),
            "forget": lambda: self._forget(client, searches),
            "export or import": lambda: self._transfer(client),
            "rebuild": lambda: self._start_rebuild(client),
            "restart": lambda: self._restart(client, searches),
            "doctor": lambda: self._doctor(client),
        }
        started = time.monotonic()
        due = {name: started + every_s[name] for name in work}
        asking = asyncio.create_task(paced(1 / SEARCHES_PER_S, ask))
        while time.monotonic() < started + seconds:
            self._files.change()
            for name in work:
                if due[name] <= time.monotonic():
                    if name not in ("check", "forget"):
                        self._talks.note(name)
                    await work[name]()
                    self.outcome.events[name] += 1
                    due[name] = time.monotonic() + every_s[name]
            await asyncio.sleep(1 / changes_per_s)
        asking.cancel()
        await searches.end()
        if self._rebuild is not None:
            await self._rebuild
        await self._check(client, searches, len(self._talks.words) + len(self._talks.gone))
        await searches.check_all()
        await until_embedded(client, self.outcome)
        await self._doctor(client)
        self.outcome.changes = self._files.changes
        self.outcome.events += self._talks.fates
        self.outcome.conversations = len(self._talks.all)
        self.outcome.messages = len(self._talks.words)

    async def _check(self, client: AsyncClient, searches: Searches, count: int) -> None:
        """Search for words of conversations."""
        await client.sync(vectors=False)
        self._talks.synced()
        for word in self._sampled(self._talks.words, count):
            if not await searches.finds(word):
                talk = next(talk for talk in self._talks.all if word in talk.words)
                self.outcome.lost.append(f"{word} of {talk!r}")
        for word in self._sampled(self._talks.gone, count):
            if await searches.finds(word):
                self.outcome.risen.append(word)
        assert self._process is not None
        resident_mib = resident_bytes(self._process.pid) / 2**20
        self.outcome.resident_mib = max(resident_mib, self.outcome.resident_mib)

    def _sampled(self, words: list[str], count: int) -> list[str]:
        return self._files.dice.sample(words, min(count, len(words)))

    async def _forget(self, client: AsyncClient, searches: Searches) -> None:
        """Forget a conversation, or one message of it."""
        await client.sync(vectors=False)
        self._talks.synced()
        talk = self._talks.some()
        if not talk.words:
            return
        word = self._files.dice.choice(talk.words)
        if self._files.dice.random() < 0.5:
            await client.forget(match=word)
            self._talks.forget(talk, word)
            return
        found = await client.search(word, mode="keyword", max_results=3)
        path = next((hit.path for hit in found.results if word in hit.snippet), "")
        if talk.name in path:  # a copy in a resumed session may be found instead
            await client.forget(path=path)
            self._talks.forget(talk)

    async def _transfer(self, client: AsyncClient) -> None:
        """Export all transcripts, or import the last export: nothing forgotten may come back."""
        if self._exported:
            for data in self._exported:
                await client.import_transcripts([data])
            self._exported = []
            return
        page = await client.export()
        self._exported = [transcript.data for transcript in page.transcripts]
        while page.next_after is not None:
            page = await client.export(after=page.next_after)
            self._exported += [transcript.data for transcript in page.transcripts]

    async def _start_rebuild(self, client: AsyncClient) -> None:
        if self._rebuild is None or self._rebuild.done():
            self._rebuild = asyncio.create_task(self._rebuilt(client, self._restarted))

    async def _rebuilt(self, client: AsyncClient, restarts: int) -> None:
        """Rebuild the index; a restart or an outage of the provider may interrupt it."""
        try:
            await client.index(force=True, confirm=True)
        except MemorydError as error:
            if restarts == self._restarted and not _is_of_provider(error):
                self.outcome.errors.append(f"rebuild: {error}")

    async def _restart(self, client: AsyncClient, searches: Searches) -> None:
        """Change the settings, and restart, kill or only reload the daemon."""
        how = next(self._ways_to_restart)
        self.outcome.events[how] += 1
        self._restarted += 1
        self._is_up = False
        await searches.end()
        if how == "reload":
            self._configure()
            await client.reload()
        else:
            await self.stop(kill=how == "kill")
            await asyncio.to_thread(self.start)
        await client.ping()
        self._is_up = True

    async def _doctor(self, client: AsyncClient) -> None:
        """Examine the index once it has the present settings."""
        async with asyncio.timeout(_LAST_REBUILD_S):
            while (await client.status()).custom.index_identity.status != "valid":
                with suppress(MemorydError):
                    await client.index(force=True, confirm=True)
                await asyncio.sleep(1)
        await client.sync(vectors=False)
        findings = await asyncio.to_thread(examine, self._where, self._variables)
        self.outcome.findings += findings

    def _configure(self) -> None:
        remote = f'provider = "openai"\nremote = {{ base_url = "{self._url}" }}\n'
        self._where.configure(f"{remote}sessions.enabled = true\n{next(self._settings)}\n")


def _is_of_provider(error: MemorydError) -> bool:
    return "openai answered" in str(error) or "connection" in str(error)


def _is_error(line: str) -> bool:
    return " ERROR " in line or "Traceback" in line
