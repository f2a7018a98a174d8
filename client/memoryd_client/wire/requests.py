"""Everything a client can ask for: operation, arguments and the type of the answer.

The blocking and the asyncio client both build their requests here. Of the world outside, only the
current directory and the clock are looked at.
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
    SearchBody,
    SearchResult,
    SessionStartBody,
    SessionStartResult,
    SyncBody,
    SyncResult,
    TranscriptUpdatedBody,
    TranscriptUpdatedResult,
)
from memoryd_client.schema.status import StatusResult
from memoryd_client.schema.transcripts import ForgetBody, ForgetResult, SessionsBody, SessionsResult
from memoryd_client.shared.paths import StrPath
from memoryd_client.wire.protocol import Body, Op

ResultT = TypeVar("ResultT", bound=Body)

FOREVER_S = 1e8
"""Three years. Longer limits are none: sockets and locks refuse what overflows their clocks."""

PROBE_LIMIT_S = 120.0
"""A probe loads what is not loaded yet: the model, the SQLite extension."""

ProgressCallback = Callable[[int, int, str], None]
"""Called with (completed, total, label) while a request is worked on."""


class Call(Struct, Generic[ResultT], frozen=True):
    """One request before it has an id.

    `patience_s` are the seconds it is given by default, `None`: those of the client. `repeatable`:
    asking twice changes no more than asking once, so that it may be sent again when the connection
    is lost before the answer.
    """

    op: Op
    body: Body
    result: type[ResultT]
    patience_s: float | None = None
    repeatable: bool = True

    def limit_s(self, timeout_s: float | None, default_s: float | None) -> float | None:
        """Return the seconds to wait for the answer, or `None` for no limit.

        `timeout_s` is what the caller of the method said (`math.inf`: no limit), `default_s` what
        the client was made with.
        """
        default_s = default_s if self.patience_s is None else self.patience_s
        chosen = default_s if timeout_s is None else timeout_s
        if chosen is None or chosen >= FOREVER_S:
            return None
        return max(0.0, chosen)


class TimeLimit:
    """The time that a call has left, from `limit_s` seconds on; `None`: as long as it takes."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self._end = None if limit_s is None else time.monotonic() + limit_s

    def left_s(self) -> float | None:
        """Return the seconds that are left, 0 when the time is over, `None` without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def extend(self, seconds: float) -> None:
        """Leave out seconds that went by on something else."""
        if self._end is not None:
            self._end += seconds


class ProgressReport:
    """A caller's callback that remembers what it raised.

    So that a callback's `ConnectionLostError` is told from one of the call's own connection.
    """

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self.error: BaseException | None = None

    def __call__(self, completed: int, total: int, label: str) -> None:
        """Pass the progress on, if the caller wants it."""
        if self._callback is None:
            return
        try:
            self._callback(completed, total, label)
        except BaseException as error:
            self.error = error
            raise


def ping() -> Call[PingResult]:
    """Ask whether the daemon is alive."""
    return Call(Op.PING, Empty(), PingResult)


def status() -> Call[StatusResult]:
    """Ask how the index and the daemon are."""
    return Call(Op.STATUS, Empty(), StatusResult)


def config() -> Call[ConfigResult]:
    """Ask for the effective settings."""
    return Call(Op.CONFIG, Empty(), ConfigResult)


def search(
    query: str,
    *,
    max_results: int | None,
    min_score: float | None,
    sources: list[str] | None,
    path_glob: str | None,
    since: str | None,
    until: str | None,
    visibility: str | None,
    session: str | None,
    mode: str | None,
    max_chars: int | None,
    explain: bool,
    highlight: bool,
) -> Call[SearchResult]:
    """Ask for what memory says about `query`; see `SearchBody`."""
    body = SearchBody(
        query=encodable(query),
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
    )
    return Call(Op.SEARCH, body, SearchResult)


def get(path: str, *, start_line: int, lines: int | None, raw: bool) -> Call[GetResult]:
    """Ask for lines of a memory file; see `GetBody`."""
    body = GetBody(path=encodable(path), start_line=start_line, lines=lines, raw=raw)
    return Call(Op.GET, body, GetResult)


def sync(*, vectors: bool) -> Call[SyncResult]:
    """Wait until all changes so far are searchable; see `SyncBody`."""
    return Call(Op.SYNC, SyncBody(vectors=vectors), SyncResult, patience_s=FOREVER_S)


def index(*, force: bool, provider: str | None) -> Call[IndexResult]:
    """Compare disk and index, or build the index anew; see `IndexBody`."""
    body = IndexBody(force=force, provider=provider)
    return Call(Op.INDEX, body, IndexResult, patience_s=FOREVER_S, repeatable=not force)


def sessions(*, after: str | None, limit: int) -> Call[SessionsResult]:
    """Ask for one page of transcripts; see `SessionsBody`."""
    return Call(Op.SESSIONS, SessionsBody(after=after, limit=limit), SessionsResult)


def forget(body: ForgetBody) -> Call[ForgetResult]:
    """Ask to forget transcripts; see `ForgetBody`."""
    return Call(Op.FORGET, body, ForgetResult, patience_s=FOREVER_S)


def files(state: str, *, after: str | None, limit: int) -> Call[FilesResult]:
    """Ask for one page of files; see `FilesBody`."""
    after = None if after is None else encodable(after)
    return Call(Op.FILES, FilesBody(encodable(state), after, limit), FilesResult)


def probe() -> Call[ProbeResult]:
    """Try out everything a search needs."""
    return Call(Op.PROBE, Empty(), ProbeResult, patience_s=PROBE_LIMIT_S)


def session_start(session: str) -> Call[SessionStartResult]:
    """Tell that an agent's session begins."""
    return Call(Op.SESSION_START, SessionStartBody(encodable(session)), SessionStartResult)


def transcript_updated(path: StrPath) -> Call[TranscriptUpdatedResult]:
    """Tell that a transcript was written to."""
    body = TranscriptUpdatedBody(_absolute(path))
    return Call(Op.TRANSCRIPT_UPDATED, body, TranscriptUpdatedResult)


def events(kinds: list[str] | None) -> Call[EventsResult]:
    """Ask for events as they happen. Not resumed: what happened meanwhile would be missing."""
    return Call(Op.EVENTS, EventsBody(kinds), EventsResult, patience_s=FOREVER_S, repeatable=False)


def agents() -> Call[AgentsResult]:
    """Ask for the agents that the daemon serves."""
    return Call(Op.AGENTS, Empty(), AgentsResult)


def add(workspace: StrPath) -> Call[AddResult]:
    """Ask for one more workspace to be served."""
    return Call(Op.ADD, AddBody(_absolute(workspace)), AddResult, repeatable=False)


def drop(agent: StrPath) -> Call[DropResult]:
    """Ask for an agent, by its id or the path of its workspace, to be served no more."""
    named = os.fspath(agent)
    is_path = os.sep in named or named in (".", "..") or named.startswith("~")
    body = DropBody(_absolute(named) if is_path else encodable(named))
    return Call(Op.DROP, body, DropResult, repeatable=False)


def reload() -> Call[ReloadResult]:
    """Ask the daemon to read its configuration again."""
    return Call(Op.RELOAD, Empty(), ReloadResult, repeatable=False)


def encodable(text: str) -> str:
    """Return a text without lone surrogates, which have no UTF-8: half an emoji is no search."""
    return text.encode("utf-8", "replace").decode()


def current_folder() -> str:
    """Return the current directory, or "" if it is gone.

    Of one whose name is not UTF-8, the nearest folder above that has a name the wire can carry: it
    is in the same workspaces.
    """
    try:
        folder = os.getcwd()
    except OSError:
        return ""
    while encodable(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _absolute(path: StrPath) -> str:
    """Return a path as the daemon, whose current directory is another one, understands it."""
    try:
        return encodable(os.path.abspath(os.path.expanduser(path)))
    except OSError as error:
        raise BadRequestError(
            f"{encodable(os.fspath(path))} is relative, but the current directory is gone",
            hint="name an absolute path",
        ) from error
