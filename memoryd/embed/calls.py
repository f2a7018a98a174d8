"""The one way to the provider: masked, within the rate limits, counted, checked."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memoryd.embed.limits import RateLimits
from memoryd.embed.provider import (
    FloatMatrix,
    Provider,
    ProviderError,
    fitted,
    unit_rows,
    utf8_bytes,
)

CANARY = "memoryd"
"""A text that every provider can embed: what refuses it does not refuse a text."""


@dataclass(slots=True)
class CallCounts:
    """What a provider was asked for since the start, and how often it failed."""

    requests: int = 0
    items: int = 0
    failures: int = 0
    last_error: str | None = None


class Calls:
    """Asks the provider. What goes to another machine has its secrets masked first."""

    def __init__(
        self, provider: Provider, *, limits: RateLimits, mask: Callable[[str], str]
    ) -> None:
        self.provider = provider
        self.limits = limits
        self.counts = CallCounts()
        self._mask = mask if provider.remote else _as_it_is
        self._dims: int | None = None

    def ready(self, text: str) -> str:
        """Return the text as it is sent: masked, and no longer than the provider reads."""
        return fitted(self._mask(text), self.provider.max_input_bytes)

    async def documents(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        """Embed texts that are `ready`.

        Returns rows of length 1, shape (len(texts), dims), and for each row the reason why it is
        none, or "". Raises `ProviderError`.
        """
        return await self._ask(texts, query=False)

    async def query(self, text: str) -> tuple[FloatMatrix, list[str]]:
        """Embed a query, before all that waits. Returns as `documents` does."""
        return await self._ask([text], query=True)

    async def works(self) -> bool:
        """Say whether the provider embeds what every provider can."""
        try:
            _, reasons = await self.documents([CANARY])
        except ProviderError:
            return False
        return not reasons[0]

    async def _ask(self, texts: list[str], *, query: bool) -> tuple[FloatMatrix, list[str]]:
        provider, counts = self.provider, self.counts
        taken = await self.limits.take(sum(map(utf8_bytes, texts)), first=query)
        before = provider.tokens_used
        counts.requests += 1
        try:
            if query:
                rows = await provider.embed_query(texts[0])
            else:
                rows = await provider.embed_documents(texts)
            units, good = unit_rows(rows, count=len(texts), dims=provider.dims or self._dims)
        except ProviderError as error:
            counts.failures += 1
            counts.last_error = str(error)
            raise
        if provider.tokens_used > before:
            # Of this call, unless others were under way: then the sum is right all the same.
            self.limits.correct(taken, provider.tokens_used - before)
        self._dims = units.shape[1]
        counts.items += int(np.count_nonzero(good))
        return units, ["" if fine else "Its vector is zero or not finite." for fine in good]


def _as_it_is(text: str) -> str:
    return text
