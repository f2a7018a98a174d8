"""What requests ask and results answer: the bodies inside the frames of `protocol`."""

from typing import Any

from msgspec import field

from memoryd_client.schema.agents import AddBody, DropBody
from memoryd_client.schema.transcripts import ForgetBody, SessionsBody
from memoryd_client.wire.protocol import Body, Op


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
    (`memory/2026-11-28.md`), else its modification time. `visibility` says whose transcripts may
    be in the answer: `self` (of `session` alone), `agent` or `all`. `mode` is `hybrid`, `keyword`
    or `vector`; `max_chars` bounds all snippets together; `explain` asks for each hit's parts. The
    query may have operators: see docs/search.md. With `highlight`, hits say where the query's words
    stand.
    """

    query: str
    max_results: int | None = None
    min_score: float | None = None
    sources: list[str] | None = None
    path_glob: str | None = None
    since: str | None = None
    until: str | None = None
    visibility: str | None = None
    session: str | None = None
    mode: str | None = None
    max_chars: int | None = None
    explain: bool = False
    highlight: bool = False


class Explanation(Body):
    """Why a hit is where it is. All are shares from 0 to about 1, but `cosine` and `strength`.

    `bm25`, `coverage`, `adjacency` and `verbatim` say what its words have of the question; `cosine`
    how near its meaning is; `strength` is what they add up to, `decay` how much of the score age
    has left, and the ranks are the places that the legs gave it by themselves.
    """

    bm25: float
    coverage: float
    adjacency: float
    verbatim: float
    cosine: float | None
    strength: float
    decay: float
    text_rank: int | None = None
    vector_rank: int | None = None


class Hit(Body):
    """One cited result.

    `start_line`..`end_line` (1-based, inclusive) is the chunk that matched;
    `snippet_start_line`..`snippet_end_line` the part of it shown in `snippet`, which is what
    `citation` points at. Scores are in [0, 1]; a leg that did not see the hit gives `None`.
    `highlights` are (start, end) of words of the query in the snippet, in characters.
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
    explanation: Explanation | None = None
    highlights: list[tuple[int, int]] | None = None


class SearchResult(Body):
    """Hits, best first, and how they were found.

    `mode` is what really ran: `hybrid`, `keyword`, `vector` or `none`; `warnings` say why it is
    less than was asked. `stale` is true while noticed changes are not searchable yet. Paths of hits
    are relative to `workspace_dir` unless absolute. `omitted` counts hits that `max_chars` had no
    room for.
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
    agent: str = ""
    workspace_dir: str = ""
    omitted: int = 0


class GetBody(Body):
    """Lines of one memory file, from `start_line` (1-based). `lines` `None`: the default, 120.

    Of a transcript, the messages of these records; with `raw` the records themselves.
    """

    path: str
    start_line: int = 1
    lines: int | None = None
    raw: bool = False


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
    """Compare disk and index now; `force` builds a new index beside the old one and swaps it in.

    `provider` is the one that is to embed from now on; `auto` looks for one again. If that changes
    the provider, the index is built anew.
    """

    force: bool = False
    provider: str | None = None


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


class FilesBody(Body):
    """One page of the files the agent knows, by path.

    `state` is one of `indexed`, `remarked` (indexed, with something to know about it), `skipped`
    (found or configured, but no memory) and `failed` (can't be read). `after` is the
    `next_after` of the page before; `limit` 1 to 1,000.
    """

    state: str = "indexed"
    after: str | None = None
    limit: int = 200


class FileEntry(Body):
    """One file. `reason` says why it is not indexed, or what there is to know about it."""

    path: str
    state: str
    source: str = "memory"
    size_bytes: int | None = None
    chunks: int | None = None
    reason: str | None = None


class FilesResult(Body):
    """A page of files; `total` counts those on all pages, `next_after` names the next page."""

    files: list[FileEntry]
    total: int
    next_after: str | None = None


class Check(Body):
    """One thing that was tried: `embedding`, `batch`, `vector` or `keyword`.

    `required` is false for what the configuration switches off. `detail` tells what works,
    `reason` and `hint` why it doesn't and what to do.
    """

    name: str
    ok: bool
    required: bool
    took_ms: float
    detail: str = ""
    reason: str | None = None
    hint: str | None = None


class ProviderCandidate(Body):
    """A provider that `auto` would consider now; `passed_over` says why it would not take it."""

    provider: str
    passed_over: str | None = None


class ProbeResult(Body):
    """Everything an agent's search needs, tried out now.

    `chosen_because` says why the provider is this one, None if the configuration names it.
    """

    agent: str
    provider: str
    model: str
    checks: list[Check]
    chosen_because: str | None = None
    candidates: list[ProviderCandidate] = field(default_factory=list)


class SessionStartBody(Body):
    """An agent's session begins. `session` is its name, for the log."""

    session: str = ""


class SessionStartResult(Body):
    """`syncing` is false when `sync.on_session_start` is off."""

    syncing: bool


class TranscriptUpdatedBody(Body):
    """The file at `path` (absolute, or relative to the workspace) was written to."""

    path: str


class TranscriptUpdatedResult(Body):
    """Whether the daemon looks at the file now; if not, `reason` says why."""

    accepted: bool
    reason: str | None = None


class EventsBody(Body):
    """Which events to send: `None` all, else those of these kinds. See `Event`."""

    kinds: list[str] | None = None


class Event(Body):
    """Something happened; the body of an `Item` frame.

    `kind` is one of `listening` (comes first), `noticed`, `indexed`, `removed`, `embedded`,
    `searched`, `degraded`, `recovered` and `missed` (the client reads too slowly: `count` events
    were dropped). `at` is Unix time in seconds. `path` is a file's, `count` a number of chunks,
    vectors or hits, `text` a reason.
    """

    kind: str
    agent: str
    at: float
    path: str | None = None
    count: int | None = None
    text: str | None = None


class EventsResult(Body):
    """The end of a stream of events; it ends only with the daemon, or when it is cancelled."""


BODY_OF_OP: dict[Op, type[Body]] = {
    Op.PING: Empty,
    Op.STATUS: Empty,
    Op.CONFIG: Empty,
    Op.SEARCH: SearchBody,
    Op.GET: GetBody,
    Op.SYNC: SyncBody,
    Op.INDEX: IndexBody,
    Op.FILES: FilesBody,
    Op.SESSIONS: SessionsBody,
    Op.FORGET: ForgetBody,
    Op.PROBE: Empty,
    Op.SESSION_START: SessionStartBody,
    Op.TRANSCRIPT_UPDATED: TranscriptUpdatedBody,
    Op.EVENTS: EventsBody,
    Op.AGENTS: Empty,
    Op.ADD: AddBody,
    Op.DROP: DropBody,
    Op.RELOAD: Empty,
}
