"""Bodies about entries of MEMORY.md that newer notes contradict."""

from msgspec import field

from memoryd_client.wire.protocol import Body


class NewerStatement(Body):
    """A line of a dated note with another value; `date` is the last day of the note."""

    citation: str
    text: str
    date: str


class StaleEntry(Body):
    """An entry of MEMORY.md, and the newest lines that contradict it, the newest one first.

    `date` is the day on which the entry was observed, `YYYY-MM-DD`; "" if it does not say.
    """

    citation: str
    text: str
    newer: list[NewerStatement]
    date: str = ""


class StaleResult(Body):
    """Entries in the order of MEMORY.md; `compared` counts those that were looked at."""

    entries: list[StaleEntry]
    compared: int = 0
    warnings: list[str] = field(default_factory=list)
