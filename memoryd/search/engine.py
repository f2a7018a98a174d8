"""A search from query to cited snippets, in steps one can read.

query → keyword leg ∥ vector leg → fuse → select → snippets. A leg that can't run leaves a warning
and the other answers.
"""

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryd.flow import FileKey
from memoryd.index.driver import Connection, Error
from memoryd.index.store import Store
from memoryd.search import fuse, lexical, snippet
from memoryd.search.balance import balance
from memoryd.search.filters import Filters
from memoryd.search.fuse import Candidate
from memoryd.settings import Query
from memoryd.terms import Term, query_terms
from memoryd_client.bodies import Hit, SearchBody, SearchResult

Number = TypeVar("Number", int, float)

NOTES, SESSIONS = "memory", "sessions"
MAX_CANDIDATES = 200
MAX_RESULTS = 200
MAX_GLOB_CHARS = 500
MAX_GLOB_STARS = 10
"""More of them would make matching one path take for ever."""
MAX_QUERY_CHARS = 8_000
"""More than any model reads; the rest of an enormous query is not looked at."""


class BadQueryError(ValueError):
    """The request can't be carried out as it stands; the message says what to change."""


class LegError(Exception):
    """The query can't be embedded now; the message is the reason."""


@dataclass(frozen=True, slots=True)
class VectorLeg:
    """How to embed a query and how to read its cosines. `problem` says why not, or None.

    `embed` returns shape (dims,), of length 1, or raises `LegError`.
    """

    embed: Callable[[str], Awaitable[NDArray[np.float32]]]
    calibrate: Callable[[float], float]
    problem: Callable[[], str | None]


class SearchEngine:
    """Answers searches on one index. `vector_leg` None: keywords only, by configuration."""

    def __init__(self, store: Store, settings: Query, vector_leg: VectorLeg | None) -> None:
        self._store = store
        self._settings = settings
        self._vector_leg = vector_leg

    async def search(
        self, body: SearchBody, visible: Callable[[FileKey], bool] | None = None
    ) -> SearchResult:
        """Search. Raises `BadQueryError`; a failing leg becomes a warning of the answer.

        Files that are not `visible` count for nothing, as if they were not there.
        """
        started = time.perf_counter()
        generation = None
        while generation != self._store.generation:
            # Once more if the index was replaced meanwhile: its rows have other numbers.
            generation = self._store.generation
            result = await self._search(body, visible)
        result.took_ms = (time.perf_counter() - started) * 1000
        return result

    async def _search(
        self, body: SearchBody, visible: Callable[[FileKey], bool] | None
    ) -> SearchResult:
        settings = self._settings
        max_results = _checked(
            body.max_results, settings.max_results, "max_results", 1, MAX_RESULTS
        )
        min_score = _checked(body.min_score, settings.min_score, "min_score", 0.0, 1.0)
        filters = _filters(body)
        query = body.query.encode("utf-8", "replace").decode().strip()[:MAX_QUERY_CHARS]
        identity = self._store.identity
        result = SearchResult(
            results=[], provider=identity.provider, model=identity.model, mode="none"
        )
        if not query:
            return result
        terms = query_terms(query)
        multiplier = settings.hybrid.candidate_multiplier
        k = min(MAX_CANDIDATES, max(1, max_results * multiplier))
        found: list[list[Candidate]] = []
        for part in self._parts(filters):
            rows = None if part.empty and visible is None else await self._allowed(part, visible)
            found.append(await self._candidates(query, terms, k, rows, result))
        if len(found) == 1:
            chosen = fuse.select(found[0], min_score=min_score, max_results=max_results)
        else:
            chosen = balance(*found, min_score=min_score, max_results=max_results)
        load = partial(_load_hits, chosen=chosen, terms=terms, max_chars=settings.snippet_chars)
        result.results = await self._store.readers.read(load)
        result.warnings = list(dict.fromkeys(result.warnings))
        return result

    def _parts(self, filters: Filters) -> list[Filters]:
        """Return what to look for candidates in: with transcripts, each source by itself.

        Else the many that transcripts have would leave none of the notes.
        """
        if filters.sources is not None or SESSIONS not in self._store.catalog.counts():
            return [filters]
        return [replace(filters, sources=frozenset({source})) for source in (NOTES, SESSIONS)]

    async def _candidates(
        self, query: str, terms: list[Term], k: int, rows: set[int] | None, result: SearchResult
    ) -> list[Candidate]:
        """Ask both legs, and return what they found, best first; note in the result what ran."""
        hybrid = self._settings.hybrid
        keyword_leg = partial(self._keyword, terms, k, rows, result.warnings)
        vector_leg = self._vector(query, k, rows, result.warnings)
        if hybrid.enabled:
            text, vector = await asyncio.gather(keyword_leg(), vector_leg)
        else:
            vector = await vector_leg
            text = await keyword_leg() if vector is None else None
        result.mode = _mode(text, vector)
        return fuse.weighted(
            vector or {},
            text or {},
            vector_weight=0.0 if vector is None else hybrid.vector_weight,
            text_weight=1.0 if vector is None else 0.0 if text is None else hybrid.text_weight,
        )

    async def _allowed(
        self, filters: Filters, visible: Callable[[FileKey], bool] | None
    ) -> set[int]:
        rows = list(self._store.catalog.rows.items())

        def pick() -> set[int]:
            return {
                row.file_id
                for key, row in rows
                if filters.accept(key, row.stat) and (visible is None or visible(key))
            }

        return await asyncio.to_thread(pick)

    async def _keyword(
        self, terms: list[Term], k: int, file_ids: set[int] | None, warnings: list[str]
    ) -> dict[int, float] | None:
        """Return text scores by row, or None when the leg did not run."""
        if self._store.fts_error is not None:
            warnings.append(f"keyword search is off: {self._store.fts_error}")
            return None
        try:
            find = partial(lexical.search, terms=terms, k=k, file_ids=file_ids)
            found = await self._store.readers.read(find)
        except Error as error:
            warnings.append(f"keyword search failed: {error}")
            return None
        return {row: fuse.text_score(bm25) for row, bm25 in found}

    async def _vector(
        self, query: str, k: int, file_ids: set[int] | None, warnings: list[str]
    ) -> dict[int, float] | None:
        """Return calibrated cosines by row, or None when the leg did not run."""
        leg = self._vector_leg
        if leg is None:
            return None
        if (problem := leg.problem()) is not None:
            warnings.append(f"vector search is off: {problem}")
            return None
        matrix = self._store.matrix
        if matrix is None or len(matrix) == 0:
            if not self._store.matrix_ready.is_set():
                warnings.append("vector search is off: vectors are still being read")
            return None
        try:
            embedded = await leg.embed(query)
        except LegError as error:
            warnings.append(f"vector search is off: {error}")
            return None
        found = await asyncio.to_thread(matrix.search, embedded, k, file_ids=file_ids)
        return {row: leg.calibrate(cosine) for row, cosine in found}


def _load_hits(
    connection: Connection, chosen: list[Candidate], terms: list[Term], max_chars: int
) -> list[Hit]:
    """Read the chosen chunks and cut their snippets; a chunk that is gone by now is left out."""
    hits: list[Hit] = []
    for candidate in chosen:
        row = connection.execute(
            "SELECT path, source, start_line, end_line, text, line_map"
            " FROM chunks JOIN files USING (file_id) WHERE row_id = ?",
            (candidate.row_id,),
        ).fetchone()
        if row is None:
            continue
        path, source, start_line, end_line, text, line_map = row
        shown = _snippet(text, start_line, end_line, line_map, terms, max_chars)
        hits.append(
            Hit(
                path=path,
                start_line=start_line,
                end_line=end_line,
                score=candidate.score,
                snippet=shown.text,
                snippet_start_line=shown.start_line,
                snippet_end_line=shown.end_line,
                source=source,
                citation=citation(path, shown.start_line, shown.end_line),
                vector_score=candidate.vector_score,
                text_score=candidate.text_score,
            )
        )
    return hits


def _snippet(
    text: str, start_line: int, end_line: int, line_map: str, terms: list[Term], max_chars: int
) -> snippet.Snippet:
    """Cut the snippet of a chunk; its lines are those of the file, whatever the text's are."""
    if not line_map:
        return snippet.cut(text, start_line, end_line, terms, max_chars)
    lines = [int(line) for line in line_map.split(",")]
    shown = snippet.cut(text, 1, len(lines), terms, max_chars)
    first, last = lines[shown.start_line - 1], lines[shown.end_line - 1]
    return shown._replace(start_line=first, end_line=last)


def citation(path: str, start_line: int, end_line: int) -> str:
    """Return `path#L3` or `path#L3-L7`."""
    return f"{path}#L{start_line}" + (f"-L{end_line}" if end_line != start_line else "")


def _mode(text: dict[int, float] | None, vector: dict[int, float] | None) -> str:
    if text is not None and vector is not None:
        return "hybrid"
    return "keyword" if text is not None else "vector" if vector is not None else "none"


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
