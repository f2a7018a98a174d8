"""All settings with type, bounds and default, under the keys of the configuration file."""

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct, field

Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the configuration file's tables."""


Remotes = Literal["openai", "gemini", "voyage", "mistral", "ollama"]
"""Providers over HTTP."""
Formats = Literal["openclaw", "claude", "codex", "gemini", "opencode", "pi", "plain"]
"""Formats of transcripts."""


class Batch(Section, frozen=True):
    """The provider's batch API for bulk work, which is cheaper and slower.

    `enabled` "auto" uses it when at least `min_texts` are pending. After `timeout_minutes`, memoryd
    keeps the results of a job and embeds the remaining texts without the batch API.
    """

    enabled: bool | Literal["auto"] = False
    min_texts: Positive = 2_000
    concurrency: Positive = 2
    poll_interval_ms: Annotated[int, Meta(ge=10)] = 2_000
    timeout_minutes: Annotated[float, Meta(gt=0)] = 60.0


class Remote(Section, frozen=True):
    """Requests to a provider over HTTP; None and 0 mean its default, or no limit.

    `batch_tokens` and `batch_items` limit one request; a token counts as one byte of UTF-8.
    `api_key_header` names the header for the key, and `allow_unencrypted_key` lets it go to another
    machine over http. `status` computes the cost from `price_per_million_tokens`. A
    provider on another machine gets at most `max_tokens_per_day`, and more than
    `confirm_above_tokens` at once only after a confirmation.
    """

    base_url: str | None = None
    api_key_file: str | None = None
    api_key_header: str | None = None
    allow_unencrypted_key: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    batch_tokens: Positive = 8_000
    batch_items: Annotated[int, Meta(ge=1, le=2_048)] = 64
    non_batch_concurrency: Annotated[int, Meta(ge=1, le=64)] | None = None
    requests_per_minute: NonNegative = 0
    tokens_per_minute: NonNegative = 0
    price_per_million_tokens: Annotated[float, Meta(ge=0)] = 0.0
    max_tokens_per_day: NonNegative = 0
    confirm_above_tokens: NonNegative = 5_000_000
    batch: Batch = Batch()


class Local(Section, frozen=True):
    """The local model, in a separate process: a GGUF file, else the bundled model.

    More `threads` are faster only on an idle machine, because they spin while they wait for each
    other. Beside one other busy process on two cores, one thread embeds 32 to 65 chunks a second,
    and two threads embed 12 for three times the processor time. A search waits at most
    `load_wait_ms` for a model that is being loaded.
    """

    model_path: str | None = None
    context_tokens: Annotated[int, Meta(ge=64, le=131_072)] = 2_048
    threads: Positive = 1
    idle_unload_seconds: Positive = 300
    load_wait_ms: Annotated[int, Meta(ge=0, le=60_000)] = 300


class StoreVector(Section, frozen=True):
    """A table of the vectors for programs that use sqlite-vec; searches don't need it.

    `extension_path` None means the installed extension.
    """

    enabled: bool = False
    extension_path: str | None = None


class StoreSettings(Section, frozen=True):
    """The index file; `path` None means `<state dir>/<agent>.sqlite`."""

    path: str | None = None
    vector: StoreVector = StoreVector()


class Chunking(Section, frozen=True):
    """Chunk size and overlap, in tokens of about four Latin characters."""

    tokens: Annotated[int, Meta(ge=8, le=8000)] = 400
    overlap: NonNegative = 80


class ExtraPath(Section, frozen=True):
    """An additional file or folder with notes.

    `pattern` selects Markdown files below the folder, `exclude` excludes some. Both are relative
    to `path`, in `.gitignore` syntax. `origin` says whose words they are.
    """

    path: str
    pattern: str = "**/*.md"
    exclude: tuple[str, ...] = ()
    origin: Literal["owner", "imported", "untrusted"] = "owner"


class SyncSessions(Section, frozen=True):
    """Thresholds for reading a growing transcript: the amount added, or the time since a change."""

    delta_bytes: Positive = 100_000
    delta_messages: Positive = 50
    idle_seconds: Annotated[float, Meta(ge=0)] = 60.0


class Sync(Section, frozen=True):
    """Detection of changes. `interval_minutes` 0 disables the periodic scan.

    A search waits at most `on_search_wait_ms` for pending changes.
    """

    watch: bool = True
    watch_debounce_ms: NonNegative = 1500
    interval_minutes: Annotated[float, Meta(ge=0)] = 5.0
    on_search: bool = True
    on_search_wait_ms: Annotated[int, Meta(ge=0, le=5_000)] = 150
    on_session_start: bool = True
    sessions: SyncSessions = SyncSessions()


class Mmr(Section, frozen=True, rename={"balance": "lambda"}):
    """Maximal marginal relevance; a `lambda` below 1 prefers results that differ."""

    enabled: bool = False
    balance: Fraction = 0.7


class TemporalDecay(Section, frozen=True):
    """Decay of the score of dated notes: half every `half_life_days`, at least `floor`."""

    enabled: bool = True
    half_life_days: Annotated[float, Meta(gt=0)] = 30.0
    floor: Fraction = 0.45


class Hybrid(Section, frozen=True):
    """Combination of keyword and vector search.

    docs/search.md describes the fusion `evidence`. `weighted` is that of the reference; its weights
    are clamped and normalised.
    """

    enabled: bool = True
    fusion: Literal["evidence", "weighted"] = "evidence"
    vector_weight: float = 0.7
    text_weight: float = 0.3
    candidate_multiplier: Annotated[int, Meta(ge=1, le=20)] = 4
    mmr: Mmr = Mmr()
    temporal_decay: TemporalDecay = TemporalDecay()


class QuerySettings(Section, frozen=True):
    """Defaults of a search. `min_score` None: 0, or 0.35 with the fusion `weighted`."""

    max_results: Annotated[int, Meta(ge=1, le=200)] = 6
    min_score: Fraction | None = None
    min_confidence: Fraction = 0.0
    relative_cutoff: Fraction = 0.35
    snippet_chars: Annotated[int, Meta(ge=40, le=20_000)] = 700
    hybrid: Hybrid = Hybrid()


class Cache(Section, frozen=True):
    """Cache of embeddings for texts without a chunk. `max_entries` 0 means no limit.

    `deleted_days` is the time for which the embedding of a deleted text stays.
    """

    enabled: bool = True
    max_entries: NonNegative = 50_000
    deleted_days: Annotated[float, Meta(ge=0)] = 7.0


class SessionNoteSettings(Section, frozen=True):
    """Notes about conversations that have ended.

    Where an agent records no end, a conversation ends when nothing was added for `idle_minutes`.
    """

    enabled: bool = False
    idle_minutes: Annotated[float, Meta(gt=0)] = 240.0


class Sessions(Section, frozen=True):
    """Transcripts as a source. Without `paths`, they are read from the usual places of `formats`.

    `visibility` is the maximum for a request: the transcripts of its session, also those of the
    sessions that it spawned, of its agent, or all.
    `owners` are the ids of the person whom memoryd serves: account ids, numbers like +4917…, and
    user names like @ana. In a group, all others are untrusted; with `owners`, in direct chats too.
    `keep_days` is the time for which a transcript stays after its file has vanished; None: forever.
    """

    enabled: bool = False
    visibility: Literal["self", "tree", "agent", "all"] = "agent"
    paths: tuple[str, ...] = ()
    formats: tuple[Formats, ...] = get_args(Formats)
    owners: tuple[str, ...] = ()
    keep_days: Annotated[float, Meta(ge=0)] | None = None
    notes: SessionNoteSettings = SessionNoteSettings()


class Redact(Section, frozen=True):
    """Masking of secrets in transcripts before they are stored.

    `patterns` are additional regular expressions; `notes` masks notes in the index too.
    """

    patterns: tuple[str, ...] = ()
    notes: bool = False


class NoteSettings(Section, frozen=True):
    """Notes that agents write. `tool` offers them `memory_note` by MCP."""

    tool: bool = False


class Promotion(Section, frozen=True):
    """Entries of dated notes that may go to MEMORY.md.

    `tracking` counts what searches of agents returned. `memory_max_bytes` is the size up to which
    `promote` lets MEMORY.md grow.
    """

    tracking: bool = False
    memory_max_bytes: Positive = 16_000


class QmdSettings(Section, frozen=True):
    """QMD, for `backend = "qmd"`: its program and the Node.js for it, as names or paths.

    `search_mode` is QMD's: words, vectors or both. `server` keeps a process that answers
    over HTTP on this machine; without it, each search starts a command. `rerank` sorts the results
    of `query` with a third model. A search that takes longer than
    `search_timeout_ms` is answered by the built-in index.
    """

    command: str = "qmd"
    node: str = "node"
    search_mode: Literal["search", "vsearch", "query"] = "search"
    rerank: bool = False
    server: bool = True
    update_minutes: Annotated[float, Meta(gt=0)] = 5.0
    embed_minutes: Annotated[float, Meta(gt=0)] = 60.0
    search_timeout_ms: Annotated[int, Meta(ge=10, le=60_000)] = 4_000
    command_timeout_seconds: Annotated[float, Meta(gt=0)] = 30.0
    update_timeout_seconds: Annotated[float, Meta(gt=0)] = 120.0
    embed_timeout_seconds: Annotated[float, Meta(gt=0)] = 600.0


class LanceSettings(Section, frozen=True):
    """The LanceDB table of facts: in a folder or at `s3://…`; None means `<index>.lancedb`.

    Forgotten facts stay in old versions of the table for `retention_hours`.
    """

    path: str | None = None
    table: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]+$")] = "memories"
    retention_hours: Annotated[float, Meta(ge=1)] = 1.0


class FactSettings(Section, frozen=True):
    """Facts beside the notes. `tool` offers agents tools for them by MCP.

    `capture` takes facts from the owner's messages.
    """

    store: Literal["builtin", "lancedb"] = "builtin"
    lancedb: LanceSettings = LanceSettings()
    tool: bool = False
    capture: bool = False


class SocketSettings(Section, frozen=True):
    """Powers of clients. The table `[socket]` is about the whole daemon, not one agent.

    `restricted` requests a second socket, for agents: true at the default place, or its path.
    `allow` are its operations. `add_below` are the folders at or below which clients may add
    workspaces.
    """

    restricted: bool | str = False
    allow: tuple[str, ...] = ("search", "get", "status")
    add_below: tuple[str, ...] = ("~",)


class Settings(Section, frozen=True):
    """The effective settings of one agent.

    `model`, input types and prefixes apply to `provider`; None means its default. `timezone` is
    that of the days of written notes, such as `Europe/Berlin`; None means the computer's.
    `backend` answers the searches; with another one than the built-in index, that stands in for it.
    """

    workspace: str = ""
    provider: Literal["auto", "auto-remote", "local", "none"] | Remotes = "auto"
    model: str | None = None
    fallback: Literal["local", "none"] | Remotes = "none"
    output_dimensionality: Annotated[int, Meta(ge=8, le=8_192)] | None = None
    input_type: str | None = None
    query_input_type: str | None = None
    document_input_type: str | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    extra_paths: tuple[str | ExtraPath, ...] = ()
    remote: Remote = Remote()
    local: Local = Local()
    store: StoreSettings = StoreSettings()
    chunking: Chunking = Chunking()
    sync: Sync = Sync()
    query: QuerySettings = QuerySettings()
    cache: Cache = Cache()
    sessions: Sessions = Sessions()
    redact: Redact = Redact()
    timezone: str | None = None
    notes: NoteSettings = NoteSettings()
    promotion: Promotion = Promotion()
    backend: Literal["builtin", "qmd"] = "builtin"
    qmd: QmdSettings = QmdSettings()
    facts: FactSettings = FactSettings()
