"""The candidates of one search, gathered part by part, and what was read of them."""

from functools import partial

from memoryd.config.settings import Hybrid
from memoryd.index.store import Store
from memoryd.search import fuse
from memoryd.search.candidates import Words, exact_rows, is_unspaced_question, read_words
from memoryd.search.corpus import UNKNOWN
from memoryd.search.fuse import Candidate
from memoryd.search.retrievers import FileIds, Legs
from memoryd.text.tokenize import Term

Ranks = dict[int, int]


class Answer:
    """What one search has found. `words` has what was read of each candidate, by row.

    The ranks are the places that each leg alone would give.
    """

    def __init__(self, store: Store, legs: Legs, settings: Hybrid) -> None:
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
