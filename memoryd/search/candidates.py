"""Reads the words of candidates from the index and weighs them, on a reader's thread."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryd.index.driver import Connection
from memoryd.messages import FileKey
from memoryd.search.corpus import Corpus, read_lengths
from memoryd.search.evidence import NO_EVIDENCE, ChunkText, Evidence, Question, weigh
from memoryd.search.query import Query
from memoryd.search.term_match import Finder, fold
from memoryd.search.verbatim import level
from memoryd.text.tokenize import Term, index_text, unspaced_share

_WORDS = re.compile(r"\w+")
EXACT_ROWS = 20
"""Chunks that have a string to the letter are candidates, whatever else they have: so many."""
UNSPACED_QUESTION, UNSPACED_CHUNK = 0.3, 0.1
"""From such a share on, a text is in a script without spaces."""
CONTAINS = 0.5
"""A string in quotes stands in a chunk if it is no worse than inside of a longer string."""


@dataclass(frozen=True, slots=True)
class Words:
    """What was read of one candidate."""

    key: FileKey
    text: str
    evidence: Evidence
    other_script: bool


def read_words(
    connection: Connection,
    rows: Iterable[int],
    *,
    question: Question,
    query: Query,
    corpus: Corpus | None,
) -> dict[int, Words]:
    """Read and weigh candidates; what the query's operators rule out, or is gone, is left out.

    They are not weighed without a `corpus`: then there are no keyword tables to be read.
    """
    unspaced = is_unspaced_question(query.text)
    without = Finder(Term(word) for word in query.without)
    found: dict[int, tuple[FileKey, ChunkText]] = {}
    wanted = list(rows)
    lengths = {} if corpus is None else read_lengths(connection, wanted)
    for row in wanted:
        read = connection.execute(
            "SELECT text, path, heading, source FROM chunks JOIN files USING (file_id)"
            " WHERE row_id = ?",
            (row,),
        ).fetchone()
        if read is None or _is_ruled_out(read[0], without, query.required):
            continue
        text, path, heading, source = read
        context = f"{path.removesuffix('.md')}\n{heading}"
        chunk = ChunkText(text, context, lengths.get(row, 1))
        found[row] = FileKey(source, path), chunk
    evidence = [NO_EVIDENCE] * len(found)
    if corpus is not None:
        evidence = weigh(question, corpus, [chunk for _, chunk in found.values()])
    return {
        row: Words(key, chunk.text, each, _is_unspaced(chunk.text) != unspaced)
        for (row, (key, chunk)), each in zip(found.items(), evidence, strict=True)
    }


def exact_rows(
    connection: Connection, units: Sequence[str], file_ids: frozenset[int] | None
) -> list[int]:
    """Return chunks that have a string's words in a row: those of each string, a few."""
    found: list[int] = []
    for unit in units:
        words = " ".join(_WORDS.findall(index_text(unit)))
        if not words:
            continue
        rows = connection.execute(
            "SELECT chunks_fts.rowid, file_id FROM chunks_fts"
            " JOIN chunks ON chunks.row_id = chunks_fts.rowid WHERE chunks_fts MATCH ? LIMIT ?",
            (f'"{words}"', EXACT_ROWS if file_ids is None else 50 * EXACT_ROWS),
        ).fetchall()
        allowed = [row for row, file_id in rows if file_ids is None or file_id in file_ids]
        found += allowed[:EXACT_ROWS]
    return found


def is_unspaced_question(text: str) -> bool:
    """Say whether a question is in a script that puts no spaces between words."""
    return unspaced_share(text) > UNSPACED_QUESTION


def _is_unspaced(text: str) -> bool:
    return unspaced_share(text) > UNSPACED_CHUNK


def _is_ruled_out(text: str, without: Finder, required: Sequence[str]) -> bool:
    if without.terms and any(without.places(fold(text))):
        return True
    return any(level(string, text) < CONTAINS for string in required)
