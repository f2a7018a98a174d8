"""Holds back the first large upload of an index until its user has confirmed it.

No text of the index is sent before the first scan has passed: it may have been hidden, or marked
private, while memoryd was stopped.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from memoryd.embed.budget import UploadLedger, in_ledger
from memoryd.embed.provider import RetryableError

SETTLED_S = 600.0
"""Maximum seconds between the first scan and the first text, in which all files are to be read."""


class PendingTexts(Protocol):
    """The index whose texts are to be sent."""

    async def count_pending(self) -> int:
        """Return the number of texts without a vector."""

    async def measure_pending(self) -> tuple[int, int]:
        """Return the number of texts without a vector, and their estimated tokens."""


@dataclass(frozen=True, slots=True)
class UploadPreview:
    """An upload that waits for a confirmation; `cost` is None without a configured price."""

    texts: int
    tokens: int
    cost: float | None
    receiver: str

    def __str__(self) -> str:
        cost = "" if self.cost is None else f", for about {self.cost:.2f}"
        return (
            f"{self.texts:,} chunks, about {self.tokens:,} tokens{cost}, would go to"
            f" {self.receiver}; nothing is sent until you confirm it with `memctl index --yes`"
        )


@dataclass(slots=True, eq=False)
class UploadGate:
    """The gate between one index and a provider on another machine.

    It is closed while more than `above_tokens` (0: any number) tokens are pending that nobody has
    confirmed. The
    confirmation is for this index and this receiver, and is asked for once.
    """

    texts: PendingTexts
    ledger: UploadLedger
    index: str
    receiver: str
    identity: str
    above_tokens: int
    chunk_tokens: int
    price_per_million_tokens: float = 0.0
    clock: Callable[[], float] = time.monotonic
    was_scanned: Callable[[], bool] = field(default=lambda: True)
    unread_files: Callable[[], int] = field(default=lambda: 0)
    preview: UploadPreview | None = field(default=None, init=False)
    _confirmed: bool = field(default=False, init=False)
    _settled: bool = field(default=False, init=False)
    _since_s: float | None = field(default=None, init=False)

    def may_be_large(self, chunks: int) -> bool:
        """Return whether so many chunks may need a confirmation."""
        possible = chunks * self.chunk_tokens
        return not self._confirmed and 0 < self.above_tokens < possible

    async def is_open(self) -> bool | None:
        """Return whether texts may be sent; None while files are read whose size is unknown."""
        if not self._has_settled():
            return None
        if self._confirmed:
            return True
        count = await self.texts.count_pending()
        if not self.may_be_large(count):
            self.preview = None
            return True
        if self.preview is not None and self.preview.texts == count:
            return False
        texts, tokens = await self.texts.measure_pending()
        if tokens <= self.above_tokens:
            self.preview = None
            return True
        try:
            confirmed = partial(self.ledger.is_confirmed, self.index, self.identity)
            self._confirmed = await in_ledger(confirmed)
        except RetryableError:
            self._confirmed = False  # sent only with a yes that is there to be read
        if self._confirmed:
            return True
        price = self.price_per_million_tokens
        cost = tokens * price / 1_000_000 if price else None
        self.preview = UploadPreview(texts, tokens, cost, self.receiver)
        return False

    async def confirm(self) -> None:
        """Open the gate for good. Raises `RetryableError` if that can't be recorded."""
        await in_ledger(partial(self.ledger.confirm, self.index, self.identity))
        self._confirmed, self.preview = True, None

    def _has_settled(self) -> bool:
        if not (self._settled or self.was_scanned()):
            return False
        now_s = self.clock()
        self._since_s = now_s if self._since_s is None else self._since_s
        if not self._settled:
            self._settled = not self.unread_files() or now_s - self._since_s >= SETTLED_S
        return self._settled
