"""Result of a `status` request."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class SourceCount(Body):
    """Files and chunks of one source: found on disk, indexed, and chunks in the index."""

    source: str
    files: int
    total_files: int
    chunks: int


class SkippedPath(Body):
    """A found or configured path that is not indexed, with the reason."""

    path: str
    reason: str


class CacheStatus(Body):
    """The embedding cache. `max_entries` 0: unlimited."""

    enabled: bool
    entries: int
    max_entries: int
    hits: int
    misses: int


class FtsStatus(Body):
    """The keyword retriever."""

    enabled: bool
    available: bool
    error: str | None = None


class VectorStatus(Body):
    """The vector retriever.

    `store_available` is about the sqlite-vec table on disk, `semantic_available` about query
    embeddings, `available` about the retriever as a whole.
    """

    enabled: bool
    store_available: bool
    semantic_available: bool
    available: bool
    extension_path: str | None = None
    load_error: str | None = None
    dims: int | None = None
    in_memory: int = 0


class BatchJob(Body):
    """A job of the provider's batch API, with its state at the provider."""

    id: str
    state: str
    texts: int
    age_s: float


class BatchStatus(Body):
    """The batch API; `supported` is false for providers without one.

    After `limit` failures in a row it is off, for `off_reason`, until a probe succeeds. `undeleted`
    counts ended jobs whose files are still at the vendor, `undeleted_error` says why.

    `wait` is always false: `sync` and `index` wait for no job. `concurrency`, `poll_interval_ms`
    and `timeout_ms` are the settings; `last_provider` is the provider of `last_error`.
    """

    enabled: bool
    supported: bool
    failures: int = 0
    limit: int = 2
    off_reason: str | None = None
    last_error: str | None = None
    jobs: list[BatchJob] = field(default_factory=list)
    undeleted: int = 0
    undeleted_error: str | None = None
    wait: bool = False
    concurrency: int = 0
    poll_interval_ms: int = 0
    timeout_ms: int = 0
    last_provider: str | None = None


class EmbeddingStatus(Body):
    """Requests to the provider since its start. Times in seconds.

    `address` receives the texts, None if no address does; `leaves_machine` if it is another
    machine. `tokens` counts those that the provider reports, `waits` requests delayed by rate
    limits; `cost` is None without a price. `proxy` is the host and port of the proxy that passes
    the texts on; `unencrypted` if they leave the machine in plain text. `tokens_today` counts what
    was sent towards `max_tokens_per_day` (None: no limit). `unconfirmed_tokens` wait for a
    confirmation.
    """

    provider: str
    model: str
    address: str | None
    leaves_machine: bool
    chosen_because: str | None
    requests: int
    items: int
    tokens: int
    retries: int
    failures: int
    waits: int
    waited_s: float
    batch_items: int
    cost: float | None = None
    proxy: str | None = None
    unencrypted: bool = False
    tokens_today: int | None = None
    max_tokens_per_day: int | None = None
    unconfirmed_tokens: int | None = None


class IdentityStatus(Body):
    """Match of the index with the current settings: `valid`, `missing` or `mismatched`."""

    status: str
    reason: str | None = None


class Failure(Body):
    """One failed text or file, with the last reason."""

    what: str
    reason: str
    attempts: int = 1
    retry_in_s: float | None = None


class QueueStatus(Body):
    """One bounded queue: its depth now and at most, and its capacity."""

    name: str
    depth: int
    high_water: int
    size: int


class WatchStatus(Body):
    """The file watcher."""

    enabled: bool
    armed: bool
    folders: int
    last_event_s_ago: float | None = None
    error: str | None = None


class RebuildStatus(Body):
    """A running rebuild beside the old index."""

    reason: str
    completed: int
    total: int
    label: str


class Custom(Body):
    """Fields that the reference keeps under `custom`."""

    search_mode: str
    provider_state: str
    provider_unavailable_reason: str | None
    index_identity: IdentityStatus


class SessionNotesStatus(Body):
    """Session notes since the start of memoryd: their number, and the path of the last one.

    `failures` are about conversations whose notes could not be written yet.
    """

    written: int
    last: str = ""
    failures: list[Failure] = field(default_factory=list)


class BackendStatus(Body):
    """A back end: its state is `ready`, `starting` or `unavailable`, for `reason`.

    `mode` is its kind of search, `way` how memoryd asks it: `http` or `command`. `documents` and
    `vectors` are those that it counts, None if unknown; `updated_s_ago` is the time since its last
    update. `problem` is about an update or its vectors, while it answers. `fallbacks` counts
    searches that the built-in index answered instead since the start, the last one for
    `last_fallback`.
    """

    name: str
    state: str
    reason: str | None = None
    version: str = ""
    mode: str = ""
    way: str = ""
    pid: int | None = None
    documents: int | None = None
    vectors: int | None = None
    updated_s_ago: float | None = None
    problem: str | None = None
    answers: int = 0
    fallbacks: int = 0
    last_fallback: str | None = None


class StatusResult(Body):
    """Status of one agent and the daemon. Times in seconds, sizes in bytes.

    `remarks` are about indexed files, such as invalid UTF-8; `agents` are the ids of all agents of
    the daemon, `tasks` counts its asyncio tasks. `notices` are facts about where texts go that the
    user may not expect. `backend` answers the searches; `backend_status` is None for `builtin`.
    `restricted`: the answer came through the
    restricted socket. `restricted_socket` is its path, if there is one, and `allowed` its
    operations. `session_notes` is None if they are not enabled.
    """

    agent_id: str
    backend: str
    version: str
    protocol: int
    python_version: str
    sqlite_version: str
    sqlite_driver: str
    pid: int
    uptime_s: float
    rss_bytes: int
    files: int
    chunks: int
    total_files: int
    dirty: bool
    dirty_reasons: list[str]
    pending_files: int
    pending_vectors: int
    workspace_dir: str
    db_path: str
    db_bytes: int
    socket_path: str
    provider: str
    model: str
    requested_provider: str
    sources: list[str]
    extra_paths: list[str]
    source_counts: list[SourceCount]
    skipped_paths: list[SkippedPath]
    skipped_count: int
    cache: CacheStatus
    fts: FtsStatus
    vector: VectorStatus
    batch: BatchStatus
    custom: Custom
    watch: WatchStatus
    queues: list[QueueStatus]
    failures: list[Failure]
    failure_count: int
    degraded: list[str]
    errors: list[Failure]
    fallback: str | None = None
    rebuild: RebuildStatus | None = None
    last_scan_s_ago: float | None = None
    remarks: list[Failure] = field(default_factory=list)
    remark_count: int = 0
    agents: list[str] = field(default_factory=list)
    embedding: EmbeddingStatus | None = None
    tasks: int = 0
    notices: list[str] = field(default_factory=list)
    without_vector: int = 0
    restricted: bool = False
    restricted_socket: str | None = None
    allowed: list[str] = field(default_factory=list)
    hidden: dict[str, int] = field(default_factory=dict)
    session_notes: SessionNotesStatus | None = None
    backend_status: BackendStatus | None = None
