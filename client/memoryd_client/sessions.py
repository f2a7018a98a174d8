"""The bodies of requests about transcripts."""

from msgspec import field

from memoryd_client.protocol import Body


class SessionsBody(Body):
    """One page of transcripts, by name; `after` is the `next_after` of the page before."""

    after: str | None = None
    limit: int = 200


class SessionEntry(Body):
    """One transcript. `state` is `indexed`, `pending`, `new` or `failed` (with the `reason`).

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
