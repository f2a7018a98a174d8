"""Corruption of an index's files."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from waiting import eventually

from memoryd_client.errors import UnavailableError

PAGE_BYTES = 4096


def text(dice: random.Random) -> str:
    """Return a note of a few chunks."""
    return "\n".join(f"word{dice.randrange(500)} " * 40 for _ in range(dice.randrange(1, 60)))


def flip(file: Path, dice: random.Random, bits: int) -> None:
    """Flip bits at random positions of a file."""
    with open(file, "r+b") as opened:
        size = opened.seek(0, 2)
        for _ in range(bits):
            at = dice.randrange(size)
            opened.seek(at)
            (byte,) = opened.read(1)
            opened.seek(at)
            opened.write(bytes([byte ^ 1 << dice.randrange(8)]))


def smash(file: Path, dice: random.Random, pages: int) -> None:
    """Overwrite random pages with noise, except for the first."""
    with open(file, "r+b") as opened:
        last = opened.seek(0, 2) // PAGE_BYTES
        for _ in range(pages):
            opened.seek(dice.randrange(1, last) * PAGE_BYTES)
            opened.write(dice.randbytes(PAGE_BYTES))


def smash_root(file: Path, table: str) -> None:
    """Overwrite the root page of a table or an index with noise."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        (page,) = database.execute(query, (table,)).fetchone()
    with open(file, "r+b") as opened:
        opened.seek((page - 1) * PAGE_BYTES)
        opened.write(b"\xa5" * PAGE_BYTES)


def replace(file: Path, old: bytes, new: bytes) -> None:
    """Replace all occurrences of some bytes in a file."""
    data = file.read_bytes()
    assert old in data
    assert len(old) == len(new)
    file.write_bytes(data.replace(old, new))


def patiently(done: Callable[[], bool]) -> None:
    """Repeat until the condition holds; a restarting agent reports that it is unavailable."""

    def ask() -> bool:
        try:
            return done()
        except UnavailableError:
            return False

    eventually(ask)
