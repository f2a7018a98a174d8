"""Checks of an index's files and chunks, row by row."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from memoryd.doctor.finding import Tally, Topic
from memoryd.doctor.structure import REBUILD, names
from memoryd.identity import Identity
from memoryd.index.catalog import decode_properties, decode_remarks, decode_transcript
from memoryd.index.driver import Connection, has_module
from memoryd.index.repair.checks import (
    NO_KEYWORDS,
    ChunkRow,
    check_words,
    chunk_problems,
    read_chunks,
)
from memoryd.index.schema import has_present_words
from memoryd.source.transcripts.locations import SOURCE as SESSIONS

_BATCH_ROWS = 500


def check_chunks(connection: Connection, topic: Topic, identity: Identity) -> None:
    """Check each chunk's file, text, id, vector, keywords, model and lines."""
    there = "chunks_fts_docsize" in names(connection, "table")
    # Another memoryd's words may differ; the next start replaces them.
    words = there and has_module(connection, "fts5") and has_present_words(connection)
    wrong: dict[str, Tally] = {}
    for chunk in read_chunks(connection, words=words):
        kinds = [problem.kind for problem in chunk_problems(chunk, words=words)]
        if chunk.model != identity.model:
            kinds.append(f"another model than {identity.model}")
        if not _lines_fit(chunk):
            kinds.append("impossible lines")
        place = f"{chunk.path}:{chunk.start_line}-{chunk.end_line}"
        for kind in kinds:
            if kind != NO_KEYWORDS:  # counted with the relations
                wrong.setdefault(kind, Tally()).add(place if chunk.path else str(chunk.row_id))
    for kind, places in wrong.items():
        topic.error(f"chunks with {kind}: {places}", REBUILD)
    if words and not wrong and not topic.failed and (problem := check_words(connection)):
        topic.error(f"the keywords are not those of the texts: {problem.message}", REBUILD)


def check_files(connection: Connection, topic: Topic) -> None:
    """Check the remarks, the transcript state and the properties of each file."""
    wrong = Tally()
    rows = read(connection, "SELECT path, remarks, transcript, properties FROM files")
    for path, remarks, transcript, properties in rows:
        try:
            decode_remarks(remarks)
            decode_transcript(transcript)
            decode_properties(properties)
        except msgspec.MsgspecError:
            wrong.add(path)
    if wrong:
        topic.error(f"files with unreadable remarks: {wrong}", REBUILD)


def _lines_fit(chunk: ChunkRow) -> bool:
    if not 1 <= chunk.start_line <= chunk.end_line:
        return False
    if chunk.source != SESSIONS:
        return True
    with suppress(ValueError):
        numbers = [int(number) for number in chunk.line_map.split(",")]
        return len(numbers) == chunk.text.count("\n") + 1 and numbers == sorted(numbers)
    return False


def read(connection: Connection, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a statement, fetched in batches."""
    cursor = connection.execute(statement, values)
    while batch := cursor.fetchmany(_BATCH_ROWS):
        yield from batch
