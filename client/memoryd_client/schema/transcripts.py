"""Bodies of requests about transcripts."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class SessionsBody(Body):
    """One page of transcripts, by name; `after` is the `next_after` of the previous page."""

    after: str | None = None
    limit: int = 200


class SessionEntry(Body):
    """One transcript. `state` is `indexed`, `pending`, `new`, `kept`, `failed` or `left out`.

    `reason` explains the last three. `real_path` is its file; of a `kept` one, its copy, because
    its file was missed at the Unix time `gone_at`. `pending_bytes` counts bytes that are not
    indexed, or records of a store, `malformed` invalid lines. `session` and `owner` are "" if
    unknown.
    """

    path: str
    real_path: str
    state: str
    format: str = ""
    messages: int = 0
    chunks: int = 0
    malformed: int = 0
    pending_bytes: int = 0
    session: str = ""
    owner: str = ""
    reason: str | None = None
    gone_at: float | None = None


class SessionsResult(Body):
    """A page of transcripts; `total` counts those on all pages.

    `missing` are places that don't exist. `elsewhere` has transcripts that no configured place
    covers, and places without a transcript.
    """

    enabled: bool
    sessions: list[SessionEntry]
    total: int
    next_after: str | None = None
    missing: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


class ForgetBody(Body):
    """Permanently forget the transcripts of a session, a note or transcript, or messages and facts.

    Exactly one of `session`, `path`, `match` (a text) and `gone` (all transcripts whose files are
    gone) is set. `delete_source` also deletes the files (not with `match`), without which a note
    must be deleted already; `dry_run` changes nothing.
    """

    session: str | None = None
    path: str | None = None
    match: str | None = None
    dry_run: bool = False
    delete_source: bool = False
    gone: bool = False


class ForgetResult(Body):
    """Forgotten notes and transcripts by name (or those selected), and the messages of a `match`.

    `notes` are the places of notes that still contain the text of a `match`, or that come from the
    forgotten transcripts, as `path:line`. `facts` are the ids of facts with the text of a `match`.
    `remains` says what may remain elsewhere.
    `unread` are unreadable transcripts: with `match`, they leave the index as a whole, and may
    return as a whole once they can be read.
    """

    paths: list[str]
    messages: int
    dry_run: bool
    deleted: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)


class ExportBody(Body):
    """One page of transcripts, by name; `after` is the `next_after` of the previous page."""

    after: str | None = None


class ExportedTranscript(Body):
    """The text of a transcript as indexed: JSON lines, packed with zstd."""

    name: str
    data: bytes


class ExportResult(Body):
    """A page of transcripts. `too_large` ones can't be exported."""

    transcripts: list[ExportedTranscript]
    next_after: str | None = None
    too_large: list[str] = field(default_factory=list)


class ImportBody(Body):
    """Exported transcripts to keep, each packed; `dry_run` only checks them."""

    transcripts: list[bytes] = field(default_factory=list)
    dry_run: bool = False


class ImportResult(Body):
    """Names of the imported transcripts, of those `present` before, and of those left out.

    A transcript is left out if it was forgotten here or if its format is not enabled.
    """

    imported: list[str]
    present: list[str]
    left_out: list[str]
