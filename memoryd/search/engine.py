"""Steps of a search, from query to cited snippets.

parse → retrieve (keyword ∥ vector) → gather evidence → fuse → age → diversify → results. A
retriever that can't run leaves a warning, and the other one answers.
"""

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_

from memoryd.config.settings import QuerySettings as QuerySettings
from memoryd.index.catalog import Catalog
from memoryd.index.driver import Connection
from memoryd.index.queries import files_citing
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.search.confidence import rate
from memoryd.search.contradiction import Statements
from memoryd.search.date_match import AskedDate, asked_date, gather_dated
from memoryd.search.evidence import Question, Weigher, corpus_weights
from memoryd.search.fuse import Candidate
from memoryd.search.gather import Gathered, gather
from memoryd.search.lexical import UNKNOWN
from memoryd.search.postings import Postings
from memoryd.search.query import SOURCES, Filters, parse
from memoryd.search.ranking import Ranking
from memoryd.search.request import (
    MAX_CHARS,
    MAX_QUERY_CHARS,
    MAX_RESULTS,
    MODES,
    BadQueryError,
    checked,
    day_of,
    filters_of,
)
from memoryd.search.results import Loader, OriginOf, explained, load_distinct, within
from memoryd.search.retrievers import EncodedQuery, FileIds, Retrievers, VectorRetriever
from memoryd.search.snippet import LineReader, highlights
from memoryd.text.dates import NO_DATES
from memoryd.text.fold import is_unspaced
from memoryd_client.schema.search import Confidence, Hit, Origin, SearchBody, SearchResult

Visible = Callable[[FileKey], bool]
Gone = Callable[[set[FileKey]], Awaitable[set[FileKey]]]

NOTES, SESSIONS = SOURCES
LEAST_CANDIDATES, MAX_CANDIDATES = 24, 200
"""Candidates per retriever. With 12, the order in every quality set was still that of all chunks;
with fewer, it would depend on the number of results."""
LEAST_READ, LEAST_READ_UNSPACED, READ_PER_RESULT = 16, 24, 1.5
"""Candidates of both retrievers that are read and matched, those with the best scores of theirs.
With 12, a newer note was missing beside the old one that it contradicts. In scripts without spaces,
a term is a pair of characters, and what it is worth depends more on whether these stand together:
with 16, an answer in Japanese was lost."""
REFERENCE_MIN_SCORE = 0.35
"""Default of `min_score` for the reference's formula; others have none."""
OVERFETCH = 4
"""Factor on the candidates when an operator excludes some."""
_REMEMBERED_FILTERS = 8
"""Filters whose files are kept: going through 10,000 files takes 10 ms."""


class SearchEngine:
    """Search on one index. `vector_retriever` None: keywords only, by configuration.

    `postings` keeps the words of a large index. `origin_of` is the configured origin of a file's
    words.
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
        self.postings = Postings()
        self._allowed_before: dict[tuple[Filters, bool], tuple[tuple[Catalog, int], FileIds]] = {}

    async def search(
        self, body: SearchBody, visible: Visible | None = None, gone: Gone | None = None
    ) -> SearchResult:
        """Search. Raises `BadQueryError`; a failing retriever becomes a warning of the answer.

        Only `visible` files are searched. `gone` returns which files of results no longer exist on
        disk.
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
        wanted = _Wanted(
            query=query.text,
            filters=filters,
            today=day_of(body.now) or self._today(),
            min_score=min_score,
            max_results=max_results,
            visible=visible,
        )
        retrievers = Retrievers(
            self._store,
            self._vector_retriever,
            query,
            Question.read(query.text),
            keyword=mode != "vector",
            vector=mode != "keyword",
            trusted=body.trusted,
            postings=self.postings,
        )
        encoded, result.warnings = await retrievers.embed()
        found = await retrievers.read(partial(self._find, wanted=wanted, encoded=encoded))
        self.postings.load(self._store.readers)
        present, lost = set[FileKey](), set[FileKey]()
        while gone is not None and (unseen := found.files - present):
            if not (missing := await gone(unseen)):
                break
            present |= unseen - missing
            lost |= missing
            await asyncio.to_thread(found.load, lost)
        result.warnings += found.warnings
        rating = rate([candidate for candidate, _ in found.shown], found.candidates)
        result.confidence = rating.answer
        for (candidate, hit), confidence in zip(found.shown, rating.results, strict=True):
            hit.confidence = confidence
            if body.explain:
                hit.explanation = explained(candidate, *found.gathered.ranks(candidate.row_id))
            if body.highlight:
                hit.highlights = highlights(hit.snippet, found.reader)
        hits = [hit for _, hit in found.shown if (hit.confidence or 0.0) >= min_confidence]
        result.results, result.omitted = within(hits, max_chars)
        result.mode = found.mode
        result.warnings = list(dict.fromkeys(result.warnings))
        return result

    def _find(
        self,
        connection: Connection,
        retrievers: Retrievers,
        wanted: "_Wanted",
        encoded: EncodedQuery,
    ) -> "_Found":
        """Search on a reader's thread, as a whole, because each change of threads costs CPU time.

        Blocks.
        """
        settings, catalog = self._settings.hybrid, self._store.catalog
        in_texts = retrievers.off is None
        asked = AskedDate(NO_DATES, wanted.today)
        if not self._weighted:  # the reference's formula knows no dates
            asked = asked_date(
                connection, wanted.query, wanted.today, catalog.copy, in_texts=in_texts
            )
        question = asked.without_its_words(retrievers.question)
        if question is not retrievers.question:
            retrievers = replace(retrievers, question=question)
        query, filters = retrievers.query, wanted.filters
        overfetch = OVERFETCH if query.without or query.required or filters.of_lines else 1
        k = max(LEAST_CANDIDATES, wanted.max_results * settings.candidate_multiplier)
        k = min(MAX_CANDIDATES, k * overfetch)
        unspaced = not query.text.isascii() and any(
            is_unspaced(term.text[0]) for term in question.terms
        )
        least = LEAST_READ_UNSPACED if unspaced else LEAST_READ
        most = overfetch * max(least, int(READ_PER_RESULT * wanted.max_results))
        parts: list[Gathered] = []
        warnings: list[str] = []
        files = catalog.copy() if asked else {}
        weigher: Weigher | None = None
        for part in self._parts(filters):
            ids = self._allowed(connection, part, wanted.visible, trusted=retrievers.trusted)
            retrieved = retrievers.retrieve(connection, k, ids, encoded)
            encoded = retrieved.encoded
            warnings += retrieved.warnings
            if weigher is None and encoded.corpus is not None:
                weigher = Weigher(question, encoded.corpus)
            read = gather(
                connection, retrievers, retrieved, ids, weigher, weighted=self._weighted, most=most
            )
            parts.append(read)
            if asked:
                read = gather_dated(
                    connection, asked, retrievers, encoded, files, ids, weigher, most=most
                )
                parts.append(read)
        gathered = reduce(or_, parts)
        corpus = encoded.corpus or UNKNOWN
        dated = asked.strengths(gathered, files, question) if asked else {}
        retriever = self._vector_retriever
        ranking = Ranking(
            self._settings, catalog.rows, None if retriever is None else retriever.calibrate
        )
        scored = ranking.score(encoded, gathered, dated)
        weights = corpus_weights(question, corpus) if weigher is None else weigher.weights
        statements = None
        if settings.temporal_decay.enabled and not (dated and asked.is_past):
            statements = Statements(question, wanted.query, corpus, weights)
        candidates = ranking.order(scored, gathered, wanted.query, wanted.today, statements)
        loader = Loader(
            chunks=gathered.chunks,
            cited=gathered.cited,
            reader=LineReader(weights, corpus.forms, corpus.parts),
            line_cosines=partial(retrievers.line_cosines, encoded.vector, gathered.windows),
            origin_of=self._origin_of,
            max_chars=self._settings.snippet_chars,
            trusted=retrievers.trusted,
            filters=filters,
        )
        found = _Found(
            candidates=candidates,
            gathered=gathered,
            mode=encoded.mode,
            warnings=warnings,
            ranking=ranking,
            loader=loader,
            wanted=wanted,
        )
        found.load()
        return found

    def _parts(self, filters: Filters) -> list[Filters]:
        """Return the filters to retrieve with: if there are transcripts, one per source.

        Otherwise the many chunks of transcripts could crowd out all notes.
        """
        if filters.sources is not None or not self._store.catalog.has_source(SESSIONS):
            return [filters]
        return [replace(filters, sources=frozenset({source})) for source in (NOTES, SESSIONS)]

    def _allowed(
        self, connection: Connection, filters: Filters, visible: Visible | None, *, trusted: bool
    ) -> FileIds:
        """Return the files that may be searched, None for all."""
        if filters.empty and visible is None and not trusted:
            return None
        catalog = self._store.catalog
        version = catalog, catalog.version  # read before the files, which may change meanwhile
        asked = filters, trusted
        is_kept = visible is None and filters.conversation is None
        if is_kept and (kept := self._allowed_before.get(asked)) and kept[0] == version:
            return kept[1]
        cited: FileIds = None
        if filters.conversation is not None:
            cited = files_citing(connection, filters.conversation)
        allowed = frozenset(
            row.file_id
            for key, row in catalog.copy().items()
            if filters.accept(key, row.stat, row.facts)
            and (cited is None or key.source != NOTES or row.file_id in cited)
            and (visible is None or visible(key))
            and not (trusted and self._origin_of(key) is Origin.UNTRUSTED)
        )
        if is_kept:
            if len(self._allowed_before) >= _REMEMBERED_FILTERS:
                self._allowed_before.clear()
            self._allowed_before[asked] = version, allowed
        return allowed


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Request to search, with the defaults in place."""

    query: str
    filters: Filters
    today: datetime.date
    min_score: float
    max_results: int
    visible: Visible | None


@dataclass(slots=True)
class _Found:
    """The candidates of a search, best first, and the results to show of them."""

    candidates: list[Candidate]
    gathered: Gathered
    mode: str
    warnings: list[str]
    ranking: Ranking
    loader: Loader
    wanted: _Wanted
    shown: list[tuple[Candidate, Hit]] = field(default_factory=list)

    @property
    def reader(self) -> LineReader:
        return self.loader.reader

    @property
    def files(self) -> set[FileKey]:
        """Return the files of the results."""
        return {self.gathered.chunks[c.row_id].stored.key for c, _ in self.shown}

    def load(self, lost: Set[FileKey] = frozenset()) -> None:
        """Make the results, without those of lost files. Blocks."""
        chunks, left = self.gathered.chunks, self.candidates
        if lost:
            left = [c for c in left if chunks[c.row_id].stored.key not in lost]

        def choose(left_out: Set[int]) -> list[Candidate]:
            return self.ranking.choose(
                [c for c in left if c.row_id not in left_out],
                self.gathered,
                min_score=self.wanted.min_score,
                max_results=self.wanted.max_results,
            )

        self.shown = load_distinct(choose, self.loader)
