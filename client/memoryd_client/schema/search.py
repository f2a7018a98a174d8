"""Bodies of a search: the question, its results, and how far these can be trusted."""

from enum import StrEnum

from msgspec import field

from memoryd_client.wire.protocol import Body


class Origin(StrEnum):
    """Person or program whose words a text is, from the most trusted to the least.

    `owner`: the person whom memoryd serves, in notes or as a user; `system`: the agent's program;
    `agent`: the assistant; `imported`: notes that came from elsewhere, as the configuration says;
    `untrusted`: strangers in a chat, and quoted mails, pages and files.
    """

    OWNER = "owner"
    SYSTEM = "system"
    AGENT = "agent"
    IMPORTED = "imported"
    UNTRUSTED = "untrusted"


class Role(StrEnum):
    """Kind of a text: a note, or a message of a user or the assistant."""

    NOTE = "note"
    USER = "user"
    ASSISTANT = "assistant"


class Confidence(StrEnum):
    """Rating of an answer: how probable it is that one of its results answers the query.

    `high`: nearly certain; `medium`: more likely than not; `low`: hardly; `none`: no result does,
    or there is none. docs/search.md has the shares that were measured.
    """

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


class SearchBody(Body):
    """A search. None means the configured default.

    `path_glob` is matched against result paths (`*` and `?` stay within a folder, `**` spans
    folders). `since` and `until` are inclusive dates `YYYY-MM-DD`, compared with a file's own date
    (of its name, its front matter or its records), else its modification time. `visibility` selects
    the transcripts: `self` (only those of `session`), `tree` (also those of the sessions that it
    spawned), `agent` or `all`. `mode` is `hybrid`, `keyword` or `vector`; `max_chars` limits all
    snippets together; `explain` requests an `Explanation` per result. The query may contain
    operators: see docs/search.md. `highlight`
    requests the positions of the query's words. `trusted` leaves out results whose `origin` is
    `untrusted`, `min_confidence` those whose `confidence` is below it. `origins` are the origins of
    results, None means all. `conversation` (a citation, or the name of a transcript) selects a
    conversation and the written entries that come from it. `now` is the asker's time
    with the offset from UTC (RFC 3339), from which "yesterday" is counted; None means the daemon's.
    `chat_type` is `direct` (or None), `group` or `channel`: in the last two, neither MEMORY.md and
    USER.md nor private conversations and notes about them are found, and a warning says so.
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
    trusted: bool = False
    min_confidence: float | None = None
    now: str | None = None
    chat_type: str | None = None
    origins: list[str] | None = None
    conversation: str | None = None


class Explanation(Body):
    """Parts of a result's score, from 0 to about 1 except `cosine` and `strength`.

    `bm25`, `coverage`, `adjacency` and `verbatim` measure its words, `cosine` its vector;
    `title` is 1 if it begins a file whose title is the query;
    `strength` is their sum, `decay` the factor for its age. The ranks are those of each retriever.
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
    title: float = 0.0


class Hit(Body):
    """One cited result.

    `start_line`..`end_line` (1-based, inclusive) is the matching chunk;
    `snippet_start_line`..`snippet_end_line` is the part in `snippet`, which `citation` cites.
    Scores are in [0, 1]; None if that retriever did not find the result. `highlights` are
    (start, end) of the query's words in the snippet, in characters.

    `role` (see `Role`) and `origin` (see `Origin`) are "" from a daemon that does not know them:
    treat these as untrusted. `speaker` and `channel` name the sender and the chat as the transcript
    does, or the sender and the kind of quoted content; "" if unknown.

    `title` is the title of a note: of its front matter, else its first heading, else its file name.
    For a transcript it is that of the conversation, else the first words of its first question.
    `date` is the day of the note, `YYYY-MM-DD`, or its first and last day as in
    `2026-11-23/2026-11-29`; for a transcript it is the day of the message that answers, else the
    first one of the conversation. Both are "" if unknown. `confidence` is the calibrated
    probability that the result answers the query; None if the daemon does not estimate it.

    `conversation`, `observed` and `supersedes` are what the comment of an entry states that memoryd
    wrote: citations of the conversation that it comes from and of the note that it replaces, and
    the time (RFC 3339). All are "" if unknown.
    `gone_at` is the Unix time at which the file of a transcript was missed that is kept without it.
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
    role: str = ""
    speaker: str = ""
    channel: str = ""
    origin: str = ""
    title: str = ""
    date: str = ""
    confidence: float | None = None
    conversation: str = ""
    observed: str = ""
    supersedes: str = ""
    gone_at: float | None = None


class BackendFallback(Body):
    """The back end that could not answer (`from`), and the reason."""

    from_: str = field(name="from")
    reason: str = ""


class SearchResult(Body):
    """Results, best first, with the state of the search.

    `mode` is the mode that ran: `hybrid`, `keyword`, `vector` or `none`; `warnings` explain a
    degraded mode. `stale` is true while noticed changes are not searchable yet. Paths are relative
    to `workspace_dir` unless absolute. `omitted` counts results beyond `max_chars`.
    `confidence` rates the answer as a whole: `high`, `medium`, `low` or `none` (nothing answers
    clearly); "" if the daemon does not rate it. `first_index` tells how far the first index is,
    such as `first index under way, 120 of 1,000 files`; "" if it is complete. `backend` is the back
    end that answered, `builtin` or `qmd`; "" from a daemon that knows no other. `backend_fallback`
    tells for which one the built-in index answered.
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
    confidence: str = ""
    first_index: str = ""
    backend: str = ""
    backend_fallback: BackendFallback | None = None
