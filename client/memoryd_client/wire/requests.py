"""Requests of both clients: operation, arguments and type of the answer.

Reads only the current directory and the clock.
"""

import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from memoryd_client.errors import BadRequestError
from memoryd_client.schema.agents import (
    AddBody,
    AddResult,
    AgentsResult,
    DropBody,
    DropResult,
    ReloadResult,
)
from memoryd_client.schema.facts import (
    FactCaptureBody,
    FactCaptureResult,
    FactForgetBody,
    FactForgetResult,
    FactRecallBody,
    FactRecallResult,
    FactsBody,
    FactsResult,
    FactStoreBody,
    FactStoreResult,
)
from memoryd_client.schema.memory import (
    ConfigResult,
    Empty,
    EventsBody,
    EventsResult,
    FilesBody,
    FilesResult,
    GetBody,
    GetResult,
    IndexBody,
    IndexResult,
    PingResult,
    ProbeResult,
    SessionStartBody,
    SessionStartResult,
    SyncBody,
    SyncResult,
    TranscriptUpdatedBody,
    TranscriptUpdatedResult,
)
from memoryd_client.schema.notes import NoteBody, NoteResult
from memoryd_client.schema.promotion import PromoteBody, PromoteResult
from memoryd_client.schema.recall import ContextBody, ContextResult, RecallBody, RecallResult
from memoryd_client.schema.search import SearchBody, SearchResult
from memoryd_client.schema.stale import StaleResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.schema.transcripts import (
    ExportBody,
    ExportResult,
    ForgetBody,
    ForgetResult,
    ImportBody,
    ImportResult,
    SessionsBody,
    SessionsResult,
)
from memoryd_client.shared.paths import StrPath
from memoryd_client.wire.protocol import Body, Op

ResultT = TypeVar("ResultT", bound=Body)

FOREVER_S = 1e8
"""Three years. Longer limits count as none, because sockets and locks would overflow."""

PROBE_LIMIT_S = 120.0
"""Seconds for a probe, which may have to load the model and the SQLite extension."""

ProgressCallback = Callable[[int, int, str], None]
"""Called with (completed, total, label) during a request."""


class Call(Struct, Generic[ResultT], frozen=True):
    """One request before it has an id.

    `patience_s` is its default limit in seconds; None: the client's. A `repeatable` call is
    idempotent and is sent again if the connection is lost before the answer.
    """

    op: Op
    body: Body
    result: type[ResultT]
    patience_s: float | None = None
    repeatable: bool = True

    def limit_s(self, timeout_s: float | None, default_s: float | None) -> float | None:
        """Return the seconds to wait for the answer, or None for no limit.

        `timeout_s` is the argument of the method (`math.inf`: no limit), `default_s` the default
        of the client.
        """
        default_s = default_s if self.patience_s is None else self.patience_s
        chosen = default_s if timeout_s is None else timeout_s
        if chosen is None or chosen >= FOREVER_S:
            return None
        return max(0.0, chosen)


class TimeLimit:
    """Remaining time of a call that starts with `limit_s` seconds; None: no limit."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self._end = None if limit_s is None else time.monotonic() + limit_s

    def left_s(self) -> float | None:
        """Return the remaining seconds, 0 if the time is up, None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def extend(self, seconds: float) -> None:
        """Add seconds that were spent on something else."""
        if self._end is not None:
            self._end += seconds


class ProgressReport:
    """A caller's callback that records its exception.

    This separates a callback's `ConnectionLostError` from one of the call's own connection.
    """

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self.error: BaseException | None = None

    def __call__(self, completed: int, total: int, label: str) -> None:
        """Pass the progress to the callback, if there is one."""
        if self._callback is None:
            return
        try:
            self._callback(completed, total, label)
        except BaseException as error:
            self.error = error
            raise


PING = Call(Op.PING, Empty(), PingResult)
STATUS = Call(Op.STATUS, Empty(), StatusResult)
CONFIG = Call(Op.CONFIG, Empty(), ConfigResult)
PROBE = Call(Op.PROBE, Empty(), ProbeResult, patience_s=PROBE_LIMIT_S)
AGENTS = Call(Op.AGENTS, Empty(), AgentsResult)
STALE = Call(Op.STALE, Empty(), StaleResult, patience_s=FOREVER_S)
RELOAD = Call(Op.RELOAD, Empty(), ReloadResult, repeatable=False)


def search(body: SearchBody) -> Call[SearchResult]:
    """Search memory; see `SearchBody`."""
    body.query = encodable(body.query)
    return Call(Op.SEARCH, body, SearchResult)


def get(body: GetBody) -> Call[GetResult]:
    """Ask for lines of a memory file; see `GetBody`."""
    body.path = encodable(body.path)
    return Call(Op.GET, body, GetResult)


def context(
    session: str, *, chat_type: str, max_chars: int, now: str | None
) -> Call[ContextResult]:
    """Ask for the notes that a session begins with; see `ContextBody`."""
    body = ContextBody(encodable(session), encodable(chat_type), max_chars, now)
    return Call(Op.CONTEXT, body, ContextResult)


def recall(
    message: str, *, max_chars: int, now: str | None, chat_type: str = "direct"
) -> Call[RecallResult]:
    """Ask for what fits a message; see `RecallBody`."""
    body = RecallBody(encodable(message), max_chars, now, encodable(chat_type))
    return Call(Op.RECALL, body, RecallResult)


def sync(*, vectors: bool) -> Call[SyncResult]:
    """Wait until all changes so far are searchable; see `SyncBody`."""
    return Call(Op.SYNC, SyncBody(vectors=vectors), SyncResult, patience_s=FOREVER_S)


def index(*, force: bool, provider: str | None, confirm: bool = False) -> Call[IndexResult]:
    """Bring the index up to date or rebuild it; see `IndexBody`."""
    body = IndexBody(force=force, provider=provider, confirm=confirm)
    return Call(Op.INDEX, body, IndexResult, patience_s=FOREVER_S, repeatable=not force)


def sessions(*, after: str | None, limit: int) -> Call[SessionsResult]:
    """Ask for one page of transcripts; see `SessionsBody`."""
    return Call(Op.SESSIONS, SessionsBody(after=after, limit=limit), SessionsResult)


def forget(body: ForgetBody) -> Call[ForgetResult]:
    """Forget notes, transcripts or messages; see `ForgetBody`."""
    return Call(Op.FORGET, body, ForgetResult, patience_s=FOREVER_S)


def export(after: str | None) -> Call[ExportResult]:
    """Ask for one page of packed transcripts; see `ExportBody`."""
    return Call(Op.EXPORT, ExportBody(after), ExportResult, patience_s=FOREVER_S)


def import_transcripts(transcripts: list[bytes], *, dry_run: bool) -> Call[ImportResult]:
    """Have exported transcripts kept; see `ImportBody`."""
    body = ImportBody(transcripts, dry_run)
    return Call(Op.IMPORT, body, ImportResult, patience_s=FOREVER_S)


def note(body: NoteBody) -> Call[NoteResult]:
    """Write a note, or change the written ones; see `NoteBody`.

    Repeatable, because a note is written once a day; `undo` is not.
    """
    body.text, body.file = encodable(body.text), encodable(body.file)
    for name in ("heading", "conversation", "observed", "supersedes"):
        if (value := getattr(body, name)) is not None:
            setattr(body, name, encodable(value))
    return Call(Op.NOTE, body, NoteResult, repeatable=body.action != "undo")


def promote(*, apply: bool, candidate: str | None, limit: int | None) -> Call[PromoteResult]:
    """Ask for candidates for MEMORY.md, or have some added; see `PromoteBody`."""
    body = PromoteBody(apply, None if candidate is None else encodable(candidate), limit)
    return Call(Op.PROMOTE, body, PromoteResult, repeatable=not apply)


def fact_store(body: FactStoreBody) -> Call[FactStoreResult]:
    """Store a fact; see `FactStoreBody`. Repeatable, because the same fact is stored once."""
    body.text, body.owner = encodable(body.text), encodable(body.owner)
    return Call(Op.FACT_STORE, body, FactStoreResult)


def fact_recall(body: FactRecallBody) -> Call[FactRecallResult]:
    """Ask facts a question; see `FactRecallBody`."""
    body.query, body.owner = encodable(body.query), encodable(body.owner)
    return Call(Op.FACT_RECALL, body, FactRecallResult)


def fact_forget(body: FactForgetBody) -> Call[FactForgetResult]:
    """Forget a fact; see `FactForgetBody`. A second time it is not there any more."""
    body.owner = encodable(body.owner)
    if body.query is not None:
        body.query = encodable(body.query)
    return Call(Op.FACT_FORGET, body, FactForgetResult, repeatable=False)


def fact_capture(body: FactCaptureBody) -> Call[FactCaptureResult]:
    """Have facts taken from a message; see `FactCaptureBody`. Known facts are not stored again."""
    body.text = encodable(body.text)
    return Call(Op.FACT_CAPTURE, body, FactCaptureResult)


def facts(body: FactsBody) -> Call[FactsResult]:
    """Ask for one page of facts; see `FactsBody`."""
    body.text, body.owner = encodable(body.text), encodable(body.owner)
    return Call(Op.FACTS, body, FactsResult)


def files(state: str, *, after: str | None, limit: int) -> Call[FilesResult]:
    """Ask for one page of files; see `FilesBody`."""
    after = None if after is None else encodable(after)
    return Call(Op.FILES, FilesBody(encodable(state), after, limit), FilesResult)


def why(path: str) -> Call[FilesResult]:
    """Ask for the state of one path; see `FilesBody`."""
    return Call(Op.FILES, FilesBody(path=encodable(path)), FilesResult)


def session_start(session: str) -> Call[SessionStartResult]:
    """Report that an agent's session begins."""
    return Call(Op.SESSION_START, SessionStartBody(encodable(session)), SessionStartResult)


def transcript_updated(path: StrPath) -> Call[TranscriptUpdatedResult]:
    """Report that a transcript has grown."""
    body = TranscriptUpdatedBody(_absolute(path))
    return Call(Op.TRANSCRIPT_UPDATED, body, TranscriptUpdatedResult)


def events(kinds: list[str] | None) -> Call[EventsResult]:
    """Ask for events as they happen. Not repeatable, because events would be missing."""
    return Call(Op.EVENTS, EventsBody(kinds), EventsResult, patience_s=FOREVER_S, repeatable=False)


def add(workspace: StrPath) -> Call[AddResult]:
    """Serve another workspace."""
    return Call(Op.ADD, AddBody(_absolute(workspace)), AddResult, repeatable=False)


def drop(agent: StrPath) -> Call[DropResult]:
    """Stop serving an agent, given its id or the path of its workspace."""
    named = os.fspath(agent)
    is_path = os.sep in named or named in (".", "..") or named.startswith("~")
    body = DropBody(_absolute(named) if is_path else encodable(named))
    return Call(Op.DROP, body, DropResult, repeatable=False)


def encodable(text: str) -> str:
    """Return a text with lone surrogates replaced, because they have no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def current_folder() -> str:
    """Return the current directory, or "" if it no longer exists.

    If its name is not UTF-8, return the nearest parent with a valid name, which is in the same
    workspaces.
    """
    try:
        folder = os.getcwd()
    except OSError:
        return ""
    while encodable(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _absolute(path: StrPath) -> str:
    """Return an absolute path, because the daemon has another current directory."""
    try:
        return encodable(os.path.abspath(os.path.expanduser(path)))
    except OSError as error:
        raise BadRequestError(
            f"{encodable(os.fspath(path))} is relative, but the current directory no longer exists",
            hint="use an absolute path",
        ) from error
