"""Vectors of entries, by a model in memoryd's own process; kept for later messages."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import ProviderError
from memoryd.index.vector_matrix import Vector

KEPT = 4_000
"""Entries whose vectors are kept, 8 MB with the bundled model."""
MOST_AT_ONCE = 64
"""Entries that one message has embedded; the first ones first."""
PATIENCE_S = 0.1


class EntryVectors:
    """Vectors of entries by their text. Without a pool, there are none."""

    def __init__(self, pool: EmbedPool | None) -> None:
        self._pool = pool
        self._known: OrderedDict[str, Vector] = OrderedDict()

    async def __call__(self, texts: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of those texts that are embedded within `PATIENCE_S`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing and self._pool is not None:
            await self._embed(self._pool, missing[:MOST_AT_ONCE])
        found: dict[str, Vector] = {}
        for text in texts:
            if (vector := self._known.get(text)) is not None:
                self._known.move_to_end(text)
                found[text] = vector
        return found

    async def _embed(self, pool: EmbedPool, texts: list[str]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                rows, problems = await pool.calls.documents([pool.calls.ready(t) for t in texts])
        except (ProviderError, TimeoutError):
            return
        for text, row, problem in zip(texts, rows, problems, strict=True):
            if not problem:
                self._known[text] = row
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
