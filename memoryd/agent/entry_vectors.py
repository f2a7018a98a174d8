"""Vectors of entries of notes, and the kinds of messages, by a model in memoryd's own process."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import ProviderError
from memoryd.embed.route import INSIDE
from memoryd.index.quantize import Vector
from memoryd.search.message_kind import MessageKind, learn, samples

KEPT = 4_000
"""Entries whose vectors are kept, 8 MB with the bundled model."""
MOST_AT_ONCE = 32
"""Entries that are embedded at once; the first ones first."""
PATIENCE_S = 0.03
"""Seconds that a message waits for the vectors of entries."""


class EntryVectors:
    """Vectors of entries by their text, and what tells messages apart; kept in memory.

    Without a pool, or with a model elsewhere, there are none: messages go nowhere.
    """

    def __init__(self, pool: EmbedPool | None) -> None:
        self.pool = pool if pool is not None and pool.calls.provider.route == INSIDE else None
        self.kind: MessageKind | None = None
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def warm(self) -> None:
        """Learn the kinds of messages, unless they are known; does not wait."""
        if self.kind is None:
            self._start(())

    async def of(self, texts: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of those texts that are embedded within `PATIENCE_S`.

        The others follow, for later messages.
        """
        wanted = list(dict.fromkeys(texts))
        missing = [text for text in wanted if text not in self._known]
        if missing and (task := self._start(missing)) is not None:
            await asyncio.wait({task}, timeout=PATIENCE_S)
        found: dict[str, Vector] = {}
        for text in wanted:
            if (vector := self._known.get(text)) is not None:
                self._known.move_to_end(text)
                found[text] = vector
        return found

    def _start(self, missing: Sequence[str]) -> asyncio.Task[None] | None:
        if self.pool is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._embed(self.pool, missing), name="embed entries")
        return self._task

    async def _embed(self, pool: EmbedPool, texts: Sequence[str]) -> None:
        try:
            if self.kind is None:
                own, other = samples()
                vectors = await _documents(pool, [*own, *other])
                if len(vectors) == len(own) + len(other):
                    rows = list(vectors.values())
                    self.kind = learn(rows[: len(own)], rows[len(own) :])
            for at in range(0, len(texts), MOST_AT_ONCE):
                self._known |= await _documents(pool, texts[at : at + MOST_AT_ONCE])
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        except ProviderError:
            return  # the next message tries again


async def _documents(pool: EmbedPool, texts: Sequence[str]) -> dict[str, Vector]:
    rows, problems = await pool.calls.documents([pool.calls.ready(text) for text in texts])
    found = zip(texts, rows, problems, strict=True)
    return {text: row for text, row, problem in found if not problem}
