"""The blocking client: one connection, one call at a time."""

from collections.abc import Generator

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
from memoryd_client.transport.blocking_link import follow
from memoryd_client.transport.fact_calls import FactCalls
from memoryd_client.wire import requests
from memoryd_client.wire.requests import ProgressCallback


class Client(FactCalls):
    """Blocking client of memoryd. Threads may share it: their calls take turns.

    Connects on the first call or on entering the `with` block, and reconnects after a loss. An
    idempotent call is then sent again, within its time; `index` with `force`, `add`, `drop`,
    `reload`, `note` with `undo` and `promote` with `apply` are not. Every method takes `timeout_s`,
    which defaults to the client's (`sync`, `index` and `stale`: no limit; `probe`: 120); `math.inf`
    means no limit. All methods raise `MemorydError`s.

    `agent` may be changed between calls; None: the agent whose workspace contains the current
    directory, as of the client's creation, else the daemon's default. `socket_path` defaults to
    `default_socket_path()`; `timeout_s` is the limit for an answer in seconds (None: no limit),
    `wait_s` the limit for a starting daemon. `autostart` allows a start if the user's
    configuration enables it; `name` introduces the client. The daemon may count what searches of
    a client of the `kind` `agent` return. Raises `ValueError` for a socket path longer than the
    system allows.
    """

    def ping(self, *, timeout_s: float | None = None) -> PingResult:
        """Return the version, pid and uptime of the daemon."""
        return self._run(requests.PING, timeout_s)

    def status(self, *, timeout_s: float | None = None) -> StatusResult:
        """Return the status of the index and the daemon."""
        return self._run(requests.STATUS, timeout_s)

    def config(self, *, timeout_s: float | None = None) -> ConfigResult:
        """Return the effective settings and their origins."""
        return self._run(requests.CONFIG, timeout_s)

    def search(
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
        return self._run(requests.search(body), timeout_s)

    def get(
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
        return self._run(requests.get(body), timeout_s)

    def context(
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
        return self._run(call, timeout_s)

    def recall(
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
        return self._run(call, timeout_s)

    def sync(
        self,
        *,
        vectors: bool = True,
        on_progress: ProgressCallback | None = None,
        timeout_s: float | None = None,
    ) -> SyncResult:
        """Wait until all changes so far are searchable; without `vectors`, by keywords.

        `on_progress(completed, total, label)` is called in this thread.
        """
        return self._run(requests.sync(vectors=vectors), timeout_s, on_progress)

    def index(
        self,
        *,
        force: bool = False,
        provider: str | None = None,
        confirm: bool = False,
        on_progress: ProgressCallback | None = None,
        timeout_s: float | None = None,
    ) -> IndexResult:
        """Bring the index up to date, or rebuild it with `force`; see `IndexBody`.

        `on_progress(completed, total, label)` is called in this thread.
        """
        return self._run(
            requests.index(force=force, provider=provider, confirm=confirm), timeout_s, on_progress
        )

    def files(
        self, state: str = "indexed", *, timeout_s: float | None = None
    ) -> Generator[FileEntry, None, None]:
        """Yield all files in a state, by path; see `FilesBody`. `timeout_s` is per page."""
        after: str | None = None
        while True:
            page = self.files_page(state, after=after, timeout_s=timeout_s)
            yield from page.files
            if (after := page.next_after) is None:
                return

    def files_page(
        self,
        state: str = "indexed",
        *,
        after: str | None = None,
        limit: int = 200,
        timeout_s: float | None = None,
    ) -> FilesResult:
        """Return one page of files; `after` is the `next_after` of the previous page."""
        return self._run(requests.files(state, after=after, limit=limit), timeout_s)

    def why(self, path: str, *, timeout_s: float | None = None) -> FileEntry:
        """Return the state of one path, and the reason if it is not indexed; see `FileEntry`."""
        return self._run(requests.why(path), timeout_s).files[0]

    def sessions(self, *, timeout_s: float | None = None) -> Generator[SessionEntry, None, None]:
        """Yield all transcripts, by name. `timeout_s` applies to each page."""
        after: str | None = None
        while True:
            page = self.sessions_page(after=after, timeout_s=timeout_s)
            yield from page.sessions
            if (after := page.next_after) is None:
                return

    def sessions_page(
        self, *, after: str | None = None, limit: int = 200, timeout_s: float | None = None
    ) -> SessionsResult:
        """Return one page of transcripts; `after` is the `next_after` of the previous page."""
        return self._run(requests.sessions(after=after, limit=limit), timeout_s)

    def forget(
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
        return self._run(requests.forget(body), timeout_s)

    def export(self, *, after: str | None = None, timeout_s: float | None = None) -> ExportResult:
        """Return one page of packed transcripts; `after` is the `next_after` of the previous."""
        return self._run(requests.export(after), timeout_s)

    def import_transcripts(
        self, transcripts: list[bytes], *, dry_run: bool = False, timeout_s: float | None = None
    ) -> ImportResult:
        """Have exported transcripts kept, of which all are checked first; see `ImportBody`."""
        return self._run(requests.import_transcripts(transcripts, dry_run=dry_run), timeout_s)

    def note(
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
        return self._run(requests.note(body), timeout_s)

    def promote(
        self,
        *,
        apply: bool = False,
        candidate: str | None = None,
        limit: int | None = None,
        timeout_s: float | None = None,
    ) -> PromoteResult:
        """Return candidates for MEMORY.md, or add some with `apply`; see `PromoteBody`."""
        call = requests.promote(apply=apply, candidate=candidate, limit=limit)
        return self._run(call, timeout_s)

    def stale(self, *, timeout_s: float | None = None) -> StaleResult:
        """Return the entries of MEMORY.md that newer notes contradict; see `StaleEntry`."""
        return self._run(requests.STALE, timeout_s)

    def flush_prompt(self, session: str = "", *, timeout_s: float | None = None) -> str:
        """Return the instruction to save notes before a compaction; see `should_flush`."""
        from datetime import datetime

        from memoryd_client.flush import flush_text

        config = self.config(timeout_s=timeout_s)
        settings = {setting.key: setting.value for setting in config.values}
        return flush_text(settings, session, datetime.now().astimezone())

    def probe(self, *, timeout_s: float | None = None) -> ProbeResult:
        """Test everything that a search needs and return the checks."""
        return self._run(requests.PROBE, timeout_s)

    def session_start(
        self, session: str = "", *, timeout_s: float | None = None
    ) -> SessionStartResult:
        """Report the start of an agent's session, which updates its index."""
        return self._run(requests.session_start(session), timeout_s)

    def transcript_updated(
        self, path: paths.StrPath, *, timeout_s: float | None = None
    ) -> TranscriptUpdatedResult:
        """Report that the transcript at `path` has changed."""
        return self._run(requests.transcript_updated(path), timeout_s)

    def agents(self, *, timeout_s: float | None = None) -> AgentsResult:
        """Return the agents of the daemon, and the agent of this client."""
        return self._run(requests.AGENTS, timeout_s)

    def add(self, workspace: paths.StrPath, *, timeout_s: float | None = None) -> AddResult:
        """Serve another workspace, across restarts of the daemon, until `drop`."""
        return self._run(requests.add(workspace), timeout_s)

    def drop(self, agent: paths.StrPath, *, timeout_s: float | None = None) -> DropResult:
        """Stop serving an added workspace, given its agent's id or a path with a `/`."""
        return self._run(requests.drop(agent), timeout_s)

    def reload(self, *, timeout_s: float | None = None) -> ReloadResult:
        """Reload the daemon's configuration and return the changes."""
        return self._run(requests.RELOAD, timeout_s)

    def events(self, kinds: list[str] | None = None) -> Generator[Event, None, None]:
        """Yield events as they happen; see `Event`.

        Uses a connection of its own, which ends with the generator. Raises if the connection ends
        first; the stream is not resumed.
        """
        call = requests.events(kinds)
        return follow(self._target, call, self.agent, wait_s=self._wait_s, limit_s=self._timeout_s)
