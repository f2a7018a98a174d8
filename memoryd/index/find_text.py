"""Finds the transcripts in which a text may stand, by their chunks.

A message that is too long for one chunk is in several, and the text may begin in one and end in
another. In which order they come is not asked: it is enough that no transcript is missed.
"""

from collections.abc import Iterator
from itertools import groupby
from unicodedata import normalize

from memoryd.index.driver import Connection


def find_text(connection: Connection, text: str) -> list[str]:
    """Return the names of the transcripts in which a text may stand, in any case.

    Few others may be among them; spaces and line ends are not looked at.
    """
    wanted = _bare(text)
    found = []
    for path, messages in groupby(_messages(connection), key=lambda message: message[0]):
        if any(_may_have(parts, wanted) for _, parts in messages):
            found.append(path)
    return found


def _messages(connection: Connection) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of each message, bare, with its transcript; short ones share one part."""
    rows = connection.execute(
        "SELECT path, start_line, text FROM chunks JOIN files USING (file_id)"
        " WHERE source = 'sessions' ORDER BY path, start_line"
    )
    for (path, _), chunks in groupby(rows, key=lambda row: (row[0], row[1])):
        yield path, [_bare(text) for _, _, text in chunks]


def _bare(text: str) -> str:
    """Return what of a text is compared."""
    return "".join(normalize("NFD", text.casefold()).split())


def _may_have(parts: list[str], wanted: str) -> bool:
    if any(wanted in part for part in parts):
        return True
    if len(parts) == 1:
        return False
    # It begins at the end of one and ends at the beginning of another, or has a whole one in it.
    most = max(map(len, parts))
    return any(part in wanted for part in parts) or any(
        any(part.endswith(wanted[:at]) for part in parts)
        and any(part.startswith(wanted[at:]) for part in parts)
        for at in range(max(1, len(wanted) - most), min(most, len(wanted) - 1) + 1)
    )
