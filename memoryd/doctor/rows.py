"""The index row by row: whether what a chunk says of itself is so."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from memoryd.doctor.finding import Tally, Topic
from memoryd.doctor.structure import REBUILD
from memoryd.identity import Identity
from memoryd.index.catalog import decode_remarks, decode_transcript
from memoryd.index.driver import Connection, has_fts5
from memoryd.index.statements import chunk_id, text_hash
from memoryd.messages import Chunk, FileKey
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd.text.tokenize import TOKENIZER, fts_columns

_BATCH_ROWS = 500
_CHUNKS = (
    "SELECT source, path, start_line, end_line, text, heading, line_map, chunks.id, chunks.hash,"
    " model, {words} FROM chunks JOIN files USING (file_id) {join}"
)


def check_chunks(connection: Connection, topic: Topic, identity: Identity) -> None:
    """Check each chunk's hash, id, lines and words."""
    wrong: dict[str, Tally] = {}
    for place, problem in _problems(connection, identity):
        wrong.setdefault(problem, Tally()).add(place)
    for problem, places in wrong.items():
        topic.error(f"chunks whose {problem}: {places}", REBUILD)


def check_files(connection: Connection, topic: Topic) -> None:
    """Check what stands beside each file."""
    wrong = Tally()
    for path, remarks, transcript in read(
        connection, "SELECT path, remarks, transcript FROM files"
    ):
        try:
            decode_remarks(remarks)
            decode_transcript(transcript)
        except msgspec.MsgspecError:
            wrong.add(path)
    if wrong:
        topic.error(f"files with notes that can't be read: {wrong}", REBUILD)


def _problems(connection: Connection, identity: Identity) -> Iterator[tuple[str, str]]:
    """Yield (which chunk, what of it is wrong)."""
    with_words = has_fts5(connection) and _is_there(connection, "chunks_fts_content")
    statement = _CHUNKS.format(
        words="c0, c1" if with_words else "NULL, NULL",
        join="LEFT JOIN chunks_fts_content c ON c.id = row_id" if with_words else "",
    )
    current_words = with_words and identity.tokenizer == TOKENIZER
    for row in read(connection, statement):
        source, path, start, end, text, heading, line_map, id_, digest, model, *words = row
        place = f"{path}:{start}-{end}"
        chunk = Chunk(start, end, text, heading, line_map)
        if text_hash(text) != digest:
            yield place, "text is not the one that was written"
            continue
        if chunk_id(FileKey(source, path), chunk, digest, model) != id_:
            yield place, "id does not fit"
        if model != identity.model:
            yield place, f"model is not {identity.model}"
        if not _lines_fit(source, chunk):
            yield place, "lines can't be"
        # Words that are missing altogether are counted elsewhere.
        if (
            current_words
            and words[0] is not None
            and tuple(words) != fts_columns(text, path, heading)
        ):
            yield place, "words are not those of its text"


def _lines_fit(source: str, chunk: Chunk) -> bool:
    if not 1 <= chunk.start_line <= chunk.end_line:
        return False
    if source != SESSIONS:
        return True
    with suppress(ValueError):
        numbers = [int(number) for number in chunk.line_map.split(",")]
        return len(numbers) == chunk.text.count("\n") + 1 and numbers == sorted(numbers)
    return False


def _is_there(connection: Connection, table: str) -> bool:
    row = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    return row is not None


def read(connection: Connection, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
    """Yield what a statement finds, some rows at a time."""
    cursor = connection.execute(statement, values)
    while batch := cursor.fetchmany(_BATCH_ROWS):
        yield from batch
