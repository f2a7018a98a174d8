"""Bodies of requests about memory: get, sync, index, files, probe, events."""

from typing import Any

from msgspec import field

from memoryd_client.schema.agents import AddBody, DropBody
from memoryd_client.schema.facts import (
    FactCaptureBody,
    FactForgetBody,
    FactRecallBody,
    FactsBody,
    FactStoreBody,
)
from memoryd_client.schema.notes import NoteBody
from memoryd_client.schema.promotion import PromoteBody
from memoryd_client.schema.recall import ContextBody, RecallBody
from memoryd_client.schema.search import SearchBody
from memoryd_client.schema.transcripts import ExportBody, ForgetBody, ImportBody, SessionsBody
from memoryd_client.wire.protocol import Body, Op


class Empty(Body):
    """Body of a request without arguments."""


class PingResult(Body):
    """Identity of the daemon; `uptime_s` in seconds, `notices` as in `status`, of all agents."""

    pid: int
    version: str
    uptime_s: float
    notices: list[str] = field(default_factory=list)


class GetBody(Body):
    """Lines of one memory file, from `start_line` (1-based). `lines` None: the default, 120.

    `path` may be a citation, such as `memory/a.md#L3-L7`: then 1 and None mean the cited lines.

    For a transcript, the messages of these records; with `raw`, the records themselves.
    `session` and `chat_type` are as in `SearchBody`: what such a search may not see is refused.
    """

    path: str
    start_line: int = 1
    lines: int | None = None
    raw: bool = False
    session: str | None = None
    chat_type: str | None = None


class GetResult(Body):
    """Whole lines of the file, unchanged. `next_from` is set if there are more.

    `gone_at` is the Unix time at which the file of a kept transcript was missed.
    """

    path: str
    text: str
    start_line: int
    lines: int
    total_lines: int
    truncated: bool = False
    next_from: int | None = None
    gone_at: float | None = None


class SyncBody(Body):
    """Wait until all earlier changes are searchable; by keywords only if `vectors` is false."""

    vectors: bool = True


class SyncResult(Body):
    """Contents of the index after the wait."""

    files: int
    chunks: int
    pending_vectors: int
    warnings: list[str] = field(default_factory=list)


class IndexBody(Body):
    """Bring the index up to date; `force` builds a new index beside the old one and swaps it in.

    `provider` becomes the embedding provider; `auto` chooses again. A new provider causes a
    rebuild. `confirm` permits the upload that the index waits for, if there is one.
    """

    force: bool = False
    provider: str | None = None
    confirm: bool = False


class IndexResult(Body):
    """Outcome of an `index` run. `embedded` vectors were computed, `reused` came from the cache.

    `unconfirmed` describes a large upload that waits for `confirm`.
    """

    files: int
    chunks: int
    embedded: int
    reused: int
    seconds: float
    rebuilt: bool = False
    pending_vectors: int = 0
    warnings: list[str] = field(default_factory=list)
    unconfirmed: str | None = None


class ConfigValue(Body):
    """One effective setting and its origin (`default`, a file's path, `--workspace`)."""

    key: str
    value: Any
    origin: str


class ConfigResult(Body):
    """All effective settings of one agent, without secrets."""

    agent: str
    files: list[str]
    values: list[ConfigValue]


class FilesBody(Body):
    """One page of the agent's files, by path.

    `state` is `indexed`, `remarked` (indexed, with a remark), `skipped` (found or configured, but
    not memory) or `failed` (unreadable). `after` is the `next_after` of the previous page; `limit`
    is 1 to 1,000.

    With `path`, the answer has one entry, for this path, whatever `state` and `after` are.
    """

    state: str = "indexed"
    after: str | None = None
    limit: int = 200
    path: str | None = None


class FileEntry(Body):
    """One file. `reason` is the reason why it is not indexed, or its remark.

    If it was asked for by its path, `state` may also be `pending` (found, but not read yet),
    `missing` or `hidden` (a rule excludes it).
    """

    path: str
    state: str
    source: str = "memory"
    size_bytes: int | None = None
    chunks: int | None = None
    reason: str | None = None


class FilesResult(Body):
    """A page of files; `total` counts those on all pages, `next_after` names the next page.

    `hidden` counts what each rule hid at the last scan. A hidden folder counts as one.
    """

    files: list[FileEntry]
    total: int
    next_after: str | None = None
    hidden: dict[str, int] = field(default_factory=dict)


class Check(Body):
    """One check of a probe: `embedding`, `batch`, `vector` or `keyword`.

    `required` is false for a part that the configuration disables. `detail` describes a success,
    `reason` and `hint` a failure and its fix.
    """

    name: str
    ok: bool
    required: bool
    took_ms: float
    detail: str = ""
    reason: str | None = None
    hint: str | None = None


class ProviderCandidate(Body):
    """A provider that `auto` would consider now; `passed_over` is the reason against it."""

    provider: str
    passed_over: str | None = None


class ProbeResult(Body):
    """Checks of all parts that an agent's search needs.

    `chosen_because` is the reason for the provider; None if the configuration names it.
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
    """The file at `path` (absolute, or relative to the workspace) has changed."""

    path: str


class TranscriptUpdatedResult(Body):
    """`accepted` if the daemon reads the file now; otherwise `reason` explains."""

    accepted: bool
    reason: str | None = None


class EventsBody(Body):
    """Subscription to events of these kinds; None: all. See `Event`."""

    kinds: list[str] | None = None


class Event(Body):
    """One event; the body of an `Item` frame.

    `kind` is one of `listening` (comes first), `noticed`, `indexed`, `removed`, `embedded`,
    `searched`, `degraded`, `recovered` and `missed` (the client reads too slowly: `count` events
    were dropped). `at` is Unix time in seconds. `path` names a file, `count` is a number of chunks,
    vectors or results, `text` a reason.
    """

    kind: str
    agent: str
    at: float
    path: str | None = None
    count: int | None = None
    text: str | None = None


class EventsResult(Body):
    """End of a stream of events, at a cancellation or when the daemon stops."""


BODY_OF_OP: dict[Op, type[Body]] = {
    Op.PING: Empty,
    Op.STATUS: Empty,
    Op.CONFIG: Empty,
    Op.SEARCH: SearchBody,
    Op.GET: GetBody,
    Op.CONTEXT: ContextBody,
    Op.RECALL: RecallBody,
    Op.SYNC: SyncBody,
    Op.INDEX: IndexBody,
    Op.FILES: FilesBody,
    Op.SESSIONS: SessionsBody,
    Op.FORGET: ForgetBody,
    Op.EXPORT: ExportBody,
    Op.IMPORT: ImportBody,
    Op.NOTE: NoteBody,
    Op.PROMOTE: PromoteBody,
    Op.STALE: Empty,
    Op.FACT_STORE: FactStoreBody,
    Op.FACT_RECALL: FactRecallBody,
    Op.FACT_FORGET: FactForgetBody,
    Op.FACTS: FactsBody,
    Op.FACT_CAPTURE: FactCaptureBody,
    Op.PROBE: Empty,
    Op.SESSION_START: SessionStartBody,
    Op.TRANSCRIPT_UPDATED: TranscriptUpdatedBody,
    Op.EVENTS: EventsBody,
    Op.AGENTS: Empty,
    Op.ADD: AddBody,
    Op.DROP: DropBody,
    Op.RELOAD: Empty,
}
