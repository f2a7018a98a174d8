"""Sizes in FTS5's own tables: the number of chunks, and their lengths in tokens."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoryd.index.driver import Connection

_AVERAGES_ROW = 1
"""Row of `chunks_fts_data` with the number of chunks and the total length of each column."""
_STEP_ROWS = 20_000
"""Chunks whose lengths are read at once: 0.5 MB."""
LEAST_NUMBER, DIGITS = 10_000_000, 8
"""Number added to others, so that all have as many digits and need no separators."""
MOST_NUMBER = 10 * LEAST_NUMBER - 1
_TENS = 10.0 ** np.arange(DIGITS - 1, -1, -1)


def read_averages(connection: Connection) -> tuple[int, float]:
    """Return the number of chunks and their mean length in tokens."""
    row = connection.execute(
        "SELECT block FROM chunks_fts_data WHERE id = ?", (_AVERAGES_ROW,)
    ).fetchone()
    numbers = varints(row[0]) if row is not None and row[0] else [0]
    chunks = numbers[0]
    return chunks, max(1.0, sum(numbers[1:]) / chunks if chunks else 1.0)


def read_lengths(connection: Connection, rows: Sequence[int]) -> dict[int, int]:
    """Return the lengths of chunks in tokens, including heading and path."""
    sized = connection.execute(
        "SELECT id, sz FROM chunks_fts_docsize WHERE id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(rows).decode(),),
    )
    return {row: length_of(sizes) for row, sizes in sized}


def length_of(sizes: bytes) -> int:
    """Return the length of a chunk in tokens by its `sz`, the varints of its columns' lengths."""
    return sum(varints(sizes))


def read_all_lengths(connection: Connection) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows of all chunks in order, and their lengths in tokens.

    100,000 take 35 ms.
    """
    rows, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    known: dict[bytes, int] = {}
    for ids, sizes in _blocks(connection):
        of_block = sizes.split(b" ")
        known |= {each: length_of(bytes.fromhex(each.decode())) for each in set(of_block)}
        rows.append(parse_numbers(ids))
        lengths.append(np.fromiter(map(known.__getitem__, of_block), np.int32, len(of_block)))
    return np.concatenate(rows), np.concatenate(lengths)


def _blocks(connection: Connection) -> Iterator[tuple[bytes, bytes]]:
    """Yield the ids and the encoded lengths of chunks."""
    after = 0
    while True:
        ids, sizes, last = connection.execute(
            f"SELECT CAST(group_concat({LEAST_NUMBER} + id, '') AS BLOB),"
            " CAST(group_concat(hex(sz), ' ') AS BLOB), max(id) FROM (SELECT id, sz"
            f" FROM chunks_fts_docsize WHERE id > ? ORDER BY id LIMIT {_STEP_ROWS})",
            (after,),
        ).fetchone()
        if last is None:
            return
        yield ids, sizes
        after = last


def parse_numbers(digits: bytes) -> NDArray[np.int64]:
    """Return numbers from their digits, to which `LEAST_NUMBER` was added."""
    values = np.frombuffer(digits, np.uint8).reshape(-1, DIGITS) - np.float64(ord("0"))
    return (values @ _TENS - LEAST_NUMBER).astype(np.int64)


def varints(blob: bytes) -> list[int]:
    """Decode SQLite's varints: 7 bits a byte, most significant first; a ninth byte has 8."""
    numbers: list[int] = []
    value = used = 0
    for byte in blob:
        used += 1
        value = (value << 8 | byte) if used == 9 else (value << 7 | byte & 0x7F)
        if used == 9 or byte < 0x80:
            numbers.append(value)
            value = used = 0
    return numbers
