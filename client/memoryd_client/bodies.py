"""What requests ask and results answer: the bodies inside the frames of `protocol`."""

from typing import Any

from msgspec import field

from memoryd_client.protocol import Body, Op


class Empty(Body):
    """The body of a request that takes no arguments."""


class PingResult(Body):
    """The daemon is alive; `uptime_s` in seconds."""

    pid: int
    version: str
    uptime_s: float


class SearchBody(Body):
    """A search. `None` means the configured default.

    `path_glob` is matched against result paths (`*` and `?` stay within a folder, `**` spans
    folders). `since` and `until` are inclusive dates `YYYY-MM-DD`, held against a note's own date
    (`memory/2026-11-28.md`), else its modification time.
    """

    query: str
    max_results: int | None = None
    min_score: float | None = None
    sources: list[str] | None = None
    path_glob: str | None = None
    since: str | None = None
    until: str | None = None


class Hit(Body):
    """One cited result.

    `start_line`..`end_line` (1-based, inclusive) is the chunk that matched;
    `snippet_start_line`..`snippet_end_line` the part of it shown in `snippet`, which is what
    `citation` points at. Scores are in [0, 1]; a leg that did not see the hit gives `None`.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    snippet_start_line: int
    snippet_end_line: int
    source: str
    citation: str
    vector_score: float | None = None
    text_score: float | None = None


class SearchResult(Body):
    """Hits, best first, and how they were found.

    `mode` is what really ran: `hybrid`, `keyword`, `vector` or `none`; `warnings` say why it is
    less than was asked. `stale` is true while noticed changes are not searchable yet.
    """

    results: list[Hit]
    provider: str
    model: str
    mode: str
    fallback: str | None = None
    warnings: list[str] = field(default_factory=list)
    stale: bool = False
    pending_files: int = 0
    pending_vectors: int = 0
    took_ms: float = 0.0


class GetBody(Body):
    """Lines of one memory file, from `start_line` (1-based). `lines` `None`: the default, 120."""

    path: str
    start_line: int = 1
    lines: int | None = None


class GetResult(Body):
    """Whole lines as they stand in the file. `next_from` is set while there is more."""

    path: str
    text: str
    start_line: int
    lines: int
    total_lines: int
    truncated: bool = False
    next_from: int | None = None


class SyncBody(Body):
    """Wait until everything changed before this request is searchable.

    With `vectors` false, keyword-searchable is enough.
    """

    vectors: bool = True


class SyncResult(Body):
    """What the index holds once the wait is over."""

    files: int
    chunks: int
    pending_vectors: int
    warnings: list[str] = field(default_factory=list)


class IndexBody(Body):
    """Compare disk and index now; `force` builds a new index beside the old one and swaps it in."""

    force: bool = False


class IndexResult(Body):
    """What an `index` run did. `embedded` were computed, `reused` came from the cache."""

    files: int
    chunks: int
    embedded: int
    reused: int
    seconds: float
    rebuilt: bool = False
    pending_vectors: int = 0
    warnings: list[str] = field(default_factory=list)


class ConfigValue(Body):
    """One effective setting and where it comes from (`default`, a file's path, `--workspace`)."""

    key: str
    value: Any
    origin: str


class ConfigResult(Body):
    """All effective settings of one agent, secrets left out."""

    agent: str
    files: list[str]
    values: list[ConfigValue]


BODY_OF_OP: dict[Op, type[Body]] = {
    Op.PING: Empty,
    Op.STATUS: Empty,
    Op.CONFIG: Empty,
    Op.SEARCH: SearchBody,
    Op.GET: GetBody,
    Op.SYNC: SyncBody,
    Op.INDEX: IndexBody,
}
