"""Bodies of requests that write notes."""

from typing import Literal

from msgspec import field

from memoryd_client.schema.search import Origin
from memoryd_client.wire.protocol import Body

NoteKind = Literal["fact", "decision", "preference", "todo"]
NoteAction = Literal["write", "undo", "restore", "dismiss"]


class NoteBody(Body):
    """A note to write, or an `action` on the notes that memoryd has written.

    `write` appends `text` (at most 8,000 characters) as a list item to `file`: `today` (the note of
    today in the configured time zone), `MEMORY.md`, or a path below `memory/`. With `heading`, it
    goes to the end of that section, which is added if it is missing.

    A comment at the end of the note says where it comes from: `origin` (whose words it has),
    `conversation` (a citation), `observed` (RFC 3339, by default now), `supersedes` (a citation).
    Each of the last three has at most 500 characters. The note is not trusted more than its file.
    Marks of outside content in the text make it untrusted.

    `undo` takes back the last note, if nobody has changed it. `restore` writes again all notes that
    are no longer in their files, and `dismiss` stops reporting them. These need no text.
    """

    text: str = ""
    file: str = "today"
    heading: str | None = None
    kind: NoteKind | None = None
    action: NoteAction = "write"
    origin: Origin = Origin.AGENT
    conversation: str | None = None
    observed: str | None = None
    supersedes: str | None = None


class NoteResult(Body):
    """The note that was written: its citation, and its text there, without the comment.

    `duplicate`: the same note was written within a day and is cited, and nothing was written.
    `masked`: the text contained a secret, which was left out. `searchable` is false if the note is
    written but can't be found yet; `warnings` say why. `undone`, `restored` and `dismissed` are
    for these actions: the citation that the note had, the new citations, and the files.
    """

    citation: str = ""
    text: str = ""
    duplicate: bool = False
    masked: bool = False
    searchable: bool = True
    undone: str = ""
    restored: list[str] = field(default_factory=list)
    dismissed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
