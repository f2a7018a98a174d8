"""Candidates of a search: reads the retrieved chunks and rates how well their words match."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memoryd.index.driver import Connection
from memoryd.search.chunk_cache import StoredChunk, read_stored
from memoryd.search.evidence import NOT_MATCHED, Evidence, Weigher, with_title
from memoryd.search.fuse import promised_strength
from memoryd.search.named import NOTHING, named_files, rows_of
from memoryd.search.phrase_scores import PhraseScores
from memoryd.search.postings import KnownWords
from memoryd.search.query import Query
from memoryd.search.retrievers import FileIds, Retrieved, Retrievers
from memoryd.search.text_match import Finder, Places, terms_of_lines
from memoryd.search.verbatim import exactness
from memoryd.text.fold import fold, has_unspaced
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


@dataclass(slots=True, eq=False)
class ReadChunk:
    """A candidate with the evidence of its words, and the places of the question's terms."""

    stored: StoredChunk
    evidence: Evidence
    places: Places | None = None
    _of_lines: dict[int, int] | None = None

    @property
    def terms_of_lines(self) -> Mapping[int, int]:
        """Return the set of the question's terms, as bits, in each line that has any."""
        if self._of_lines is None:
            self._of_lines = terms_of_lines(self.places or ())
        return self._of_lines


@dataclass(frozen=True, slots=True)
class Gathered:
    """The candidates of some files, by row.

    `windows` are the cosines of the windows of some. `chunks` lacks chunks that an operator
    excludes or that no longer exist. `cited` are the lines of chunks that the question cites.
    `found` has the scores of each retrieval, from both retrievers.
    """

    chunks: dict[int, ReadChunk]
    bm25: dict[int, float]
    cosines: dict[int, float]
    found: tuple[tuple[Mapping[int, float], Mapping[int, float]], ...]
    cited: dict[int, tuple[int, int]]
    windows: dict[int, list[float]] = field(default_factory=dict)

    @property
    def texts(self) -> dict[int, str]:
        """Return the texts of the chunks by row."""
        return {row: chunk.stored.text for row, chunk in self.chunks.items()}

    def ranks(self, row: int) -> tuple[int | None, int | None]:
        """Return the place of a row in each retriever alone, counted from 1."""
        text: int | None = None
        vector: int | None = None
        for bm25, cosines in self.found:
            if row in bm25:
                text = 1 + list(bm25).index(row)
            if row in cosines:
                vector = 1 + sorted(cosines, key=lambda each: -cosines[each]).index(row)
        return text, vector

    def __or__(self, other: "Gathered") -> "Gathered":
        return Gathered(
            self.chunks | other.chunks,
            self.bm25 | other.bm25,
            self.cosines | other.cosines,
            self.found + other.found,
            self.cited | other.cited,
            self.windows | other.windows,
        )


def gather(
    connection: Connection,
    retrievers: Retrievers,
    retrieved: Retrieved,
    file_ids: FileIds,
    weigher: Weigher | None,
    *,
    weighted: bool,
    most: int,
    more: Sequence[int] = (),
) -> Gathered:
    """Read the likeliest of the retrieved chunks of some files, those with a verbatim string.

    Reads at most `most` of the retrieved chunks, and all of the rows `more`. `weigher` rates their
    words, None if the keyword retriever did not run. `weighted`: for the reference's formula, which
    reads all retrieved chunks, and uses neither verbatim strings nor the cosines of chunks that
    only the keyword retriever found.
    """
    query, question = retrievers.query, retrievers.question
    encoded, trusted = retrieved.encoded, retrievers.trusted
    named, exact = NOTHING, list[int]()
    cosines = retrieved.cosines
    best: Collection[int] = dict.fromkeys([*retrieved.bm25, *cosines])
    if not weighted:
        cosines = cosines | retrieved.other_cosines
        if len(best) > most:
            highest = -1.0 if weigher is None else weigher.highest_bm25
            best = _likeliest(best, retrieved.bm25, retrievers.usual(cosines), highest)[:most]
    if weigher is not None and not weighted:
        named = named_files(retrievers.store.catalog, query.text, file_ids)
        exact = exact_rows(
            connection, question.units, file_ids, trusted=trusted, known=retrieved.words
        )
    opening = rows_of(connection, named)
    rows = list(dict.fromkeys([*best, *exact, *opening, *more]))
    chunks = read_chunks(
        connection,
        rows,
        weigher,
        query=query,
        trusted=trusted,
        opening=opening,
    )
    others = () if weighted else (*exact, *opening, *more)
    if unknown := [row for row in others if row not in cosines]:
        cosines = cosines | retrievers.cosines(encoded.vector, unknown)
    return Gathered(
        chunks,
        retrieved.bm25,
        cosines,
        ((retrieved.bm25, cosines),),
        {} if named.lines is None else dict.fromkeys(opening, named.lines),
        retrieved.windows,
    )


def _likeliest(
    rows: Iterable[int], bm25: Mapping[int, float], cosines: Mapping[int, float], highest: float
) -> list[int]:
    """Return rows by the strength that the retrievers' scores promise, the strongest first.

    `highest` is the bm25 of a chunk with all words. `cosines` are on the bundled model's scale.
    """
    promised = [
        (-promised_strength(bm25.get(row, 0.0) / highest, cosines.get(row)), row) for row in rows
    ]
    promised.sort()
    return [row for _, row in promised]


def read_chunks(
    connection: Connection,
    rows: Sequence[int],
    weigher: Weigher | None,
    *,
    query: Query,
    trusted: bool,
    opening: Collection[int] = (),
) -> dict[int, ReadChunk]:
    """Read and rate candidates, without those that an operator excludes or that no longer exist.

    `opening` are rows of files that the question names. `trusted` excludes chunks that became
    untrusted since they were found. Without a `weigher` there are no keyword tables to read, and
    none has evidence.
    """
    found = read_stored(connection, rows, sized=weigher is not None)
    if trusted or query.without or query.required:
        without = Finder(Term(fold(word)) for word in query.without if not _is_phrase(word))
        banned = [phrase for phrase in query.without if _is_phrase(phrase)]
        found = {
            row: chunk
            for row, chunk in found.items()
            if not (trusted and chunk.facts.origin == Origin.UNTRUSTED)
            and not _is_ruled_out(chunk, without, banned, query.required)
        }
    chunks = list(found.values())
    matched = [NOT_MATCHED] * len(chunks) if weigher is None else weigher.weigh(chunks)
    if opening and weigher is not None:
        titled = found.keys() & opening
        matched = [
            with_title(each) if row in titled else each
            for row, each in zip(found, matched, strict=True)
        ]
    return {
        row: ReadChunk(chunk, *match)
        for (row, chunk), match in zip(found.items(), matched, strict=True)
    }


def exact_rows(
    connection: Connection,
    units: Sequence[str],
    file_ids: frozenset[int] | None,
    *,
    trusted: bool,
    known: KnownWords | PhraseScores | None = None,
) -> list[int]:
    """Return at most `EXACT_ROWS` chunks per string that contain its words in a row.

    `known` is what is kept of words in memory, which may tell that no chunk has all.
    """
    which = "chunks_fts MATCH ?" + (" AND origin <> 'untrusted'" if trusted else "")
    found: list[int] = []
    for unit in units:
        words = _WORDS.findall(index_words(unit))
        if not words or (known is not None and known.rule_out(connection, words)):
            continue
        most = EXACT_ROWS if file_ids is None else 50 * EXACT_ROWS
        find = (
            "SELECT chunks_fts.rowid, file_id FROM chunks_fts"
            f" JOIN chunks ON chunks.row_id = chunks_fts.rowid WHERE {which} LIMIT ?"
        )
        near: list[tuple[int, int]] = []
        if 1 < len(words) <= _MOST_NEAR_WORDS:
            # The target of a link may stand between two words. Where no chunk has the words near
            # each other, none has them in a row.
            expression = " ".join(f'"{word}"' for word in words)
            near = connection.execute(find, (f"NEAR({expression}, {_LINK_WORDS})", most)).fetchall()
            if not near:
                continue
        rows = connection.execute(find, (f'"{" ".join(words)}"', most)).fetchall()
        if len(rows) < _FEW_ROWS:
            rows += near
        allowed = [row for row, file_id in rows if file_ids is None or file_id in file_ids]
        found += allowed[:EXACT_ROWS]
    return found


def _is_phrase(excluded: str) -> bool:
    return not excluded.isalnum() or has_unspaced(excluded)


def _is_ruled_out(
    chunk: StoredChunk, without: Finder, banned: Sequence[str], required: Sequence[str]
) -> bool:
    if without.terms and without.places_in(chunk.folded):
        return True
    if any(exactness(phrase, chunk.text) >= CONTAINS for phrase in banned):
        return True
    return any(exactness(string, chunk.text) < CONTAINS for string in required)
