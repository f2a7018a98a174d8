"""The SQL that reads an index: its identity, its files, its texts and its missing vectors."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

import msgspec

from memoryd.identity import Choice, Identity
from memoryd.index.catalog import decode_properties
from memoryd.index.driver import Connection, Database, Error, one_value
from memoryd.index.file_identity import has_log
from memoryd.index.schema import get_choice, get_identity, get_note
from memoryd.messages import Chunk, FileKey
from memoryd_client.schema.search import Origin


class StoredIdentity(NamedTuple):
    """The stored facts of an index; missing or unreadable ones are None."""

    built: Identity | None = None
    choice: Choice | None = None
    workspace: str | None = None


async def peek(path: Path) -> StoredIdentity:
    """Return the stored facts of an index file, none if it is unreadable: opening reports why."""
    # Reading must create neither the file nor its log.
    with suppress(Error, OSError):
        no_log = not await asyncio.to_thread(has_log, path)
        async with Database(path, readonly=True, immutable=no_log) as database:
            return await database.run(_read)
    return StoredIdentity()


SetAside = tuple[str, str, int, int, str]
"""(source, path, first line, last line, reason) of a chunk that can't be embedded."""


def _read(connection: Connection) -> StoredIdentity:
    choice, workspace = get_choice(connection), get_note(connection, "workspace")
    with suppress(msgspec.MsgspecError):
        return StoredIdentity(get_identity(connection), choice, workspace)
    return StoredIdentity(None, choice, workspace)


def read_files(
    connection: Connection, after: str | None, limit: int
) -> list[tuple[str, str, int, int]]:
    """Return (path, source, size in bytes, chunks) of the next files by path."""
    return connection.execute(
        "SELECT path, source, size,"
        " (SELECT count(*) FROM chunks WHERE chunks.file_id = files.file_id)"
        " FROM files WHERE ?1 IS NULL OR path > ?1 ORDER BY path LIMIT ?2",
        (after, limit),
    ).fetchall()


def read_chunks(connection: Connection, key: FileKey) -> list[Chunk]:
    """Return all chunks of a file in order."""
    found = connection.execute(
        "SELECT start_line, end_line, text, heading, line_map, origin, voices"
        " FROM chunks JOIN files USING (file_id) WHERE source = ? AND path = ?"
        " ORDER BY start_line, end_line, row_id",
        key,
    )
    return [
        Chunk(first, last, text, heading, line_map, Origin(origin), voices)
        for first, last, text, heading, line_map, origin, voices in found.fetchall()
    ]


def read_last_chunks(connection: Connection, key: FileKey, limit: int) -> list[Chunk]:
    """Return the last chunks of a file in order."""
    found = connection.execute(
        "SELECT start_line, end_line, text, heading, line_map, origin, voices"
        " FROM chunks JOIN files USING (file_id) WHERE source = ? AND path = ?"
        " ORDER BY start_line DESC, end_line DESC, row_id DESC LIMIT ?",
        (*key, limit),
    )
    return [
        Chunk(first, last, text, heading, line_map, Origin(origin), voices)
        for first, last, text, heading, line_map, origin, voices in reversed(found.fetchall())
    ]


def read_untrusted(connection: Connection) -> list[int]:
    """Return the rows of all untrusted chunks."""
    found = connection.execute("SELECT row_id FROM chunks WHERE origin = 'untrusted'")
    return [row for (row,) in found.fetchall()]


def files_citing(connection: Connection, conversation: str) -> frozenset[int]:
    """Return the ids of files with entries that may come from a conversation."""
    named = msgspec.json.encode(conversation).decode()[1:-1]
    found = connection.execute(
        "SELECT DISTINCT file_id FROM chunks WHERE instr(voices, ?)", (named,)
    )
    return frozenset(file_id for (file_id,) in found.fetchall())


def find_text(connection: Connection, text: str, *, source: str = "sessions") -> list[str]:
    """Return the files of a source that may contain a text, ignoring case, spaces and line ends.

    A few false positives are possible.
    """
    needle = _bare(text)
    found = []
    for path, messages in groupby(_messages(connection, source), key=lambda message: message[0]):
        if any(_may_contain(parts, needle) for _, parts in messages):
            found.append(path)
    return found


def _messages(connection: Connection, source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (path, normalized parts) of each message; short messages share one part.

    The parts of a note are all its chunks and the values of its properties. The title of a
    transcript counts as a message.
    """
    rows = connection.execute(
        "SELECT path, CASE source WHEN 'sessions' THEN start_line END, start_line, text, '{}'"
        " FROM chunks JOIN files USING (file_id) WHERE source = ?1 UNION ALL"
        " SELECT path, 0, 0, json_extract(transcript, '$.topic.title'), '{}' FROM files"
        " WHERE source = ?1 AND json_extract(transcript, '$.topic.title') <> '' UNION ALL"
        " SELECT path, NULL, 0, '', properties FROM files"
        " WHERE source = ?1 AND properties <> '{}' ORDER BY 1, 3",
        (source,),
    )
    for (path, _), chunks in groupby(rows, key=lambda row: (row[0], row[1])):
        parts: list[str] = []
        for *_, text, properties in chunks:
            parts += map(_bare, chain([text], *decode_properties(properties).values()))
        yield path, [part for part in parts if part] or [""]


def _bare(text: str) -> str:
    """Return the form of a text that is compared."""
    return "".join(normalize("NFD", text.casefold()).split())


def _may_contain(parts: list[str], needle: str) -> bool:
    if any(needle in part for part in parts):
        return True
    if len(parts) == 1:
        return False
    # The text may span two parts, or contain a whole one.
    longest = max(map(len, parts))
    return any(part in needle for part in parts) or any(
        any(part.endswith(needle[:at]) for part in parts)
        and any(part.startswith(needle[at:]) for part in parts)
        for at in range(max(1, len(needle) - longest), min(longest, len(needle) - 1) + 1)
    )


def read_pending(connection: Connection, after: int, limit: int) -> list[tuple[int, str, str]]:
    """Return (row, text hash, text) of the next chunks without a vector, by row."""
    return connection.execute(
        "SELECT row_id, hash, text FROM chunks WHERE vector_id IS NULL AND row_id > ?"
        " AND hash NOT IN (SELECT hash FROM set_aside) ORDER BY row_id LIMIT ?",
        (after, limit),
    ).fetchall()


def measure_pending(connection: Connection) -> tuple[int, int]:
    """Return the number of distinct texts without a vector, and their estimated tokens.

    The estimate is that of `token_estimate.weigh`, from the numbers of characters and bytes.
    """
    row = connection.execute(
        "SELECT count(*), total(length(text)), total(length(CAST(text AS BLOB))) FROM (SELECT text"
        " FROM chunks WHERE vector_id IS NULL AND hash NOT IN (SELECT hash FROM set_aside)"
        " GROUP BY hash)"
    ).fetchone()
    texts, chars, size = (int(number) for number in row)
    return texts, texts + int(chars + 1.5 * (size - chars)) // 4


def count_set_aside(connection: Connection) -> int:
    """Return the number of chunks whose text can't be embedded."""
    unmade = "SELECT count(*) FROM chunks WHERE vector_id IS NULL"
    return int(one_value(connection, f"{unmade} AND hash IN (SELECT hash FROM set_aside)"))


def read_set_aside(connection: Connection) -> list[SetAside]:
    """Return the chunks that can't be embedded, by path and line."""
    return connection.execute(
        "SELECT f.source, f.path, c.start_line, c.end_line, s.reason FROM set_aside s"
        " JOIN chunks c ON c.hash = s.hash JOIN files f ON f.file_id = c.file_id"
        " WHERE c.vector_id IS NULL ORDER BY f.path, f.source, c.start_line"
    ).fetchall()


def count_pending(connection: Connection) -> int:
    """Return the number of distinct texts without a vector."""
    unmade = "SELECT count(DISTINCT hash) FROM chunks WHERE vector_id IS NULL"
    return int(one_value(connection, f"{unmade} AND hash NOT IN (SELECT hash FROM set_aside)"))
