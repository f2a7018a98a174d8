"""Bodies of memory that an agent gets unasked: a session's context, and recall for a message."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class ContextBody(Body):
    """The notes that a session begins with.

    `session` is its id. `chat_type` is `direct`, `group` or `channel`; the last two get nothing,
    because others read along. `max_chars` limits the text. `now` is the asker's time with the
    offset from UTC (RFC 3339), which says what today is; None means the daemon's.
    """

    session: str = ""
    chat_type: str = "direct"
    max_chars: int = 8_000
    now: str | None = None


class ContextSection(Body):
    """One section that the text has: its place, its headings, and its length in characters."""

    citation: str
    title: str
    chars: int


class ContextResult(Body):
    """A text for the beginning of a session; "" if there is nothing.

    `text` labels the sections as data and may go into a prompt as it is. `omitted` cites the
    sections that did not fit; `get` reads them.
    """

    text: str
    sections: list[ContextSection]
    omitted: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class RecallBody(Body):
    """A message to an agent; of a long one, its beginning and its end count.

    `max_chars` limits the text. `now` is the asker's time with the offset from UTC (RFC 3339);
    None means the daemon's. `chat_type` is `direct`, `group` or `channel`; in the last two,
    nothing of MEMORY.md and USER.md is recalled.
    """

    message: str
    max_chars: int = 1_500
    now: str | None = None
    chat_type: str = "direct"


class RecallEntry(Body):
    """One entry of a note: a list item or a paragraph.

    `confidence` is the estimated probability that it fits the message. `title` has the headings
    above it, or the title of the note; `date` and `origin` are as in `Hit`.
    """

    citation: str
    text: str
    confidence: float
    date: str = ""
    origin: str = ""
    title: str = ""


class RecallResult(Body):
    """At most three entries, the best first; none unless they fit with high confidence.

    `text` labels the entries as data and may go into a prompt as it is; "" if there are none.
    """

    text: str
    entries: list[RecallEntry]
    warnings: list[str] = field(default_factory=list)
