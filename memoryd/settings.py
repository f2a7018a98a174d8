"""Every setting, its type, bounds and default. The keys are the configuration file's."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tables of the configuration file."""


class Local(Section, frozen=True):
    """The bundled model's worker process.

    More `threads` are faster only on an idle machine: they wait for each other by spinning. With
    one other busy process on two cores, one thread embeds 32 to 65 chunks a second and two
    threads 12, for three times the processor time.
    """

    threads: Positive = 1
    idle_unload_seconds: Positive = 300


class StoreVector(Section, frozen=True):
    """The sqlite-vec extension; `extension_path` None means the one that is installed."""

    enabled: bool = True
    extension_path: str | None = None


class Store(Section, frozen=True):
    """Where the index lives; `path` None means `<state dir>/<agent>.sqlite`."""

    path: str | None = None
    vector: StoreVector = StoreVector()


class Chunking(Section, frozen=True):
    """Chunk size and overlap, in tokens of about four Latin characters."""

    tokens: Annotated[int, Meta(ge=8, le=8000)] = 400
    overlap: NonNegative = 80


class ExtraPath(Section, frozen=True):
    """A file or folder outside the memory folder that is memory too.

    `pattern` chooses among the Markdown files below the folder, `exclude` leaves some out; both are
    relative to `path` and in the syntax of `.gitignore`.
    """

    path: str
    pattern: str = "**/*.md"
    exclude: tuple[str, ...] = ()


class SyncSessions(Section, frozen=True):
    """When a transcript that grows is read: after so much, or so long after its last change."""

    delta_bytes: Positive = 100_000
    delta_messages: Positive = 50
    idle_seconds: Annotated[float, Meta(ge=0)] = 60.0


class Sync(Section, frozen=True):
    """How changes are noticed. `interval_minutes` 0 turns the periodic scan off."""

    watch: bool = True
    watch_debounce_ms: NonNegative = 1500
    interval_minutes: Annotated[float, Meta(ge=0)] = 5.0
    on_search: bool = True
    on_session_start: bool = True
    sessions: SyncSessions = SyncSessions()


class Hybrid(Section, frozen=True):
    """How the keyword and vector legs are combined. Weights are clamped and normalised."""

    enabled: bool = True
    fusion: Literal["weighted"] = "weighted"
    vector_weight: float = 0.7
    text_weight: float = 0.3
    candidate_multiplier: Annotated[int, Meta(ge=1, le=20)] = 4


class Query(Section, frozen=True):
    """What a search returns when it doesn't say."""

    max_results: Annotated[int, Meta(ge=1, le=200)] = 6
    min_score: Fraction = 0.35
    snippet_chars: Annotated[int, Meta(ge=40, le=20_000)] = 700
    hybrid: Hybrid = Hybrid()


class Cache(Section, frozen=True):
    """Embeddings kept for texts that no chunk holds any more. `max_entries` 0: no bound."""

    enabled: bool = True
    max_entries: NonNegative = 50_000


class Sessions(Section, frozen=True):
    """Transcripts as a source. No `paths`: the places where the agents of `formats` keep theirs.

    `visibility` is the most that a search may ask for: transcripts of its own session, of its
    agent, or all.
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
    """What is masked in transcripts before anything is stored, besides the usual secrets.

    `patterns` are regular expressions; `notes` masks notes in the index too.
    """

    patterns: tuple[str, ...] = ()
    notes: bool = False


class Settings(Section, frozen=True):
    """The effective settings of one agent."""

    workspace: str = ""
    provider: Literal["auto", "local", "none"] = "auto"
    extra_paths: tuple[str | ExtraPath, ...] = ()
    local: Local = Local()
    store: Store = Store()
    chunking: Chunking = Chunking()
    sync: Sync = Sync()
    query: Query = Query()
    cache: Cache = Cache()
    sessions: Sessions = Sessions()
    redact: Redact = Redact()
