"""Results at places that another program found, cited and hidden as those of the built-in index.

A place is a file of the index and a line. All that is shown is read from the index: text that is
masked, forgotten, excluded or not for this reader is not there, whatever the program has.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from memoryd.config.settings import QuerySettings
from memoryd.index.driver import Connection
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.search.engine import Gone, Visible
from memoryd.search.evidence import Question
from memoryd.search.fuse import Candidate
from memoryd.search.gather import ReadChunk, read_chunks
from memoryd.search.query import SOURCES, Filters, Query, parse
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
from memoryd.search.results import Loader, OriginOf, within
from memoryd.search.snippet import LineReader, highlights
from memoryd_client.schema.search import Hit, SearchBody

_, SESSIONS = SOURCES


class Place(NamedTuple):
    """A line of a file, None if unknown. That of a transcript counts the lines of its chunks."""

    key: FileKey
    line: int | None
    score: float


class Asked(NamedTuple):
    """A checked request: the query without its operators, and the limits on the results."""

    body: SearchBody
    query: Query
    max_results: int
    min_score: float
    min_confidence: float
    max_chars: int


class Citer:
    """Makes results of places, from one index."""

    def __init__(self, store: Store, settings: QuerySettings, origin_of: OriginOf) -> None:
        self._store = store
        self._settings = settings
        self._origin_of = origin_of

    def read_request(self, body: SearchBody) -> Asked:
        """Check a request as the built-in search does. Raises `BadQueryError`."""
        settings = self._settings
        typed = body.query.encode("utf-8", "replace").decode().strip()[:MAX_QUERY_CHARS]
        query = parse(typed, self._store.catalog.has_property)
        filters = query.filters.both(filters_of(body))
        if unknown := sorted((filters.sources or frozenset()) - set(SOURCES)):
            raise BadQueryError(f"unknown source {unknown[0]!r}: use {' or '.join(SOURCES)}")
        if body.mode is not None and body.mode not in MODES:
            raise BadQueryError(f"mode must be one of {', '.join(MODES)} (got {body.mode!r})")
        day_of(body.now)
        return Asked(
            body,
            Query(query.text, query.without, query.required, filters),
            checked(body.max_results, settings.max_results, "max_results", 1, MAX_RESULTS),
            checked(body.min_score, 0.0, "min_score", 0.0, 1.0),
            checked(body.min_confidence, settings.min_confidence, "min_confidence", 0.0, 1.0),
            checked(body.max_chars, MAX_CHARS, "max_chars", 1, MAX_CHARS),
        )

    async def cite(
        self, asked: Asked, places: Sequence[Place], visible: Visible | None, gone: Gone | None
    ) -> tuple[list[Hit], int]:
        """Return the results in the order of the places, and the number beyond `max_chars`."""
        shown = [place for place in places if self._is_shown(place, asked, visible)]
        if gone is not None and shown:
            lost = await gone({place.key for place in shown})
            shown = [place for place in shown if place.key not in lost]
        read = partial(self._read, asked=asked, places=shown)
        generation, hits = None, list[Hit]()
        while generation != self._store.generation:  # else its rows have other numbers
            generation = self._store.generation
            hits = await self._store.readers.read(read)
        return within(hits[: asked.max_results], asked.max_chars)

    def _is_shown(self, place: Place, asked: Asked, visible: Visible | None) -> bool:
        row = self._store.catalog.rows.get(place.key)
        return (
            row is not None
            and place.score >= asked.min_score
            and asked.query.filters.accept(place.key, row.stat, row.facts)
            and (visible is None or visible(place.key))
        )

    def _read(self, connection: Connection, asked: Asked, places: Sequence[Place]) -> list[Hit]:
        scores: dict[int, float] = {}
        for place in places:
            row = self._store.catalog.rows.get(place.key)
            found = None if row is None else _chunk_at(connection, row.file_id, place)
            if found is not None:
                scores.setdefault(found, place.score)
        question, trusted = Question.read(asked.query.text), asked.body.trusted
        chunks = read_chunks(
            connection,
            [*scores],
            None,
            query=asked.query,
            trusted=trusted,
        )
        reader = LineReader(dict.fromkeys(question.terms, 1.0))
        loader = self._loader(chunks, reader, asked.query.filters, trusted=trusted)
        hits = list[Hit]()
        for row_id, score in scores.items():
            if row_id in chunks:
                loaded = loader.load(Candidate(row_id, score, None, None), ())
                if loaded is not None:
                    hits.append(loaded.hit)
        for hit in hits if asked.body.highlight else ():
            hit.highlights = highlights(hit.snippet, reader)
        return hits

    def _loader(
        self,
        chunks: dict[int, ReadChunk],
        reader: LineReader,
        filters: Filters,
        *,
        trusted: bool,
    ) -> Loader:
        return Loader(
            chunks=chunks,
            cited={},
            reader=reader,
            line_cosines=lambda texts: {},
            origin_of=self._origin_of,
            max_chars=self._settings.snippet_chars,
            trusted=trusted,
            filters=filters,
        )


def _chunk_at(connection: Connection, file_id: int, place: Place) -> int | None:
    """Return the chunk of a line, or the next one, as after blank lines; None if there is none."""
    line = place.line or 1
    if place.key.source == SESSIONS:
        return _nth_chunk(connection, file_id, line)
    found = connection.execute(
        "SELECT row_id FROM chunks WHERE file_id = ? AND end_line >= ?"
        " ORDER BY start_line, row_id LIMIT 1",
        (file_id, line),
    ).fetchone()
    return None if found is None else int(found[0])


def _nth_chunk(connection: Connection, file_id: int, line: int) -> int | None:
    """Return the chunk with a line of all chunks of a file in their order."""
    last = None
    for row_id, lines in connection.execute(
        "SELECT row_id, length(text) - length(replace(text, char(10), '')) + 1 FROM chunks"
        " WHERE file_id = ? ORDER BY start_line, row_id",
        (file_id,),
    ):
        last = int(row_id)
        line -= lines
        if line <= 0:
            break
    return last
