"""Answers about the index that a connection keeps until something is written."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from memoryd.index.driver import Connection, transaction

T = TypeVar("T")
Answers = dict[tuple[object, ...], Any]
MOST_REMEMBERED_BYTES = 2**19
"""Memory of the answers that a connection keeps, most of which say that there is nothing."""
_BYTES_PER_ANSWER, _BYTES_PER_WORD = 300, 60
MOST_COUNTED = 4_000
"""Terms whose numbers of chunks it keeps, 300 bytes each: counting a common word takes 1 ms in
100,000 chunks, and questions have common words in common."""


class _Remembered(threading.local):
    """Answers of a connection about terms since the index was last written."""

    connection: Connection | None = None
    version: tuple[int, int] = (0, 0)
    is_one_state = False
    size_bytes = 0

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.counts: dict[tuple[str, ...], int] = {}

    def of(self, connection: Connection) -> Answers:
        """Return what is known about the index as it is now."""
        if self.is_one_state and connection is self.connection:
            return self.answers
        version = version_of(connection)
        is_same = connection is self.connection and version == self.version
        if not is_same or self.size_bytes > MOST_REMEMBERED_BYTES:
            self.answers, self.size_bytes = {}, 0
        if not is_same or len(self.counts) > MOST_COUNTED:
            self.counts = {}
        self.connection, self.version = connection, version
        return self.answers


_remembered = _Remembered()
answers_of = _remembered.of


def counts_of(connection: Connection) -> dict[tuple[str, ...], int]:
    """Return the numbers of chunks that have any of some phrases, as far as they were counted."""
    _remembered.of(connection)
    return _remembered.counts


@contextmanager
def one_state(connection: Connection) -> Iterator[None]:
    """Read one state of the index in the block, and ask for its version once.

    Statements take SQLite's locks once, not once each.
    """
    with transaction(connection, "DEFERRED"):
        _remembered.of(connection)  # begins the state
        _remembered.is_one_state = True
        try:
            yield
        finally:
            _remembered.is_one_state = False


def version_of(connection: Connection) -> tuple[int, int]:
    """Return a version of the index that is another one after each write."""
    if _remembered.is_one_state and connection is _remembered.connection:
        return _remembered.version
    (others,) = connection.execute("PRAGMA data_version").fetchone()
    return others, connection.total_changes


def once(answers: Answers, ask: Callable[..., T], source: object, *key: Any) -> T:
    """Return what `ask` answers, which it is asked once. `answers` are those of `answers_of`.

    `source` is the connection, or reads from it.
    """
    name = (ask, *key)
    if name not in answers:
        answers[name] = found = ask(source, *key)
        words = len(found) if isinstance(found, tuple) else 0
        _remembered.size_bytes += _BYTES_PER_ANSWER + _BYTES_PER_WORD * words
    kept: T = answers[name]
    return kept


def remembered(connection: Connection, ask: Callable[..., T], *key: Any) -> T:
    """Return what `ask` answers about the index as it is now; it is asked once."""
    return once(_remembered.of(connection), ask, connection, *key)
