"""The asyncio client: one connection, any number of calls at a time."""

from collections.abc import AsyncGenerator

from memoryd_client.schema.agents import AddResult, AgentsResult, DropResult, ReloadResult
from memoryd_client.schema.memory import (
    ConfigResult,
    Event,
    FileEntry,
    FilesResult,
    GetBody,
    GetResult,
    IndexResult,
    PingResult,
    ProbeResult,
    SessionStartResult,
    SyncResult,
    TranscriptUpdatedResult,
)
from memoryd_client.schema.notes import NoteAction, NoteBody, NoteKind, NoteResult
from memoryd_client.schema.promotion import PromoteResult
from memoryd_client.schema.recall import ContextResult, RecallResult
from memoryd_client.schema.search import Origin, SearchBody, SearchResult
from memoryd_client.schema.stale import StaleResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.schema.transcripts import (
    ExportResult,
    ForgetBody,
    ForgetResult,
    ImportResult,
    SessionEntry,
    SessionsResult,
)
from memoryd_client.shared import paths
from memoryd_client.transport.async_fact_calls import AsyncFactCalls
from memoryd_client.transport.async_link import follow
from memoryd_client.wire import requests
from memoryd_client.wire.requests import ProgressCallback


class AsyncClient(AsyncFactCalls):
    """Asyncio client of memoryd, for one event loop; calls of several tasks run concurrently.

    Use it as `async with AsyncClient() as client`, or call `close` at the end. Connects on
    entering or on the first call. For reconnecting, the arguments and the time of calls see
    `Client`. All methods raise `MemorydError`s. Cancelling the task that awaits a call cancels the
    request in the daemon too.
    """

    async def ping(self, *, timeout_s: float | None = None) -> PingResult:
        """Return the version, pid and uptime of the daemon."""
        return await self._run(requests.PING, timeout_s)

    async def status(self, *, timeout_s: float | None = None) -> StatusResult:
        """Return the status of the index and the daemon."""
        return await self._run(requests.STATUS, timeout_s)

    async def config(self, *, timeout_s: float | None = None) -> ConfigResult:
        """Return the effective settings and their origins."""
        return await self._run(requests.CONFIG, timeout_s)

    async def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        sources: list[str] | None = None,
        path_glob: str | None = None,
        since: str | None = None,
        until: str | None = None,
        visibility: str | None = None,
        session: str | None = None,
        mode: str | None = None,
        max_chars: int | None = None,
        explain: bool = False,
        highlight: bool = False,
        trusted: bool = False,
        min_confidence: float | None = None,
        now: str | None = None,
        chat_type: str | None = None,
        origins: list[str] | None = None,
        conversation: str | None = None,
        timeout_s: float | None = None,
    ) -> SearchResult:
        """Return cited snippets that answer `query`, best first; see `SearchBody`."""
        body = SearchBody(
            query=query,
            max_results=max_results,
            min_score=min_score,
            sources=sources,
            path_glob=path_glob,
            since=since,
            until=until,
            visibility=visibility,
            session=session,
            mode=mode,
            max_chars=max_chars,
            explain=explain,
            highlight=highlight,
            trusted=trusted,
            min_confidence=min_confidence,
            now=now,
            chat_type=chat_type,
            origins=origins,
            conversation=conversation,
        )
        return await self._run(requests.search(body), timeout_s)

    async def get(
        self,
        path: str,
        *,
        start_line: int = 1,
        lines: int | None = None,
        raw: bool = False,
        session: str | None = None,
        chat_type: str | None = None,
        timeout_s: float | None = None,
    ) -> GetResult:
        """Return whole lines of a memory file, from `start_line` (1-based); see `GetBody`."""
        body = GetBody(path, start_line, lines, raw, session, chat_type)
        return await self._run(requests.get(body), timeout_s)

    async def context(
        self,
        session: str = "",
        *,
        chat_type: str = "direct",
        max_chars: int = 8_000,
        now: str | None = None,
        timeout_s: float | None = None,
    ) -> ContextResult:
        """Return the notes that a session begins with, for a prompt; see `ContextBody`."""
        call = requests.context(session, chat_type=chat_type, max_chars=max_chars, now=now)
        return await self._run(call, timeout_s)

    async def recall(
        self,
        message: str,
        *,
        max_chars: int = 1_500,
        now: str | None = None,
        chat_type: str = "direct",
        timeout_s: float | None = None,
    ) -> RecallResult:
        """Return at most three entries of notes that fit `message`; see `RecallBody`."""
        call = requests.recall(message, max_chars=max_chars, now=now, chat_type=chat_type)
        return await self._run(call, timeout_s)

    async def sync(
        self,
        *,
        vectors: bool = True,
        on_progress: ProgressCallback | None = None,
        timeout_s: float | None = None,
    ) -> SyncResult:
        """Wait until all changes so far are searchable; without `vectors`, by keywords.

        `on_progress(completed, total, label)` is called in the event loop; it must not block.
        """
        return await self._run(requests.sync(vectors=vectors), timeout_s, on_progress)

    async def index(
        self,
        *,
        force: bool = False,
        provider: str | None = None,
        confirm: bool = False,
        on_progress: ProgressCallback | None = None,
        timeout_s: float | None = None,
    ) -> IndexResult:
        """Bring the index up to date, or rebuild it with `force`; see `IndexBody`.

        `on_progress(completed, total, label)` is called in the event loop; it must not block.
        """
        return await self._run(
            requests.index(force=force, provider=provider, confirm=confirm), timeout_s, on_progress
        )

    async def files(
        self, state: str = "indexed", *, timeout_s: float | None = None
    ) -> AsyncGenerator[FileEntry, None]:
        """Yield all files in a state, by path; see `FilesBody`. `timeout_s` is per page."""
        after: str | None = None
        while True:
            page = await self.files_page(state, after=after, timeout_s=timeout_s)
            for entry in page.files:
                yield entry
            if (after := page.next_after) is None:
                return

    async def files_page(
        self,
        state: str = "indexed",
        *,
        after: str | None = None,
        limit: int = 200,
        timeout_s: float | None = None,
    ) -> FilesResult:
        """Return one page of files; `after` is the `next_after` of the previous page."""
        return await self._run(requests.files(state, after=after, limit=limit), timeout_s)

    async def why(self, path: str, *, timeout_s: float | None = None) -> FileEntry:
        """Return the state of one path, and the reason if it is not indexed; see `FileEntry`."""
        return (await self._run(requests.why(path), timeout_s)).files[0]

    async def sessions(
        self, *, timeout_s: float | None = None
    ) -> AsyncGenerator[SessionEntry, None]:
        """Yield all transcripts, by name. `timeout_s` applies to each page."""
        after: str | None = None
        while True:
            page = await self.sessions_page(after=after, timeout_s=timeout_s)
            for entry in page.sessions:
                yield entry
            if (after := page.next_after) is None:
                return

    async def sessions_page(
        self, *, after: str | None = None, limit: int = 200, timeout_s: float | None = None
    ) -> SessionsResult:
        """Return one page of transcripts; `after` is the `next_after` of the previous page."""
        return await self._run(requests.sessions(after=after, limit=limit), timeout_s)

    async def forget(
        self,
        *,
        session: str | None = None,
        path: str | None = None,
        match: str | None = None,
        gone: bool = False,
        dry_run: bool = False,
        delete_source: bool = False,
        timeout_s: float | None = None,
    ) -> ForgetResult:
        """Permanently forget notes, transcripts or messages; see `ForgetBody`."""
        body = ForgetBody(session, path, match, dry_run, delete_source, gone)
        return await self._run(requests.forget(body), timeout_s)

    async def export(
        self, *, after: str | None = None, timeout_s: float | None = None
    ) -> ExportResult:
        """Return one page of packed transcripts; `after` is the `next_after` of the previous."""
        return await self._run(requests.export(after), timeout_s)

    async def import_transcripts(
        self, transcripts: list[bytes], *, dry_run: bool = False, timeout_s: float | None = None
    ) -> ImportResult:
        """Have exported transcripts kept, of which all are checked first; see `ImportBody`."""
        return await self._run(requests.import_transcripts(transcripts, dry_run=dry_run), timeout_s)

    async def note(
        self,
        text: str = "",
        *,
        file: str = "today",
        heading: str | None = None,
        kind: NoteKind | None = None,
        action: NoteAction = "write",
        origin: Origin = Origin.AGENT,
        conversation: str | None = None,
        observed: str | None = None,
        supersedes: str | None = None,
        timeout_s: float | None = None,
    ) -> NoteResult:
        """Write a note that is searchable at once, or undo or restore notes; see `NoteBody`."""
        source = origin, conversation, observed, supersedes
        body = NoteBody(text, file, heading, kind, action, *source)
        return await self._run(requests.note(body), timeout_s)

    async def promote(
        self,
        *,
        apply: bool = False,
        candidate: str | None = None,
        limit: int | None = None,
        timeout_s: float | None = None,
    ) -> PromoteResult:
        """Return candidates for MEMORY.md, or add some with `apply`; see `PromoteBody`."""
        call = requests.promote(apply=apply, candidate=candidate, limit=limit)
        return await self._run(call, timeout_s)

    async def stale(self, *, timeout_s: float | None = None) -> StaleResult:
        """Return the entries of MEMORY.md that newer notes contradict; see `StaleEntry`."""
        return await self._run(requests.STALE, timeout_s)

    async def flush_prompt(self, session: str = "", *, timeout_s: float | None = None) -> str:
        """Return the instruction to save notes before a compaction; see `should_flush`."""
        from datetime import datetime

        from memoryd_client.flush import flush_text

        config = await self.config(timeout_s=timeout_s)
        settings = {setting.key: setting.value for setting in config.values}
        return flush_text(settings, session, datetime.now().astimezone())

    async def probe(self, *, timeout_s: float | None = None) -> ProbeResult:
        """Test everything that a search needs and return the checks."""
        return await self._run(requests.PROBE, timeout_s)

    async def session_start(
        self, session: str = "", *, timeout_s: float | None = None
    ) -> SessionStartResult:
        """Report the start of an agent's session, which updates its index."""
        return await self._run(requests.session_start(session), timeout_s)

    async def transcript_updated(
        self, path: paths.StrPath, *, timeout_s: float | None = None
    ) -> TranscriptUpdatedResult:
        """Report that the transcript at `path` has changed."""
        return await self._run(requests.transcript_updated(path), timeout_s)

    async def agents(self, *, timeout_s: float | None = None) -> AgentsResult:
        """Return the agents of the daemon, and the agent of this client."""
        return await self._run(requests.AGENTS, timeout_s)

    async def add(self, workspace: paths.StrPath, *, timeout_s: float | None = None) -> AddResult:
        """Serve another workspace, across restarts of the daemon, until `drop`."""
        return await self._run(requests.add(workspace), timeout_s)

    async def drop(self, agent: paths.StrPath, *, timeout_s: float | None = None) -> DropResult:
        """Stop serving an added workspace, given its agent's id or a path with a `/`."""
        return await self._run(requests.drop(agent), timeout_s)

    async def reload(self, *, timeout_s: float | None = None) -> ReloadResult:
        """Reload the daemon's configuration and return the changes."""
        return await self._run(requests.RELOAD, timeout_s)

    def events(self, kinds: list[str] | None = None) -> AsyncGenerator[Event, None]:
        """Yield events as they happen; see `Event`.

        Uses a connection of its own, which ends with the generator. Raises if the connection ends
        first; the stream is not resumed.
        """
        call = requests.events(kinds)
        return follow(self._target, call, self.agent, wait_s=self._wait_s, limit_s=self._timeout_s)
