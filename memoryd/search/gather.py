"""The candidates of one search, gathered part by part, and what was read of them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from memoryd.config.settings import Hybrid
from memoryd.index.driver import Connection
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.search import fuse
from memoryd.search.evidence import NO_EVIDENCE, ChunkText, Evidence, Question, weigh
from memoryd.search.fuse import Candidate
from memoryd.search.lexical import UNKNOWN, Corpus, read_lengths
from memoryd.search.query import Query
from memoryd.search.results import Ranks
from memoryd.search.retrievers import FileIds, Retrieval
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


class Candidates:
    """What one search has found. `words` has what was read of each candidate, by row.

    The ranks are the places that each leg alone would give.
    """

    def __init__(self, store: Store, legs: Retrieval, settings: Hybrid) -> None:
        self.words: dict[int, Words] = {}
        self.text_ranks: Ranks = {}
        self.vector_ranks: Ranks = {}
        self.weighted = settings.fusion == "weighted"
        self._store = store
        self._legs = legs
        self._settings = settings
        self._bm25: dict[int, float] = {}
        self._cosines: dict[int, float] = {}

    async def gather(self, k: int, file_ids: FileIds) -> None:
        """Have the legs find candidates in some files, and read their words."""
        legs, store = self._legs, self._store
        text, meaning = await legs.find(k, file_ids)
        exact: list[int] = []
        if legs.words_ran and legs.question.units and not self.weighted:
            find = partial(exact_rows, units=legs.question.units, file_ids=file_ids)
            exact = await store.readers.read(find)
        rows = list(dict.fromkeys([*text, *meaning, *exact]))
        self.words |= await store.readers.read(
            partial(
                read_words,
                rows=rows,
                question=legs.question,
                query=legs.query,
                corpus=legs.corpus,
            )
        )
        by_words_alone = [row for row in rows if row not in meaning]
        found = meaning if self.weighted else meaning | await legs.cosines(by_words_alone)
        self._bm25 |= text
        self._cosines |= found
        self.text_ranks |= {row: rank for rank, row in enumerate(text, start=1)}
        nearest = sorted(found, key=lambda row: -found[row])
        self.vector_ranks |= {row: rank for rank, row in enumerate(nearest, start=1)}

    def candidates(self) -> list[Candidate]:
        """Return all candidates with their scores, best first."""
        legs = self._legs
        near = {row: self._calibrated(cosine) for row, cosine in self._cosines.items()}
        seen = {row: min(1.0, max(0.0, value)) for row, value in near.items()}
        if self.weighted:
            return self._by_weights(seen)
        found = (
            fuse.by_evidence(
                row,
                words.evidence if legs.words_ran else None,
                fuse.usual_scale(near[row]) if row in near else None,
                vector_score=seen.get(row),
                other_script=words.other_script,
            )
            for row, words in self.words.items()
        )
        return fuse.settled(found, unspaced=is_unspaced_question(legs.query.text))

    def term_weights(self) -> dict[Term, float]:
        """Return how much each term of the question weighs."""
        corpus = self._legs.corpus or UNKNOWN
        return {term: corpus.weight(term) for term in self._legs.question.terms}

    def _calibrated(self, cosine: float) -> float:
        leg = self._legs.leg
        return cosine if leg is None else leg.calibrate(cosine)

    def _by_weights(self, seen: dict[int, float]) -> list[Candidate]:
        legs, settings = self._legs, self._settings
        text = {row: fuse.text_score(bm25) for row, bm25 in self._bm25.items()}
        found = fuse.weighted(
            seen,
            text,
            vector_weight=settings.vector_weight if legs.meaning_ran else 0.0,
            text_weight=(settings.text_weight if legs.words_ran else 0.0)
            if legs.meaning_ran
            else 1.0,
        )
        return [candidate for candidate in found if candidate.row_id in self.words]
