"""The one way to the provider: masked, within the rate limits, counted, checked."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memoryd.embed.provider import (
    FloatMatrix,
    Provider,
    ProviderError,
    RetryableError,
    fitted,
    unit_rows,
    utf8_bytes,
)
from memoryd.embed.rate_limit import RateLimits

log = logging.getLogger(__name__)

CANARY = "memoryd"
"""A text that every provider can embed: what refuses it does not refuse a text."""


@dataclass(slots=True)
class CallCounts:
    """What a provider was asked for since the start, and how often it failed."""

    requests: int = 0
    items: int = 0
    failures: int = 0
    last_error: str | None = None


class ProviderClient:
    """Asks the provider. What goes to another machine has its secrets masked first.

    `dims` is how many numbers a text's vector has, None until that is known.
    """

    def __init__(
        self, provider: Provider, *, limits: RateLimits, mask: Callable[[str], str]
    ) -> None:
        self.provider = provider
        self.limits = limits
        self.counts = CallCounts()
        self._mask = mask if provider.remote else _as_it_is
        self.dims: int | None = None

    def ready(self, text: str) -> str:
        """Return the text as it is sent: masked, and no longer than the provider reads."""
        return fitted(self._mask(text), self.provider.max_input_bytes)

    def expect(self, dims: int | None) -> None:
        """Take what an index has for what the provider gives, until it has answered."""
        if self.dims is None:
            self.dims = dims

    async def documents(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        """Embed texts that are `ready`.

        Returns rows of length 1, shape (len(texts), dims), and for each row the reason why it is
        none, or "". Raises `ProviderError`, also for vectors of other `dims` than before, unless
        the provider gives such to every text now.
        """
        checked = await self._ask(texts, query=False)
        dims = checked[0].shape[1]
        if not dims:
            raise self._refused("The provider returned empty vectors.")
        if self.dims not in (None, dims):
            canary, _ = await self._ask([CANARY], query=False)
            if canary.shape[1] != dims:
                raise self._refused(
                    f"The provider's vectors have {dims} dimensions here and {self.dims} elsewhere."
                )
            log.warning(
                "the provider now returns vectors of %d dimensions, not %d", dims, self.dims
            )
        self.dims = dims
        return checked

    async def query(self, text: str) -> tuple[FloatMatrix, list[str]]:
        """Embed a query, before all that waits. Returns as `documents` does."""
        return await self._ask([text], query=True)

    async def dims_now(self) -> int:
        """Return how many numbers the provider gives to a text now. Raises `ProviderError`."""
        units, _ = await self.documents([CANARY])
        return int(units.shape[1])

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
            units, good = unit_rows(rows, count=len(texts), dims=provider.dims)
        except ProviderError as error:
            self._note(error)
            raise
        if provider.tokens_used > before:
            # Of this call, unless others were under way: then the sum is right all the same.
            self.limits.correct(taken, provider.tokens_used - before)
        counts.items += int(np.count_nonzero(good))
        return units, ["" if fine else "Its vector is zero or not finite." for fine in good]

    def _refused(self, reason: str) -> RetryableError:
        error = RetryableError(reason, answered=True)
        self._note(error)
        return error

    def _note(self, error: ProviderError) -> None:
        self.counts.failures += 1
        self.counts.last_error = str(error)


def _as_it_is(text: str) -> str:
    return text
