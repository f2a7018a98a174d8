"""Entries of notes that fit a message: their evidence, and how sure it is. See docs/recall.md.

A message is no query: most ask nothing that memory knows. So an entry must be likely to fit before
it is shown at all.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from memoryd.index.driver import Connection
from memoryd.index.store import Store
from memoryd.index.vector_matrix import Vector
from memoryd.messages import FileKey
from memoryd.search import fuse
from memoryd.search.confidence import logit_of_answer, probability
from memoryd.search.evidence import ChunkText, Evidence, Question, weigh
from memoryd.search.lexical import UNKNOWN
from memoryd.search.query import SOURCES, Query
from memoryd.search.retrievers import EncodedQuery, FileIds, Retrievers, VectorRetriever
from memoryd_client.schema.search import Origin

NOTES = SOURCES[0]
CANDIDATES = 24
"""Chunks per retriever whose entries are compared with the message."""

Embed = Callable[[Sequence[str]], Awaitable[Mapping[str, Vector]]]
"""Function that returns the vectors of texts, of those that are known in time."""


class NoteChunk(NamedTuple):
    """A chunk of a note that may have an entry which fits."""

    key: FileKey
    title: str
    date: str
    start_line: int
    text: str


class Recallable(NamedTuple):
    """An entry as it is compared: the path of its note, the headings above it, and its text."""

    path: str
    title: str
    text: str


class Fit(NamedTuple):
    """Evidence that an entry fits. `cosine` is on the bundled model's scale, None without one."""

    evidence: Evidence
    cosine: float | None

    @property
    def confidence(self) -> float:
        """The estimated probability that the entry fits."""
        return probability(logit_of_answer(fuse.strength_of_words(self.evidence), self.cosine))


@dataclass(frozen=True, slots=True)
class Recaller:
    """Compares one message with entries. `vectors` is None where words alone count.

    `embed` returns the vectors of entries.
    """

    store: Store
    vectors: VectorRetriever | None
    embed: Embed
    origin_of: Callable[[FileKey], Origin]

    async def chunks(
        self, message: str, *, without: frozenset[FileKey]
    ) -> tuple[list[NoteChunk], EncodedQuery]:
        """Return the chunks of trusted notes that are nearest, and the message as it was read."""
        retrievers = Retrievers(
            self.store,
            self.vectors,
            Query(message),
            Question.read(message),
            keyword=True,
            vector=self.vectors is not None,
            trusted=True,
        )
        retrieved = await retrievers.retrieve(CANDIDATES, self._notes(without), EncodedQuery())
        rows = list(dict.fromkeys([*retrieved.bm25, *retrieved.cosines]))
        found = await self.store.readers.read(partial(_read_chunks, rows=rows))
        return found, retrieved.encoded

    def _notes(self, without: frozenset[FileKey]) -> FileIds:
        return frozenset(
            row.file_id
            for key, row in self.store.catalog.copy().items()
            if key.source == NOTES
            and key not in without
            and self.origin_of(key) is not Origin.UNTRUSTED
        )

    async def fits(
        self, message: str, encoded: EncodedQuery, entries: Sequence[Recallable]
    ) -> list[Fit]:
        """Return how well each entry fits a message that `chunks` has read."""
        texts = [_as_chunk(entry) for entry in entries]
        evidence = weigh(Question.read(message), encoded.corpus or UNKNOWN, texts)
        cosines: dict[str, float] = {}
        if encoded.vector is not None and self.vectors is not None:
            own = encoded.vector
            near = await self.embed([entry.text for entry in entries])
            calibrate = self.vectors.calibrate
            cosines = {
                text: fuse.usual_scale(calibrate(float(vector @ own)))
                for text, vector in near.items()
            }
        return [
            Fit(found, cosines.get(entry.text))
            for found, entry in zip(evidence, entries, strict=True)
        ]


def _as_chunk(entry: Recallable) -> ChunkText:
    context = f"{entry.path.removesuffix('.md')}\n{entry.title}"
    return ChunkText(entry.text, context, len(entry.text.split()) + len(entry.title.split()))


def _read_chunks(connection: Connection, rows: Sequence[int]) -> list[NoteChunk]:
    found: list[NoteChunk] = []
    for row in rows:
        read = connection.execute(
            "SELECT source, path, title, heading, date, start_line, text"
            " FROM chunks JOIN files USING (file_id)"
            " WHERE row_id = ? AND origin <> 'untrusted' AND line_map = ''",
            (row,),
        ).fetchone()
        if read is not None:
            source, path, title, heading, date, start_line, text = read
            found.append(NoteChunk(FileKey(source, path), heading or title, date, start_line, text))
    return found
