"""Tokens that a provider may receive in a day, counted in a file before they are sent.

A crash therefore counts a request too many, never one too few. All agents, and all daemons of a
user, share the count of one address.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from memoryd.embed.provider import RetryableError
from memoryd.fs.atomic_replace import rename_over
from memoryd.fs.hang import DISK_LIMIT_S, SILENT, within
from memoryd.text.token_estimate import weigh
from memoryd_client.shared.safe_open import open_regular

log = logging.getLogger(__name__)

T = TypeVar("T")
MAX_BYTES = 1024 * 1024


class _Kept(msgspec.Struct):
    """The file: (day, tokens) by address, and the confirmed receiver by the path of an index."""

    days: dict[str, tuple[str, int]] = {}
    confirmed: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class UploadLedger:
    """The file of counts and confirmations. Its methods block, and raise `OSError`.

    They also raise `ValueError` if the file is unreadable: what has been sent is unknown then.
    """

    path: Path

    def add(self, address: str, day: str, tokens: int, limit: int | None) -> int | None:
        """Count tokens; return the day's sum. Return None, and count nothing, above `limit`."""
        with self._changed() as kept:
            before = _sum(kept, address, day)
            after = max(0, before + tokens)
            if limit is not None and after > limit:
                return None
            kept.days[address] = day, after
            return after

    def used(self, address: str, day: str) -> int:
        """Return the tokens that are counted for a day."""
        return _sum(self._read(), address, day)

    def confirm(self, index: str, receiver: str) -> None:
        """Record that the texts of an index may go to a receiver."""
        with self._changed() as kept:
            kept.confirmed[index] = receiver

    def is_confirmed(self, index: str, receiver: str) -> bool:
        """Return whether the texts of an index may go to a receiver."""
        return self._read().confirmed.get(index) == receiver

    def _read(self) -> _Kept:
        try:
            with open_regular(self.path) as file:
                data = file.read(MAX_BYTES)
        except FileNotFoundError:
            return _Kept()
        return msgspec.json.decode(data, type=_Kept)

    @contextmanager
    def _changed(self) -> Iterator[_Kept]:
        """Yield what is kept, and replace the file; other processes wait meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(f"{self.path}.lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = self._read()
            before = msgspec.json.encode(kept)
            yield kept
            if (after := msgspec.json.encode(kept)) != before:
                new = self.path.with_name(f"{self.path.name}.new")
                new.touch(0o600)
                new.write_bytes(after)
                rename_over(new, self.path)
        finally:
            os.close(lock)


def _sum(kept: _Kept, address: str, day: str) -> int:
    counted, tokens = kept.days.get(address, ("", 0))
    return tokens if counted == day else 0


async def in_ledger(call: Callable[[], T]) -> T:
    """Call a method of the ledger in a thread. Raises `RetryableError`: then send nothing."""
    try:
        return await asyncio.to_thread(within, DISK_LIMIT_S, call)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        reason = SILENT if isinstance(error, TimeoutError) else error
        raise RetryableError(
            f"The file that counts what is sent can't be used: {reason}."
        ) from error


@dataclass(slots=True)
class Budget:
    """The daily budget of one address, in estimated tokens, corrected by what the vendor reports.

    Days are local. `used` are the tokens counted today, as of the last request.
    """

    ledger: UploadLedger
    address: str
    limit: int
    now: Callable[[], datetime] = datetime.now
    _used: tuple[str, int] = field(default=("", 0), init=False)
    _refused_on: str = field(default="", init=False)

    @property
    def used(self) -> int:
        """Tokens counted today."""
        day, tokens = self._used
        return tokens if day == self._day() else 0

    @property
    def is_used_up(self) -> bool:
        """True if a request has been refused today."""
        return self._refused_on == self._day()

    async def load(self) -> None:
        """Read the count of earlier processes. Raises `RetryableError`."""
        day = self._day()
        self._used = day, await in_ledger(partial(self.ledger.used, self.address, day))

    async def take(self, tokens: int) -> str:
        """Count a request that is about to be sent; return its day. Raises `RetryableError`."""
        day = self._day()
        add = partial(self.ledger.add, self.address, day, tokens, self.limit)
        if (total := await in_ledger(add)) is not None:
            self._used = day, total
            return day
        now = self.now()
        midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time())
        message = (
            f"The day's budget of {self.limit:,} tokens for {self.address} is used up;"
            " embedding goes on at midnight (remote.max_tokens_per_day)."
        )
        if not self.is_used_up:
            log.warning("%s", message)
        self._refused_on = day
        raise RetryableError(message, after_s=(midnight - now).total_seconds() + 1, busy=True)

    async def correct(self, day: str, tokens: int) -> None:
        """Add the difference between what was sent and what `take` had counted."""
        if tokens:
            total = await in_ledger(partial(self.ledger.add, self.address, day, tokens, None))
            if total is not None and day == self._day():
                self._used = day, total

    def _day(self) -> str:
        return self.now().date().isoformat()


def estimated_tokens(texts: list[str]) -> int:
    """Return the estimated tokens of texts."""
    return sum(weigh(text) for text in texts) // 4 + len(texts)
