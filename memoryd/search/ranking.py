"""Order of the candidates of one search: scores, age, contradictions, language, choice."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memoryd.config.settings import QuerySettings
from memoryd.index.catalog import FileRow
from memoryd.messages import FileKey
from memoryd.search import ageing, fuse
from memoryd.search.asker_language import asker_first
from memoryd.search.chunk_cache import StoredFile
from memoryd.search.contradiction import Statements, newer_first
from memoryd.search.date_match import with_date
from memoryd.search.diversify import balance, spread
from memoryd.search.fuse import Candidate
from memoryd.search.gather import Gathered
from memoryd.search.query import SOURCES, modified_on
from memoryd.search.retrievers import EncodedQuery

NOTES, _ = SOURCES
SPARE = 2
"""Factor on the results: so many candidates are spread out."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks the candidates of one search as the settings say.

    `files` are the rows of all files; `calibrate` is that of the vector retriever, if there is one.
    """

    settings: QuerySettings
    files: Mapping[FileKey, FileRow]
    calibrate: Callable[[float], float] | None

    @property
    def _is_weighted(self) -> bool:
        return self.settings.hybrid.fusion == "weighted"

    def score(
        self, encoded: EncodedQuery, gathered: Gathered, dated: Mapping[int, float]
    ) -> list[Candidate]:
        """Return all candidates with their scores before age, best first.

        `dated` has the strength that the date in the question adds to candidates.
        """
        if self._is_weighted:
            return self._weighted(encoded, gathered)
        cosines, has_keywords = gathered.cosines, encoded.corpus is not None
        candidates: list[Candidate] = []
        for row, chunk in gathered.chunks.items():
            usual = vector_score = None
            if (cosine := cosines.get(row)) is not None:
                value = self._calibrated(cosine)
                usual, vector_score = fuse.usual_scale(value), _clamped(value)
            evidence = chunk.evidence if has_keywords else None
            candidates.append(fuse.by_evidence(row, evidence, usual, vector_score=vector_score))
        if dated:
            candidates = [with_date(c, dated.get(c.row_id, 0.0)) for c in candidates]
        return fuse.ranked(candidates)

    def _weighted(self, encoded: EncodedQuery, gathered: Gathered) -> list[Candidate]:
        """Return all candidates with their scores by the reference's formula, best first."""
        settings, chunks = self.settings.hybrid, gathered.chunks
        has_keywords, has_vectors = encoded.corpus is not None, encoded.vector is not None
        text_weight = settings.text_weight if has_keywords else 0.0
        near = {
            row: self._calibrated(cosine)
            for row, cosine in gathered.cosines.items()
            if row in chunks
        }
        found = fuse.weighted(
            {row: _clamped(value) for row, value in near.items()},
            {row: fuse.text_score(bm25) for row, bm25 in gathered.bm25.items()},
            vector_weight=settings.vector_weight if has_vectors else 0.0,
            text_weight=text_weight if has_vectors else 1.0,
        )
        usual = {row: fuse.usual_scale(value) for row, value in near.items()}
        return [
            c._replace(words=fuse.strength_of_words(chunk.evidence), cosine=usual.get(c.row_id))
            for c in found
            if (chunk := chunks.get(c.row_id)) is not None
        ]

    def _calibrated(self, cosine: float) -> float:
        return cosine if self.calibrate is None else self.calibrate(cosine)

    def order(
        self,
        candidates: list[Candidate],
        gathered: Gathered,
        query: str,
        today: datetime.date,
        statements: Statements | None,
    ) -> list[Candidate]:
        """Return what may be shown, best first; without `statements`, age does not count."""
        if statements is not None:
            candidates = self._age(candidates, gathered, today, statements)
        if self._is_weighted:
            return candidates
        chunks = gathered.chunks
        candidates = asker_first(
            candidates,
            lambda row: chunks[row].stored.language,
            lambda row: chunks[row].stored.known_language,
            query,
        )
        return fuse.without_weak(candidates, self.settings.relative_cutoff)

    def _age(
        self,
        candidates: list[Candidate],
        gathered: Gathered,
        today: datetime.date,
        statements: Statements,
    ) -> list[Candidate]:
        """Return the candidates in the order that their dates leave."""
        dates: dict[int, datetime.date] = {}
        shares: dict[int, float] = {}
        for row, chunk in gathered.chunks.items():
            if (found := self.age_of(chunk.stored.file, today)) is not None:
                dates[row], shares[row] = found
        aged = ageing.aged(candidates, shares.get)
        if self._is_weighted:
            return aged
        return newer_first(aged, gathered.chunks, dates, statements)

    def age_of(self, file: StoredFile, today: datetime.date) -> ageing.Age | None:
        """Return the age of a file, None for one that does not age."""
        decay = self.settings.hybrid.temporal_decay
        age = ageing.age_of(file.date, today, decay.half_life_days, decay.floor)
        if age is not None or file.key.source == NOTES:
            return age
        if (row := self.files.get(file.key)) is None:
            return None
        date = modified_on(row.stat)
        return date, ageing.age_factor(date, today, decay.half_life_days, decay.floor)

    def choose(
        self,
        candidates: Sequence[Candidate],
        gathered: Gathered,
        *,
        min_score: float,
        max_results: int,
    ) -> list[Candidate]:
        """Return the candidates to show, of those that are left."""
        mmr = self.settings.hybrid.mmr
        if mmr.enabled:
            passed = [c for c in candidates if c.unaged_score >= min_score]
            passed = passed[: SPARE * max_results]
            return spread(passed, gathered.texts, balance=mmr.balance, most=max_results)
        notes, others = list[Candidate](), list[Candidate]()
        for c in candidates:
            is_note = gathered.chunks[c.row_id].stored.file.key.source == NOTES
            (notes if is_note else others).append(c)
        return balance(
            notes, others, min_score=min_score, max_results=max_results, fill=self._is_weighted
        )


def _clamped(value: float) -> float:
    return 0.0 if value <= 0.0 else 1.0 if value >= 1.0 else value
