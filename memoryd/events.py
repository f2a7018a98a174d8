"""What happens in the daemon, for those who want to follow it. Nobody who listens slows it down."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memoryd_client.schema.memory import Event

KINDS = (
    "listening",
    "noticed",
    "indexed",
    "removed",
    "embedded",
    "searched",
    "degraded",
    "recovered",
    "missed",
)
MAX_WAITING = 1_000
"""Events kept for one listener; what comes on top is counted, not kept."""

MAX_LISTENERS = 64
"""Each has its own events kept, and what is degraded compared."""


class Subscription:
    """The events for one listener, oldest first. `agent` None: those of all agents."""

    def __init__(self, kinds: frozenset[str], agent: str | None) -> None:
        self.agent = agent
        self._kinds = kinds
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._arrived = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Keep an event, if it is one of those wanted and there is room."""
        if event.kind not in self._kinds or self.agent not in (None, event.agent):
            return
        if len(self._waiting) >= MAX_WAITING:
            self._missed += 1
            return
        self._waiting.append(event)
        self._arrived.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait until there is something to take, or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return

    def take(self) -> Event | None:
        """Remove and return the oldest event; behind the last, one that tells how many are missing.

        None when there is none.
        """
        if self._waiting:
            return self._waiting.popleft()
        self._arrived.clear()
        missed, self._missed = self._missed, 0
        return Event("missed", self.agent or "", time.time(), count=missed) if missed else None


class EventBus:
    """Hands every event to all who listen."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._subscriptions: set[Subscription] = set()

    def listeners(self) -> int:
        """Return how many listen."""
        return len(self._subscriptions)

    def publish(
        self,
        kind: str,
        agent: str,
        *,
        path: str | None = None,
        count: int | None = None,
        text: str | None = None,
    ) -> None:
        """Tell everybody that something happened, now."""
        if self._subscriptions:
            event = Event(kind, agent, self._clock(), path, count, text)
            for subscription in self._subscriptions:
                subscription.offer(event)

    @contextmanager
    def subscribe(self, kinds: list[str] | None, agent: str | None) -> Iterator[Subscription]:
        """Listen to these kinds of events (None: all) of one agent (None: of all)."""
        subscription = Subscription(frozenset(KINDS if kinds is None else kinds), agent)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
