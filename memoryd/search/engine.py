"""Steps of a search, from query to cited snippets.

parse → retrieve (keyword ∥ vector) → gather evidence → fuse → age → diversify → results. A
retriever that can't run leaves a warning, and the other one answers.
"""

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import replace
from functools import partial
from typing import TypeVar

from memoryd.config.settings import QuerySettings as QuerySettings
from memoryd.index.driver import Connection
from memoryd.index.queries import files_citing
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.search import ageing, fuse
from memoryd.search.asker_language import asker_first
from memoryd.search.confidence import rate
from memoryd.search.contradiction import Statements, newer_first
from memoryd.search.date_match import asked_date, gathering_dated, with_date
from memoryd.search.diversify import balance, spread
from memoryd.search.evidence import Question
from memoryd.search.fuse import Candidate
from memoryd.search.gather import Gathered, Gathering, gathering
from memoryd.search.lexical import UNKNOWN
from memoryd.search.query import (
    MAX_GLOB_CHARS,
    MAX_GLOB_STARS,
    SOURCES,
    Filters,
    conversation_of,
    parse,
)
from memoryd.search.results import Choose, Loader, OriginOf, explained, load_distinct, within
from memoryd.search.retrievers import EncodedQuery, FileIds, Retrievers, VectorRetriever
from memoryd.search.snippet import LineReader, highlights
from memoryd_client.schema.search import Confidence, Origin, SearchBody, SearchResult

Number = TypeVar("Number", int, float)
Visible = Callable[[FileKey], bool]
Gone = Callable[[set[FileKey]], Awaitable[set[FileKey]]]

NOTES, SESSIONS = SOURCES
MODES = ("hybrid", "keyword", "vector")
LEAST_CANDIDATES, MAX_CANDIDATES = 24, 200
"""Candidates per retriever. With 12, the order in every quality set was still that of all chunks;
with fewer, it would depend on the number of results."""
REFERENCE_MIN_SCORE = 0.35
"""Default of `min_score` for the reference's formula; others have none."""
MAX_RESULTS = 200
MAX_CHARS = 1_000_000
MAX_QUERY_CHARS = 8_000
"""More than any model reads; the rest of a longer query is ignored."""
OVERFETCH = 4
"""Factor on the candidates when an operator excludes some."""
SPARE = 2
"""Factor on the results: so many are checked on disk, and spread out."""


class BadQueryError(ValueError):
    """The request is invalid; the message says what to change."""


class SearchEngine:
    """Search on one index. `vector_retriever` None: keywords only, by configuration.

    `origin_of` is the configured origin of a file's words.
    """

    def __init__(
        self,
        store: Store,
        settings: QuerySettings,
        vector_retriever: VectorRetriever | None,
        *,
        origin_of: OriginOf = lambda key: Origin.OWNER,
        today: Callable[[], datetime.date] = datetime.date.today,
    ) -> None:
        self._store = store
        self._settings = settings
        self._vector_retriever = vector_retriever
        self._weighted = settings.hybrid.fusion == "weighted"
        self._today = today
        self._origin_of = origin_of

    async def search(
        self, body: SearchBody, visible: Visible | None = None, gone: Gone | None = None
    ) -> SearchResult:
        """Search. Raises `BadQueryError`; a failing retriever becomes a warning of the answer.

        Only `visible` files are searched. `gone` returns which files of the results to be shown no
        longer exist on disk.
        """
        started = time.perf_counter()
        generation = None
        while generation != self._store.generation:
            # Search again if the index was replaced meanwhile: its rows have other numbers.
            generation = self._store.generation
            result = await self._search(body, visible, gone)
        result.took_ms = (time.perf_counter() - started) * 1000
        return result

    async def _search(
        self, body: SearchBody, visible: Visible | None, gone: Gone | None
    ) -> SearchResult:
        settings = self._settings
        max_results = checked(body.max_results, settings.max_results, "max_results", 1, MAX_RESULTS)
        usual = settings.min_score
        if usual is None:
            usual = REFERENCE_MIN_SCORE if self._weighted else 0.0
        min_score = checked(body.min_score, usual, "min_score", 0.0, 1.0)
        min_confidence = checked(
            body.min_confidence, settings.min_confidence, "min_confidence", 0.0, 1.0
        )
        max_chars = checked(body.max_chars, MAX_CHARS, "max_chars", 1, MAX_CHARS)
        mode = body.mode or ("hybrid" if settings.hybrid.enabled else "vector")
        if mode not in MODES:
            raise BadQueryError(f"mode must be one of {', '.join(MODES)} (got {mode!r})")
        typed = body.query.encode("utf-8", "replace").decode().strip()[:MAX_QUERY_CHARS]
        query = parse(typed, self._store.catalog.has_property)
        filters = query.filters.both(filters_of(body))
        if unknown := sorted((filters.sources or frozenset()) - set(SOURCES)):
            raise BadQueryError(f"unknown source {unknown[0]!r}: use {' or '.join(SOURCES)}")
        identity = self._store.identity
        result = SearchResult(
            results=[],
            provider=identity.provider,
            model=identity.model,
            mode="none",
            confidence=Confidence.NONE,
        )
        if not query.text:
            return result
        today = day_of(body.now) or self._today()
        asked = await asked_date(query.text, today, self._store, weighted=self._weighted)
        retrievers = Retrievers(
            self._store,
            self._vector_retriever,
            query,
            asked.without_its_words(Question.read(query.text)),
            keyword=mode != "vector",
            vector=mode != "keyword",
            trusted=body.trusted,
        )
        overfetch = OVERFETCH if query.without or query.required or filters.of_lines else 1
        k = max(LEAST_CANDIDATES, max_results * settings.hybrid.candidate_multiplier)
        k = min(MAX_CANDIDATES, k * overfetch)
        encoded, readings = EncodedQuery(), list[Gathering]()
        files = self._store.catalog.copy() if asked else {}
        for part in self._parts(filters):
            everything = part.empty and visible is None and not body.trusted
            ids = None if everything else await self._allowed(part, visible, trusted=body.trusted)
            retrieved = await retrievers.retrieve(k, ids, encoded)
            encoded = retrieved.encoded
            result.warnings += retrieved.warnings
            readings.append(gathering(retrievers, retrieved, ids, weighted=self._weighted))
            if asked:
                readings.append(await gathering_dated(asked, retrievers, encoded, files, ids))
        corpus = encoded.corpus or UNKNOWN

        def read_and_rank(connection: Connection) -> tuple[Gathered, list[Candidate]]:
            gathered = Gathered({}, {}, {}, {}, {}, {})
            for read in readings:
                gathered |= read(connection)
            dated = asked.strengths(gathered, files, retrievers.question) if asked else {}
            scored = self._score(encoded, gathered, dated)
            statements = None
            if settings.hybrid.temporal_decay.enabled and not (dated and asked.is_past):
                statements = Statements(retrievers.question, query.text, corpus)
            return gathered, self._order(scored, gathered, query.text, today, statements)

        gathered, candidates = await self._store.readers.read(read_and_rank)
        choose = await self._choose(candidates, gathered, min_score, max_results, gone)
        weights = {term: corpus.weight(term) for term in retrievers.question.terms}
        reader = LineReader(weights, corpus.forms, corpus.parts)
        loader = Loader(
            chunks=gathered.chunks,
            cited=gathered.cited,
            reader=reader,
            line_cosines=partial(retrievers.line_cosines, encoded.vector),
            origin_of=self._origin_of,
            max_chars=settings.snippet_chars,
            trusted=body.trusted,
            filters=filters,
        )
        load = partial(load_distinct, choose=choose, loader=loader)
        shown = await self._store.readers.read(load)
        rating = rate([candidate for candidate, _ in shown], candidates)
        result.confidence = rating.answer
        for (candidate, hit), confidence in zip(shown, rating.results, strict=True):
            hit.confidence = confidence
            if body.explain:
                row = candidate.row_id
                ranks = gathered.text_ranks.get(row), gathered.vector_ranks.get(row)
                hit.explanation = explained(candidate, *ranks)
            if body.highlight:
                hit.highlights = highlights(hit.snippet, reader)
        hits = [hit for _, hit in shown if (hit.confidence or 0.0) >= min_confidence]
        result.results, result.omitted = within(hits, max_chars)
        result.mode = encoded.mode
        result.warnings = list(dict.fromkeys(result.warnings))
        return result

    def _parts(self, filters: Filters) -> list[Filters]:
        """Return the filters to retrieve with: if there are transcripts, one per source.

        Otherwise the many chunks of transcripts could crowd out all notes.
        """
        if filters.sources is not None or SESSIONS not in self._store.catalog.counts():
            return [filters]
        return [replace(filters, sources=frozenset({source})) for source in (NOTES, SESSIONS)]

    def _score(
        self, encoded: EncodedQuery, gathered: Gathered, dated: dict[int, float]
    ) -> list[Candidate]:
        """Return all candidates with their scores before age, best first.

        `dated` has the strength that the date in the question adds to candidates.
        """
        settings, retriever = self._settings.hybrid, self._vector_retriever
        near = gathered.cosines
        if retriever is not None:
            near = {row: retriever.calibrate(cosine) for row, cosine in near.items()}
        usual = {row: fuse.usual_scale(value) for row, value in near.items()}
        vector_scores = {row: min(1.0, max(0.0, value)) for row, value in near.items()}
        if self._weighted:
            has_keywords, has_vectors = encoded.corpus is not None, encoded.vector is not None
            text_weight = settings.text_weight if has_keywords else 0.0
            found = fuse.weighted(
                vector_scores,
                {row: fuse.text_score(bm25) for row, bm25 in gathered.bm25.items()},
                vector_weight=settings.vector_weight if has_vectors else 0.0,
                text_weight=text_weight if has_vectors else 1.0,
            )
            return [
                c._replace(words=fuse.strength_of_words(chunk.evidence), cosine=usual.get(c.row_id))
                for c in found
                if (chunk := gathered.chunks.get(c.row_id)) is not None
            ]
        by_evidence = (
            fuse.by_evidence(
                row,
                None if encoded.corpus is None else chunk.evidence,
                usual.get(row),
                vector_score=vector_scores.get(row),
            )
            for row, chunk in gathered.chunks.items()
        )
        return fuse.ranked(with_date(c, dated.get(c.row_id, 0.0)) for c in by_evidence)

    async def _choose(
        self,
        candidates: list[Candidate],
        gathered: Gathered,
        min_score: float,
        max_results: int,
        gone: Gone | None,
    ) -> Choose:
        """Return the function that chooses what to show."""
        chunks, texts = gathered.chunks, gathered.texts
        if gone is not None and candidates:
            first = [c for c in candidates if c.unaged_score >= min_score][: SPARE * max_results]
            lost = await gone({chunks[c.row_id].key for c in first})
            candidates = [c for c in candidates if chunks[c.row_id].key not in lost]
        mmr = self._settings.hybrid.mmr

        def pick(without: Set[int]) -> list[Candidate]:
            left = [c for c in candidates if c.row_id not in without]
            if mmr.enabled:
                passed = [c for c in left if c.unaged_score >= min_score][: SPARE * max_results]
                return spread(passed, texts, balance=mmr.balance, most=max_results)
            notes = [c for c in left if chunks[c.row_id].key.source == NOTES]
            others = [c for c in left if chunks[c.row_id].key.source != NOTES]
            return balance(
                notes, others, min_score=min_score, max_results=max_results, fill=self._weighted
            )

        return pick

    def _order(
        self,
        candidates: list[Candidate],
        gathered: Gathered,
        query: str,
        today: datetime.date,
        statements: Statements | None,
    ) -> list[Candidate]:
        """Return what may be shown, best first; without `statements`, age does not count."""
        texts = gathered.texts
        if statements is not None:
            candidates = self._age(candidates, gathered, today, statements)
        if self._weighted:
            return candidates
        candidates = asker_first(candidates, texts, query)
        return fuse.without_weak(candidates, self._settings.relative_cutoff)

    def _age(
        self,
        candidates: list[Candidate],
        gathered: Gathered,
        today: datetime.date,
        statements: Statements,
    ) -> list[Candidate]:
        """Return the candidates in the order that their dates leave."""
        decay, known = self._settings.hybrid.temporal_decay, self._store.catalog.rows
        dates = {
            row: date
            for row, chunk in gathered.chunks.items()
            if (file := known.get(chunk.key)) is not None
            and (date := ageing.ageing_date(chunk.key, file.stat, file.facts, notes=NOTES))
        }
        shares = {
            row: ageing.age_factor(
                date, today, half_life_days=decay.half_life_days, floor=decay.floor
            )
            for row, date in dates.items()
        }
        aged = ageing.aged(candidates, shares.get)
        if self._weighted:
            return aged
        return newer_first(aged, gathered.chunks, dates, statements)

    async def _allowed(
        self, filters: Filters, visible: Visible | None, *, trusted: bool
    ) -> FileIds:
        rows = list(self._store.catalog.rows.items())
        cited: FileIds = None
        if (name := filters.conversation) is not None:
            cited = await self._store.readers.read(partial(files_citing, conversation=name))

        def pick() -> FileIds:
            return frozenset(
                row.file_id
                for key, row in rows
                if filters.accept(key, row.stat, row.facts)
                and (cited is None or key.source != NOTES or row.file_id in cited)
                and (visible is None or visible(key))
                and not (trusted and self._origin_of(key) is Origin.UNTRUSTED)
            )

        return await asyncio.to_thread(pick)


def checked(value: Number | None, default: Number, name: str, low: float, high: float) -> Number:
    """Return a value of a request within its bounds. Raises `BadQueryError`."""
    if value is None:
        return default
    if not low <= value <= high:  # NaN too
        raise BadQueryError(f"{name} must be from {low} to {high} (got {value})")
    return value


def day_of(now: str | None, zone: datetime.tzinfo | None = None) -> datetime.date | None:
    """Return the day of who asks, in a time zone (None: the asker's); None without a time.

    Raises `BadQueryError`.
    """
    try:
        moment = None if now is None else datetime.datetime.fromisoformat(now)
    except ValueError:
        moment = datetime.datetime.min
    if moment is not None and moment.tzinfo is None:
        raise BadQueryError(f"now must be a time like 2026-11-28T09:30:00+01:00 (got {now!r})")
    return None if moment is None else (moment.astimezone(zone) if zone else moment).date()


def filters_of(body: SearchBody) -> Filters:
    """Return the filters of a request. Raises `BadQueryError`."""
    glob = body.path_glob or ""
    if len(glob) > MAX_GLOB_CHARS or glob.count("*") > MAX_GLOB_STARS:
        raise BadQueryError(
            f"path_glob must have at most {MAX_GLOB_CHARS} characters and {MAX_GLOB_STARS} stars"
        )
    return Filters(
        sources=None if body.sources is None else frozenset(body.sources),
        path_glob=body.path_glob,
        since=_date(body.since, "since"),
        until=_date(body.until, "until"),
        origins=_origins(body.origins),
        conversation=conversation_of(body.conversation or "") or None,
    )


def _origins(names: list[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    if unknown := sorted(set(names) - set(Origin)):
        raise BadQueryError(f"unknown origin {unknown[0]!r}: use {', '.join(Origin)}")
    return frozenset(names)


def _date(text: str | None, name: str) -> datetime.date | None:
    try:
        return None if text is None else datetime.date.fromisoformat(text)
    except ValueError:
        raise BadQueryError(f"{name} must be a date like 2026-11-28 (got {text!r})") from None
