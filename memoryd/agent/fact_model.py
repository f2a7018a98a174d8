"""The embedding model of an agent, as facts use it: ahead of bulk work, and not for long."""

import asyncio
from collections.abc import Mapping

from memoryd.agent.embedding import QUERY_S, Embedding
from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import ProviderError
from memoryd.embed.scale import Scale
from memoryd.embed.upload_gate import UploadGate
from memoryd.facts.memory import FactModelError
from memoryd.index.quantize import Vector

LOAD_S = 15.0
"""Seconds that a fact waits for its vector, so that a model can be loaded on a busy machine."""


class AgentFactModel:
    """Embeds facts and questions with an agent's provider. Raises `FactModelError`."""

    def __init__(self, pool: EmbedPool, scale: Scale, gate: UploadGate | None) -> None:
        self._pool = pool
        self._scale = scale
        self._gate = gate

    @classmethod
    def of(cls, embedding: Embedding) -> "AgentFactModel | None":
        """Return the model of an agent, None without a provider."""
        if embedding.pool is None or embedding.scale is None:
            return None
        return cls(embedding.pool, embedding.scale, embedding.gate)

    @property
    def dims(self) -> int | None:
        """The length of its vectors, None until it is known."""
        return self._pool.calls.dims

    def key(self, dims: int) -> str:
        """Return a name for the model's vectors of these dims."""
        provider = self._pool.calls.provider
        return f"{provider.name} {provider.model} {provider.key} {dims}"

    async def documents(self, texts: list[str]) -> Mapping[str, Vector]:
        """Return the vectors of texts within `LOAD_S`."""
        calls, breaker = self._pool.calls, self._pool.breaker
        await self._check_gate()
        if breaker.error is not None and breaker.retry_in_s:
            raise FactModelError(str(breaker.error))
        try:
            async with asyncio.timeout(LOAD_S):
                rows, problems = await calls.documents([calls.ready(text) for text in texts])
        except (ProviderError, TimeoutError) as error:
            raise FactModelError(str(error) or "the provider took too long") from error
        found = zip(texts, rows, problems, strict=True)
        return {text: row for text, row, problem in found if not problem}

    async def query(self, text: str) -> Vector:
        """Return the vector of a question within `QUERY_S`, and know the model's scale."""
        await self._check_gate()
        try:
            vector = await self._pool.embed_query(text, patience_s=QUERY_S)
        except (ProviderError, TimeoutError) as error:
            raise FactModelError(str(error)) from error
        await self._scale.measure()
        return vector

    def calibrate(self, cosine: float) -> float:
        """Map a cosine to 0 for unrelated and 1 for equal texts."""
        return self._scale.apply(cosine)

    async def _check_gate(self) -> None:
        if self._gate is not None and await self._gate.is_open() is False:
            raise FactModelError(str(self._gate.preview))
