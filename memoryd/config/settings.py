"""All settings with their types, bounds and defaults, under the configuration file's keys."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the configuration file's tables."""


Remotes = Literal["openai", "gemini", "voyage", "mistral", "ollama"]
"""Providers over HTTP."""


class Batch(Section, frozen=True):
    """The provider's batch API, which is cheaper and slower, for bulk work.

    `enabled` "auto" uses it from `min_texts` texts on. After `timeout_minutes`, memoryd takes the
    available results of a job and embeds the remaining texts directly.
    """

    enabled: bool | Literal["auto"] = False
    min_texts: Positive = 2_000
    concurrency: Positive = 2
    poll_interval_ms: Annotated[int, Meta(ge=10)] = 2_000
    timeout_minutes: Annotated[float, Meta(gt=0)] = 60.0


class Remote(Section, frozen=True):
    """Requests to a provider over HTTP; None and 0 mean its default, or no bound.

    `batch_tokens` and `batch_items` bound one request; a byte of UTF-8 counts as a token.
    `api_key_header` names the header for the key. `price_per_million_tokens` determines the cost
    in `status`.
    """

    base_url: str | None = None
    api_key_file: str | None = None
    api_key_header: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    batch_tokens: Positive = 8_000
    batch_items: Annotated[int, Meta(ge=1, le=2_048)] = 64
    non_batch_concurrency: Annotated[int, Meta(ge=1, le=64)] | None = None
    requests_per_minute: NonNegative = 0
    tokens_per_minute: NonNegative = 0
    price_per_million_tokens: Annotated[float, Meta(ge=0)] = 0.0
    batch: Batch = Batch()


class Local(Section, frozen=True):
    """The model on this machine, in a separate process: a GGUF file, else the bundled one.

    More `threads` are faster only on an idle machine, because they wait by spinning. Beside one
    busy process on two cores, one thread embeds 32 to 65 chunks a second, and two threads embed 12
    for three times the processor time.
    """

    model_path: str | None = None
    context_tokens: Annotated[int, Meta(ge=64, le=131_072)] = 2_048
    threads: Positive = 1
    idle_unload_seconds: Positive = 300


class StoreVector(Section, frozen=True):
    """The sqlite-vec extension; `extension_path` None means the installed one."""

    enabled: bool = True
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
    """Additional memory file or directory outside the memory directory.

    `pattern` selects Markdown files below it and `exclude` leaves some out; both are relative to
    `path`, in the syntax of `.gitignore`.
    """

    path: str
    pattern: str = "**/*.md"
    exclude: tuple[str, ...] = ()


class SyncSessions(Section, frozen=True):
    """Amount of additions, or time since the last change, after which a transcript is read."""

    delta_bytes: Positive = 100_000
    delta_messages: Positive = 50
    idle_seconds: Annotated[float, Meta(ge=0)] = 60.0


class Sync(Section, frozen=True):
    """Detection of changes. `interval_minutes` 0 turns the periodic scan off.

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
    """Maximal marginal relevance: a `lambda` below 1 prefers diverse results."""

    enabled: bool = False
    balance: Fraction = 0.7


class TemporalDecay(Section, frozen=True):
    """Ageing of dated notes: the score halves each half-life, down to the factor `floor`."""

    enabled: bool = True
    half_life_days: Annotated[float, Meta(gt=0)] = 30.0
    floor: Fraction = 0.45


class Hybrid(Section, frozen=True):
    """Combination of the keyword and vector retrievers.

    `evidence` is described in docs/search.md; `weighted` is the reference's formula, with clamped
    and normalised weights.
    """

    enabled: bool = True
    fusion: Literal["evidence", "weighted"] = "evidence"
    vector_weight: float = 0.7
    text_weight: float = 0.3
    candidate_multiplier: Annotated[int, Meta(ge=1, le=20)] = 4
    mmr: Mmr = Mmr()
    temporal_decay: TemporalDecay = TemporalDecay()


class QuerySettings(Section, frozen=True):
    """Defaults of a search."""

    max_results: Annotated[int, Meta(ge=1, le=200)] = 6
    min_score: Fraction = 0.35
    snippet_chars: Annotated[int, Meta(ge=40, le=20_000)] = 700
    hybrid: Hybrid = Hybrid()


class Cache(Section, frozen=True):
    """Embeddings kept for texts of removed chunks. `max_entries` 0: no bound."""

    enabled: bool = True
    max_entries: NonNegative = 50_000


class Sessions(Section, frozen=True):
    """Transcripts as a source. Without `paths`, the usual locations of the `formats` apply.

    `visibility` is the maximum for searches: transcripts of their own session, of their agent, or
    all.
    """

    enabled: bool = False
    visibility: Literal["self", "agent", "all"] = "agent"
    paths: tuple[str, ...] = ()
    formats: tuple[Literal["openclaw", "claude", "codex", "plain"], ...] = (
        "openclaw",
        "claude",
        "codex",
        "plain",
    )


class Redact(Section, frozen=True):
    """Masking in transcripts before they are stored, besides the usual secrets.

    `patterns` are regular expressions (RE2); `notes` masks notes in the index too.
    """

    patterns: tuple[str, ...] = ()
    notes: bool = False


class Settings(Section, frozen=True):
    """The effective settings of one agent.

    `model`, the input types and the prefixes belong to `provider`; None means its defaults.
    """

    workspace: str = ""
    provider: Literal["auto", "local", "none"] | Remotes = "auto"
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
