"""Candidates of a search: reads the retrieved chunks and rates how well their words match."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from memoryd.index.catalog import decode_properties
from memoryd.index.catalog import named as searched_of
from memoryd.index.driver import Connection
from memoryd.messages import FileKey
from memoryd.search.evidence import NO_EVIDENCE, ChunkText, Evidence, Matched, Question, weigh
from memoryd.search.lexical import Corpus, read_lengths
from memoryd.search.named import NOTHING, named_files, rows_of
from memoryd.search.query import Query
from memoryd.search.retrievers import FileIds, Retrieved, Retrievers
from memoryd.search.text_match import Finder, TermPosition, exactness
from memoryd.text.fold import fold, is_unspaced
from memoryd.text.front_matter import names
from memoryd.text.parts import EMOJI_MARK
from memoryd.text.tokenize import Term, index_words
from memoryd_client.schema.search import Origin

_WORDS = re.compile(rf"[\w{EMOJI_MARK}]+")
EXACT_ROWS = 20
"""Maximum number of chunks that become candidates because they contain a verbatim string."""
_FEW_ROWS = 6
"""Chunks with a phrase below which chunks with its words near each other are candidates too."""
_MOST_NEAR_WORDS, _LINK_WORDS = 6, 16
"""Words of a phrase that may have links inside, and words of a link's target."""
CONTAINS = 0.5
"""Least exactness of a quoted string: a match inside a longer string passes."""


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """A candidate with the evidence of its words; `heading` is the path of headings above it.

    `places` are the positions of the question's terms in the `folded` text.
    """

    key: FileKey
    text: str
    evidence: Evidence
    heading: str = ""
    folded: str = ""
    places: Sequence[Sequence[TermPosition]] = ()


@dataclass(frozen=True, slots=True)
class Gathered:
    """The candidates of some files, by row; ranks are the places in each retriever alone.

    `chunks` lacks chunks that an operator excludes or that no longer exist. `cited` are the lines
    of chunks that the question cites.
    """

    chunks: dict[int, ReadChunk]
    bm25: dict[int, float]
    cosines: dict[int, float]
    text_ranks: dict[int, int]
    vector_ranks: dict[int, int]
    cited: dict[int, tuple[int, int]]

    @property
    def texts(self) -> dict[int, str]:
        """Return the texts of the chunks by row."""
        return {row: chunk.text for row, chunk in self.chunks.items()}

    def __or__(self, other: "Gathered") -> "Gathered":
        return Gathered(
            self.chunks | other.chunks,
            self.bm25 | other.bm25,
            self.cosines | other.cosines,
            self.text_ranks | other.text_ranks,
            self.vector_ranks | other.vector_ranks,
            self.cited | other.cited,
        )


Gathering = Callable[[Connection], Gathered]
"""Reads candidates. One read does all such work, because each costs a change of threads."""


def gathering(
    retrievers: Retrievers,
    retrieved: Retrieved,
    file_ids: FileIds,
    *,
    weighted: bool,
    more: Callable[[Connection], Sequence[int]] = lambda connection: (),
) -> Gathering:
    """Return what reads the retrieved chunks of some files, and those with a verbatim string.

    `weighted`: for the reference's formula, which uses neither verbatim strings nor the cosines of
    chunks that only the keyword retriever found. `more` returns further rows to read.
    """
    query, question = retrievers.query, retrievers.question
    encoded, trusted = retrieved.encoded, retrievers.trusted
    by_words = encoded.corpus is not None and not weighted
    named = NOTHING
    if by_words:
        named = named_files(retrievers.store.catalog, query.text, file_ids)

    def read(connection: Connection) -> Gathered:
        units = question.units if by_words else ()
        exact = exact_rows(connection, units, file_ids, trusted=trusted)
        opening = rows_of(connection, named)
        cosines, found = retrieved.cosines, more(connection)
        rows = list(dict.fromkeys([*retrieved.bm25, *cosines, *exact, *opening, *found]))
        chunks = read_chunks(
            connection,
            rows,
            question=question,
            query=query,
            corpus=encoded.corpus,
            trusted=trusted,
            opening=opening,
        )
        if not weighted:
            others = [row for row in rows if row not in cosines]
            cosines = cosines | retrievers.cosines(encoded.vector, others)
        return Gathered(
            chunks,
            retrieved.bm25,
            cosines,
            _ranks(retrieved.bm25),
            _ranks(sorted(cosines, key=lambda row: -cosines[row])),
            {} if named.lines is None else dict.fromkeys(opening, named.lines),
        )

    return read


def _ranks(rows: Iterable[int]) -> dict[int, int]:
    return {row: rank for rank, row in enumerate(rows, start=1)}


def read_chunks(
    connection: Connection,
    rows: Sequence[int],
    *,
    question: Question,
    query: Query,
    corpus: Corpus | None,
    trusted: bool,
    opening: Collection[int] = (),
) -> dict[int, ReadChunk]:
    """Read and rate candidates, without those that an operator excludes or that no longer exist.

    `opening` are rows of files that the question names. `trusted` excludes chunks that became
    untrusted since they were found. Without a `corpus` there are no keyword tables to read, and all
    have `NO_EVIDENCE`.
    """
    without = Finder(Term(fold(word)) for word in query.without if not _is_phrase(word))
    banned = [phrase for phrase in query.without if _is_phrase(phrase)]
    found: dict[int, tuple[FileKey, ChunkText]] = {}
    lengths = {} if corpus is None else read_lengths(connection, rows)
    stored = connection.execute(
        "SELECT row_id, text, path, heading, source, origin, title, properties"
        " FROM chunks JOIN files USING (file_id)"
        " WHERE row_id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(rows).decode(),),
    )
    by_row = {row: columns for row, *columns in stored}
    for row in rows:
        read = by_row.get(row)
        if read is None or _is_ruled_out(read[0], without, banned, query.required):
            continue
        text, path, heading, source, origin, title, properties = read
        if trusted and origin == Origin.UNTRUSTED:
            continue
        context = f"{path.removesuffix('.md')}\n{heading}\n{searched_of(properties)}"
        titles = titles_of(path, title, properties)
        chunk = ChunkText(text, context, lengths.get(row, 1), titles, row in opening)
        found[row] = FileKey(source, path), chunk
    matched = [Matched(NO_EVIDENCE)] * len(found)
    if corpus is not None:
        matched = weigh(question, corpus, [chunk for _, chunk in found.values()])
    return {
        row: ReadChunk(key, chunk.text, evidence, chunk.context.split("\n")[1], folded, places)
        for (row, (key, chunk)), (evidence, folded, places) in zip(
            found.items(), matched, strict=True
        )
    }


@lru_cache(maxsize=256)
def titles_of(path: str, title: str, properties: str) -> str:
    """Return the path, the names and the titles of a file, one a line."""
    name = path.rpartition("/")[2]
    stated = names(decode_properties(properties))
    return "\n".join(dict.fromkeys([path, name, name.removesuffix(".md"), title, *stated]))


def exact_rows(
    connection: Connection,
    units: Sequence[str],
    file_ids: frozenset[int] | None,
    *,
    trusted: bool,
) -> list[int]:
    """Return at most `EXACT_ROWS` chunks per string that contain its words in a row."""
    which = "chunks_fts MATCH ?" + (" AND origin <> 'untrusted'" if trusted else "")
    found: list[int] = []
    for unit in units:
        words = _WORDS.findall(index_words(unit))
        if not words:
            continue
        most = EXACT_ROWS if file_ids is None else 50 * EXACT_ROWS
        find = (
            "SELECT chunks_fts.rowid, file_id FROM chunks_fts"
            f" JOIN chunks ON chunks.row_id = chunks_fts.rowid WHERE {which} LIMIT ?"
        )
        rows = connection.execute(find, (f'"{" ".join(words)}"', most)).fetchall()
        if len(rows) < _FEW_ROWS and 1 < len(words) <= _MOST_NEAR_WORDS:
            # The target of a link may stand between two words.
            near = " ".join(f'"{word}"' for word in words)
            rows += connection.execute(find, (f"NEAR({near}, {_LINK_WORDS})", most)).fetchall()
        allowed = [row for row, file_id in rows if file_ids is None or file_id in file_ids]
        found += allowed[:EXACT_ROWS]
    return found


def _is_phrase(excluded: str) -> bool:
    return not excluded.isalnum() or any(map(is_unspaced, excluded))


def _is_ruled_out(
    text: str, without: Finder, banned: Sequence[str], required: Sequence[str]
) -> bool:
    if without.terms and any(without.places(fold(text))):
        return True
    if any(exactness(phrase, text) >= CONTAINS for phrase in banned):
        return True
    return any(exactness(string, text) < CONTAINS for string in required)
