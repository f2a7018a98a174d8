"""Entries of notes that fit a message: which are compared, and how probable it is. docs/recall.md.

A message is no query: most ask for nothing that a note says. So an entry must be likely to fit
before it is shown at all.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memoryd.index.driver import Connection
from memoryd.index.quantize import Vector
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.search import fuse
from memoryd.search.confidence import probability
from memoryd.search.evidence import Question
from memoryd.search.lexical import UNKNOWN
from memoryd.search.message_kind import MessageKind
from memoryd.search.overlap import Comparer, Overlap
from memoryd.search.query import SOURCES, Query
from memoryd.search.retrievers import EncodedQuery, Retrieved, Retrievers, VectorRetriever
from memoryd_client.schema.search import Origin

NOTES = SOURCES[0]
CANDIDATES = 24
"""Chunks per retriever whose entries are compared with the message."""
SHOWN = 0.45
"""Least probability of an entry that is shown."""
MOST_WORDS = 4.0
"""Weight of shared words from which more say no more."""
MOST_KIND = 0.6
"""Absolute kind of a message from which more says no more."""


class RecallConstants(NamedTuple):
    """Coefficients of the logit of the probability that an entry fits."""

    bias: float
    words: float
    names: float
    share: float = 0.0
    cosine: float = 0.0
    kind: float = 0.0


BY_VECTORS = RecallConstants(-12.99, 6.87, 3.19, cosine=7.73, kind=-5.59)
BY_WORDS = RecallConstants(-7.62, 5.13, 2.27, share=0.42)
"""Fitted to every other message of the set `recall`, and to its practice messages. Words alone say
little about the kind of a message: their bias is such that few others get an entry."""


class NoteChunk(NamedTuple):
    """A chunk of a note that may have an entry which fits; `title` has the headings above it."""

    key: FileKey
    title: str
    date: str
    start_line: int
    text: str


class ReadMessage(NamedTuple):
    """A message as the retrievers have read it; `kind` is None without a vector."""

    text: str
    question: Question
    encoded: EncodedQuery
    kind: float | None


def fit(overlap: Overlap, cosine: float | None, kind: float | None) -> float:
    """Return the probability that an entry fits; `cosine` is on the bundled model's scale."""
    words = math.sqrt(min(overlap.words, MOST_WORDS))
    names = math.tanh(overlap.names)
    if cosine is None or kind is None:
        by = BY_WORDS
        logit = by.bias + by.words * words + by.names * names + by.share * min(1.0, overlap.share)
        return probability(logit)
    by = BY_VECTORS
    near = math.tanh(max(0.0, cosine) / fuse.BEND)
    kind = min(MOST_KIND, max(-MOST_KIND, kind))
    logit = by.bias + by.words * words + by.names * names + by.cosine * near + by.kind * kind
    return probability(logit)


@dataclass(frozen=True, slots=True)
class Recaller:
    """Compares messages with the entries of notes. `vectors` is None where words alone count."""

    store: Store
    vectors: VectorRetriever | None
    origin_of: Callable[[FileKey], Origin]

    async def read(
        self, text: str, kind: MessageKind | None, *, without: frozenset[FileKey]
    ) -> tuple[ReadMessage, list[NoteChunk]]:
        """Return a message as it was read, and the nearest chunks of trusted notes."""
        question = Question.read(text)
        retrievers = Retrievers(
            self.store,
            self.vectors,
            Query(text),
            question,
            keyword=True,
            vector=self.vectors is not None,
            trusted=True,
        )
        ids = await asyncio.to_thread(self._notes, without)
        encoded, _ = await retrievers.embed()

        def find(
            connection: Connection, retrievers: Retrievers
        ) -> tuple[Retrieved, list[NoteChunk]]:
            retrieved = retrievers.retrieve(connection, CANDIDATES, ids, encoded)
            rows = list(dict.fromkeys([*retrieved.bm25, *retrieved.cosines]))
            return retrieved, _read_chunks(connection, rows)

        retrieved, chunks = await retrievers.read(find)
        vector = retrieved.encoded.vector
        known = None if kind is None or vector is None else kind.of(vector)
        return ReadMessage(text, question, retrieved.encoded, known), chunks

    def _notes(self, without: frozenset[FileKey]) -> frozenset[int]:
        return frozenset(
            row.file_id
            for key, row in self.store.catalog.copy().items()
            if key.source == NOTES
            and key not in without
            and self.origin_of(key) is not Origin.UNTRUSTED
        )

    def fits(
        self,
        message: ReadMessage,
        entries: Sequence[tuple[str, str]],
        vectors: Mapping[str, Vector],
    ) -> list[float]:
        """Return the probability that each entry, a text below a title, fits. Blocking: CPU."""
        comparer = Comparer(message.text, message.question, message.encoded.corpus or UNKNOWN)
        return [
            fit(
                comparer.compare(text, title),
                self._cosine(message, vectors.get(text)),
                message.kind,
            )
            for text, title in entries
        ]

    def _cosine(self, message: ReadMessage, vector: Vector | None) -> float | None:
        own = message.encoded.vector
        if own is None or vector is None or self.vectors is None or len(own) != len(vector):
            return None
        return fuse.usual_scale(self.vectors.calibrate(float(vector @ own)))


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
            key = FileKey(source, path)
            found.append(NoteChunk(key, heading or title, date, start_line, text))
    return found
