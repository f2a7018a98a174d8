"""The only caller of a provider: masks secrets, applies rate limits, counts and checks."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from memoryd.embed.budget import Budget, estimated_tokens
from memoryd.embed.provider import (
    BadTextError,
    FloatMatrix,
    PermanentError,
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
"""A text that every provider can embed: if it is refused, the provider is at fault."""


@dataclass(slots=True)
class CallCounts:
    """Requests to a provider since the start, and their failures.

    `last_error` is None as soon as the provider has answered again.
    """

    requests: int = 0
    items: int = 0
    failures: int = 0
    last_error: str | None = None


class ProviderClient:
    """Calls the provider; masks secrets in texts that go to a server.

    `dims` is the length of the vectors of texts, None until it is known.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        limits: RateLimits,
        mask: Callable[[str], str],
        budget: Budget | None = None,
    ) -> None:
        self.provider = provider
        self.limits = limits
        self.budget = budget
        self.counts = CallCounts()
        self._mask = mask if provider.remote else str
        self._corrected = 0
        self.dims: int | None = None

    def ready(self, text: str) -> str:
        """Return the text as it is sent: masked, and cut to the provider's maximum."""
        return fitted(self._mask(text), self.provider.max_input_bytes)

    def expect(self, dims: int | None) -> None:
        """Assume the dims of an index until the provider has answered."""
        if self.dims is None:
            self.dims = dims

    async def documents(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        """Embed texts that are `ready`.

        Returns rows of length 1, shape (len(texts), dims), and for each row an error, or "".
        Raises `ProviderError`, also for vectors of other `dims` than before, unless the provider
        now returns them for every text.
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
        """Embed a query ahead of bulk work. Returns as `documents` does."""
        return await self._ask([text], query=True)

    async def dims_now(self) -> int:
        """Return the current length of a text's vector. Raises `ProviderError`."""
        units, _ = await self.documents([CANARY])
        return int(units.shape[1])

    async def works(self) -> bool:
        """Return whether the provider embeds a harmless text."""
        try:
            _, reasons = await self.documents([CANARY])
        except ProviderError:
            return False
        return not reasons[0]

    async def blame(self, error: RetryableError | PermanentError) -> ProviderError:
        """Return a `BadTextError` if the provider works and fails at these texts alone."""
        if isinstance(error, PermanentError):
            refused = error.refused
        else:
            refused = str(error) if error.answered else None
        if refused is not None and await self.works():
            return BadTextError(refused)
        return error

    @property
    def tokens_left(self) -> int | None:
        """Tokens that may still be sent today, None without a limit."""
        return None if self.budget is None else self.budget.limit - self.budget.used

    async def spend(self, tokens: int) -> None:
        """Count the tokens of a batch job to be sent. Raises `RetryableError` above the budget."""
        if self.budget is not None:
            await self.budget.take(tokens)

    def note_job(self, items: int, tokens: int) -> None:
        """Count the vectors and reported tokens of a batch job, whose tokens `spend` counted."""
        self.counts.items += items
        self.provider.tokens_used += tokens
        self._corrected += tokens

    async def _ask(self, texts: list[str], *, query: bool) -> tuple[FloatMatrix, list[str]]:
        provider, counts, budget = self.provider, self.counts, self.budget
        estimate, day = 0, ""
        if budget is not None:
            estimate = estimated_tokens(texts)
            try:
                day = await budget.take(estimate)
            except RetryableError as error:
                self._note(error)
                raise
        taken = await self.limits.take(sum(map(utf8_bytes, texts)), first=query)
        counts.requests += 1
        try:
            if query:
                rows = await provider.embed_query(texts[0])
            else:
                rows = await provider.embed_documents(texts)
            units, good = unit_rows(rows, count=len(texts), dims=provider.dims)
        except ProviderError as error:
            self._note(error)
            if budget is not None:
                await budget.correct(day, -estimate)  # vendors charge answers only
            raise
        # No other call has ended since the provider counted this one's tokens.
        reported = provider.tokens_used - self._corrected
        self._corrected = provider.tokens_used
        if reported > 0:
            self.limits.correct(taken, reported)
            if budget is not None:
                await budget.correct(day, reported - estimate)
        counts.items += sum(good)
        counts.last_error = None
        return units, ["" if fine else "Its vector is zero or not finite." for fine in good]

    def _refused(self, reason: str) -> RetryableError:
        error = RetryableError(reason, answered=True)
        self._note(error)
        return error

    def _note(self, error: ProviderError) -> None:
        self.counts.failures += 1
        self.counts.last_error = str(error)
