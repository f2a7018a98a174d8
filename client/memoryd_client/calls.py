"""Everything a client can ask for: operation, arguments and the type of the answer.

Pure: the blocking and the asyncio client both build their requests here.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from memoryd_client.bodies import (
    ConfigResult,
    Empty,
    GetBody,
    GetResult,
    IndexBody,
    IndexResult,
    PingResult,
    SearchBody,
    SearchResult,
    SyncBody,
    SyncResult,
)
from memoryd_client.protocol import Body, Op
from memoryd_client.status import StatusResult

ResultT = TypeVar("ResultT", bound=Body)

FOREVER_S = 1e8
"""Three years. Longer limits are none: sockets and locks refuse what overflows their clocks."""

ProgressCallback = Callable[[int, int, str], None]
"""Called with (completed, total, label) while a request is worked on."""


class Call(Struct, Generic[ResultT], frozen=True):
    """One request before it has an id. `patient`: it takes as long as it takes."""

    op: Op
    body: Body
    result: type[ResultT]
    patient: bool = False

    def limit_s(self, timeout_s: float | None, default_s: float | None) -> float | None:
        """Return the seconds to wait for the answer, or `None` for no limit.

        `timeout_s` is what the caller of the method said (`math.inf`: no limit), `default_s` what
        the client was made with.
        """
        chosen = timeout_s if timeout_s is not None or self.patient else default_s
        if chosen is None or chosen >= FOREVER_S:
            return None
        return max(0.0, chosen)


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
) -> Call[SearchResult]:
    """Ask for what memory says about `query`; see `SearchBody`."""
    body = SearchBody(
        query=_encodable(query),
        max_results=max_results,
        min_score=min_score,
        sources=sources,
        path_glob=path_glob,
        since=since,
        until=until,
    )
    return Call(Op.SEARCH, body, SearchResult)


def get(path: str, *, start_line: int, lines: int | None) -> Call[GetResult]:
    """Ask for lines of a memory file; see `GetBody`."""
    body = GetBody(path=_encodable(path), start_line=start_line, lines=lines)
    return Call(Op.GET, body, GetResult)


def sync(*, vectors: bool) -> Call[SyncResult]:
    """Wait until all changes so far are searchable; see `SyncBody`."""
    return Call(Op.SYNC, SyncBody(vectors=vectors), SyncResult, patient=True)


def index(*, force: bool) -> Call[IndexResult]:
    """Compare disk and index, or build the index anew; see `IndexBody`."""
    return Call(Op.INDEX, IndexBody(force=force), IndexResult, patient=True)


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which have no UTF-8: half an emoji is no search."""
    return text.encode("utf-8", "replace").decode()
