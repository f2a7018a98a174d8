"""The bodies of requests about transcripts."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class SessionsBody(Body):
    """One page of transcripts, by name; `after` is the `next_after` of the page before."""

    after: str | None = None
    limit: int = 200


class SessionEntry(Body):
    """One transcript. `state` is `indexed`, `pending`, `new`, `failed` or `left out`.

    `reason` says why of the last two.

    `real_path` is where it lies, `pending_bytes` what of it is not indexed, `malformed` how many of
    its lines make no sense. `session` and `owner` are "" where they are not known.
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


class SessionsResult(Body):
    """A page of transcripts; `total` counts those on all pages.

    `missing` are places that are not there, `elsewhere` what agents keep where nobody reads it.
    """

    enabled: bool
    sessions: list[SessionEntry]
    total: int
    next_after: str | None = None
    missing: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


class ForgetBody(Body):
    """Forget transcripts for good: those of a session, one by its name, or messages with a text.

    Exactly one of `session`, `path` and `match` is set. `delete_source` removes the transcripts'
    own files too (not with `match`); `dry_run` changes nothing.
    """

    session: str | None = None
    path: str | None = None
    match: str | None = None
    dry_run: bool = False
    delete_source: bool = False


class ForgetResult(Body):
    """What is forgotten, or would be: transcripts by name, and how many messages with `match`.

    `unread` are those of the transcripts that can't be read now: with `match`, they go out of the
    index as a whole, and may come back as a whole when they can be.
    """

    paths: list[str]
    messages: int
    dry_run: bool
    deleted: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
