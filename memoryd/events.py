"""Events of the daemon for clients that follow them. A slow listener does not slow it down."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from memoryd.index.store import Store
from memoryd.messages import FileKey, SyncMarker, ToParser, Unreadable
from memoryd_client.schema.memory import Event

log = logging.getLogger(__name__)

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
"""Maximum number of events kept for one listener; further events are only counted."""

MAX_LISTENERS = 64
"""Maximum number of listeners, because each has its own queue and comparison of problems."""


class Subscription:
    """Events for one listener, oldest first. `agent` None: of all agents."""

    def __init__(self, kinds: frozenset[str], agent: str | None) -> None:
        self.agent = agent
        self._kinds = kinds
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._arrived = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Keep an event if its kind and agent match and there is room."""
        if event.kind not in self._kinds or self.agent not in (None, event.agent):
            return
        if len(self._waiting) >= MAX_WAITING:
            self._missed += 1
            return
        self._waiting.append(event)
        self._arrived.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for an event, at most `timeout_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()

    def take(self) -> Event | None:
        """Remove and return the oldest event, None if there is none.

        After the last event comes one of kind `missed` with the number of events without room.
        """
        if self._waiting:
            return self._waiting.popleft()
        self._arrived.clear()
        missed, self._missed = self._missed, 0
        return Event("missed", self.agent or "", time.time(), count=missed) if missed else None


class EventBus:
    """Distributor of events to all listeners."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._subscriptions: set[Subscription] = set()

    def listeners(self) -> int:
        """Return the number of listeners."""
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
        """Publish an event with the present time."""
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


class AgentEvents:
    """Publisher of the events of one agent; keeps the reasons why files can't be read.

    `publish` is that of the bus, for this agent.
    """

    def __init__(self, bus: EventBus, agent: str, store: Store) -> None:
        self.unreadable: dict[FileKey, str] = {}
        self.publish = partial(bus.publish, agent=agent)
        self._store = store

    def noticed(self, message: ToParser) -> None:
        """Publish that a file is new, changed or deleted."""
        if not isinstance(message, SyncMarker):
            self.publish("noticed", path=message.key.path)

    def written(self, key: FileKey, changed: bool) -> None:
        """Publish that the writer has committed a file, if its rows changed."""
        self.unreadable.pop(key, None)
        if not changed:
            return
        row = self._store.catalog.rows.get(key)
        if row is None:
            self.publish("removed", path=key.path)
        else:
            self.publish("indexed", path=key.path, count=row.chunks)

    def embedded(self, count: int) -> None:
        """Publish that the writer has committed vectors."""
        self.publish("embedded", count=count)

    def note_unreadable(self, message: Unreadable) -> None:
        """Keep the reason why a file can't be read, and log each reason once."""
        if self.unreadable.get(message.key) != message.reason:
            log.warning("can't read %s: %s", message.key.path, message.reason)
        self.unreadable[message.key] = message.reason
