"""A search from query to cited snippets, in steps one can read.

query → keyword leg ∥ vector leg → candidates → evidence → fuse → age → choose → snippets. A leg
that can't run leaves a warning and the other answers.
"""

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from memoryd.config.settings import QuerySettings as QuerySettings
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.search import fuse
from memoryd.search.diversify import balance, spread, without_duplicates
from memoryd.search.evidence import Question
from memoryd.search.filters import Filters
from memoryd.search.fuse import Candidate
from memoryd.search.gather import Candidates
from memoryd.search.query import MAX_GLOB_CHARS, MAX_GLOB_STARS, SOURCES, parse
from memoryd.search.results import explained, load_hits, within
from memoryd.search.retrievers import FileIds, Retrieval, VectorLeg
from memoryd.search.snippet import LineReader, highlights
from memoryd_client.schema.memory import SearchBody, SearchResult

Number = TypeVar("Number", int, float)
Visible = Callable[[FileKey], bool]
Gone = Callable[[set[FileKey]], Awaitable[set[FileKey]]]

NOTES, SESSIONS = SOURCES
MODES = ("hybrid", "keyword", "vector")
LEAST_CANDIDATES, MAX_CANDIDATES = 24, 200
"""Of each leg. With 12 the order was still that of all chunks in every set; fewer would make it
depend on how many results are asked for."""
MAX_RESULTS = 200
MAX_CHARS = 1_000_000
MAX_QUERY_CHARS = 8_000
"""More than any model reads; the rest of an enormous query is not looked at."""
RULED_OUT = 4
"""So many times the candidates are looked at where an operator will rule some out."""
SPARE = 2
"""So many times the results are compared for duplicates and looked for on disk."""


class BadQueryError(ValueError):
    """The request can't be carried out as it stands; the message says what to change."""


class SearchEngine:
    """Answers searches on one index. `vector_leg` None: keywords only, by configuration."""

    def __init__(
        self,
        store: Store,
        settings: QuerySettings,
        vector_leg: VectorLeg | None,
        *,
        today: Callable[[], datetime.date] = datetime.date.today,
    ) -> None:
        self._store = store
        self._settings = settings
        self._vector_leg = vector_leg
        self._today = today

    async def search(
        self, body: SearchBody, visible: Visible | None = None, gone: Gone | None = None
    ) -> SearchResult:
        """Search. Raises `BadQueryError`; a failing leg becomes a warning of the answer.

        Files that are not `visible` count for nothing, as if they were not there; of those that are
        about to be shown, `gone` returns which are no longer on disk.
        """
        started = time.perf_counter()
        generation = None
        while generation != self._store.generation:
            # Once more if the index was replaced meanwhile: its rows have other numbers.
            generation = self._store.generation
            result = await self._search(body, visible, gone)
        result.took_ms = (time.perf_counter() - started) * 1000
        return result

    async def _search(
        self, body: SearchBody, visible: Visible | None, gone: Gone | None
    ) -> SearchResult:
        settings = self._settings
        max_results = _checked(
            body.max_results, settings.max_results, "max_results", 1, MAX_RESULTS
        )
        min_score = _checked(body.min_score, settings.min_score, "min_score", 0.0, 1.0)
        max_chars = _checked(body.max_chars, MAX_CHARS, "max_chars", 1, MAX_CHARS)
        mode = body.mode or ("hybrid" if settings.hybrid.enabled else "vector")
        if mode not in MODES:
            raise BadQueryError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
        query = parse(body.query.encode("utf-8", "replace").decode().strip()[:MAX_QUERY_CHARS])
        filters = query.filters.both(_filters(body))
        identity = self._store.identity
        result = SearchResult(
            results=[], provider=identity.provider, model=identity.model, mode="none"
        )
        if not query.text:
            return result
        legs = Retrieval(
            self._store,
            self._vector_leg,
            query,
            Question.read(query.text),
            words=mode != "vector",
            meaning=mode != "keyword",
        )
        answer = Candidates(self._store, legs, settings.hybrid)
        wanted = max_results * settings.hybrid.candidate_multiplier
        k = min(MAX_CANDIDATES, max(LEAST_CANDIDATES, wanted))
        if query.without or query.required:
            k = min(MAX_CANDIDATES, k * RULED_OUT)
        for part in self._parts(filters):
            ids = None if part.empty and visible is None else await self._allowed(part, visible)
            await answer.gather(k, ids)
        chosen = await self._choose(answer, min_score, max_results, gone)
        reader = LineReader.of(answer.term_weights())
        load = partial(
            load_hits,
            chosen=chosen,
            reader=reader,
            line_cosines=legs.line_cosines,
            max_chars=settings.snippet_chars,
        )
        shown = await self._store.readers.read(load)
        for candidate, hit in shown:
            if body.explain:
                hit.explanation = explained(candidate, answer.text_ranks, answer.vector_ranks)
            if body.highlight:
                hit.highlights = highlights(hit.snippet, reader)
        result.results, result.omitted = within([hit for _, hit in shown], max_chars)
        result.mode = legs.mode
        result.warnings = list(dict.fromkeys(legs.warnings))
        return result

    def _parts(self, filters: Filters) -> list[Filters]:
        """Return what to look for candidates in: with transcripts, each source by itself.

        Else the many that transcripts have would leave none of the notes.
        """
        if filters.sources is not None or SESSIONS not in self._store.catalog.counts():
            return [filters]
        return [replace(filters, sources=frozenset({source})) for source in (NOTES, SESSIONS)]

    async def _choose(
        self, answer: Candidates, min_score: float, max_results: int, gone: Gone | None
    ) -> list[Candidate]:
        """Return what is to be shown, best first."""
        candidates = answer.candidates()
        aging = self._settings.hybrid.temporal_decay
        if aging.enabled:
            candidates = fuse.aged(candidates, partial(self._left, answer))
        if gone is not None and candidates:
            first = [c for c in candidates if c.settled >= min_score][: SPARE * max_results]
            lost = await gone({answer.words[c.row_id].key for c in first})
            candidates = [c for c in candidates if answer.words[c.row_id].key not in lost]
        texts = {row: words.text for row, words in answer.words.items()}
        mmr = self._settings.hybrid.mmr

        def pick() -> list[Candidate]:
            distinct = without_duplicates(candidates, texts, most=SPARE * max_results)
            if mmr.enabled:
                passed = [c for c in distinct if c.settled >= min_score]
                return spread(passed, texts, balance=mmr.balance, most=max_results)
            notes = [c for c in distinct if answer.words[c.row_id].key.source == NOTES]
            others = [c for c in distinct if answer.words[c.row_id].key.source != NOTES]
            return balance(
                notes, others, min_score=min_score, max_results=max_results, fill=answer.weighted
            )

        return await asyncio.to_thread(pick)

    def _left(self, answer: Candidates, row: int) -> float | None:
        """Return what age leaves of a candidate; None if it has no date."""
        aging, key = self._settings.hybrid.temporal_decay, answer.words[row].key
        known = self._store.catalog.rows.get(key)
        date = None if known is None else fuse.dated(key, known.stat, notes=NOTES)
        if date is None:
            return None
        return fuse.factor(
            date, self._today(), half_life_days=aging.half_life_days, floor=aging.floor
        )

    async def _allowed(self, filters: Filters, visible: Visible | None) -> FileIds:
        rows = list(self._store.catalog.rows.items())

        def pick() -> FileIds:
            return frozenset(
                row.file_id
                for key, row in rows
                if filters.accept(key, row.stat) and (visible is None or visible(key))
            )

        return await asyncio.to_thread(pick)


def _checked(value: Number | None, default: Number, name: str, low: float, high: float) -> Number:
    if value is None:
        return default
    if not low <= value <= high:  # NaN too
        raise BadQueryError(f"{name} must be from {low} to {high}, not {value}")
    return value


def _filters(body: SearchBody) -> Filters:
    glob = body.path_glob or ""
    if len(glob) > MAX_GLOB_CHARS or glob.count("*") > MAX_GLOB_STARS:
        raise BadQueryError(
            f"path_glob may have {MAX_GLOB_CHARS} characters and {MAX_GLOB_STARS} stars"
        )
    return Filters(
        sources=None if body.sources is None else frozenset(body.sources),
        path_glob=body.path_glob,
        since=_date(body.since, "since"),
        until=_date(body.until, "until"),
    )


def _date(text: str | None, name: str) -> datetime.date | None:
    try:
        return None if text is None else datetime.date.fromisoformat(text)
    except ValueError:
        raise BadQueryError(f"{name} must be a date like 2026-11-28, not {text!r}") from None
