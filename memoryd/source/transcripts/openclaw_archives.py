"""Conversations that OpenClaw's store has packed: deleted or reset ones, and cold ones.

An archive has the events of a conversation, one a line, and a cold archive also the numbers of its
current branch: `{"kind": "event", "row": {"seq", "event_json", …}}`, `{"kind": "active", …}`.
"""

import errno
import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from memoryd.fs.hang import tick
from memoryd.fs.safe_open import RegularFile
from memoryd.source.transcripts.archive import MAX_UNPACKED_BYTES, MAX_WINDOW_BYTES
from memoryd.source.transcripts.branch import current_branch
from memoryd.source.transcripts.foreign_sqlite import ForeignDatabase, columns
from memoryd.source.transcripts.records import decoded
from memoryd.source.transcripts.stored import StoredRecord

ARCHIVES = "session_transcript_archives"
COLD = "session_transcript_cold_archives"


class Archive(NamedTuple):
    """Row of an archive. `name` is that of its conversation."""

    rowid: int
    session_id: str
    generation: str
    key: str
    encoding: str
    created_at: int
    reason: str
    name: str


def archives(connection: ForeignDatabase) -> list[Archive]:
    """Return the archives. The newest of a session that is gone has the session's name."""
    there = columns(connection, ARCHIVES)
    if not {"archive_blob", "generation"} <= there:
        return []
    reason = "reason" if "reason" in there else "''"
    rows = connection.execute(
        f"SELECT rowid, session_id, generation, session_key, encoding, created_at, {reason}"
        f" FROM {ARCHIVES} ORDER BY created_at DESC, generation"
    ).fetchall()
    present = connection.execute(
        "SELECT session_id FROM session_windows WHERE session_id IN"
        f" (SELECT session_id FROM {ARCHIVES})"
    )
    taken = {session_id for (session_id,) in present}
    found = []
    for rowid, session_id, generation, key, encoding, created_at, why in rows:
        name = f"{session_id}.{generation}" if session_id in taken else session_id
        taken.add(session_id)
        archive = Archive(rowid, session_id, generation, key, encoding, created_at, why, name)
        found.append(archive)
    return found


class Branch(NamedTuple):
    """Number of the last event of the current branch, and the earlier numbers outside of it."""

    last: int
    abandoned: list[int]


def branch_of(connection: ForeignDatabase, archive: Archive) -> Branch:
    """Return the current branch of an archived conversation. Raises `OSError`."""
    active = _active(_archived(connection, archive))
    last = max(active, default=0)
    return Branch(last, sorted(set(range(1, last + 1)) - active))


def archived_records(
    connection: ForeignDatabase, archive: Archive, start: int
) -> Iterator[StoredRecord]:
    """Yield the events of the current branch of an archive. Raises `OSError`."""
    active = _active(_archived(connection, archive))
    for record in _archived(connection, archive):
        if record.number >= start and record.number in active:
            yield record


def cold_records(
    connection: ForeignDatabase, store: Path, session_id: str, start: int
) -> Iterator[StoredRecord]:
    """Yield the events of the current branch of a cold conversation, none if it is not cold."""
    row = connection.execute(
        f"SELECT rowid, storage, archive_name FROM {COLD} WHERE session_id = ?", (session_id,)
    ).fetchone()
    if row is None:
        return
    events: dict[int, bytes | None] = {}
    active: set[int] = set()
    for line in _cold_lines(connection, store, *row):
        kind, values = line.get("kind"), line.get("row")
        if not isinstance(values, dict):
            continue
        number = values.get("seq" if kind == "event" else "event_seq")
        if kind == "active" and isinstance(number, int):
            active.add(number)
        elif kind == "event" and isinstance(number, int) and number >= start:
            text = values.get("event_json")
            events[number] = text.encode() if isinstance(text, str) else None
    for number in sorted(events):
        if not active or number in active:
            yield StoredRecord(number, events[number])


def _active(records: Iterator[StoredRecord]) -> set[int]:
    """Return the numbers of the current branch."""
    return current_branch((number, decoded(data)) for number, data in records)[0]


def _archived(connection: ForeignDatabase, archive: Archive) -> Iterator[StoredRecord]:
    with closing(
        connection.blobopen(ARCHIVES, "archive_blob", archive.rowid, readonly=True)
    ) as blob:
        file = cast(BinaryIO, blob)
        for number, line in enumerate(_lines(file, packed=archive.encoding == "zstd")):
            yield StoredRecord(number, line)


def _cold_lines(
    connection: ForeignDatabase, store: Path, rowid: int, storage: str, name: str
) -> Iterator[dict[str, Any]]:
    with _cold_file(connection, store, rowid, storage, name) as file:
        for line in _lines(file, packed=True):
            found = decoded(line)
            if found is not None:
                yield found


@contextmanager
def _cold_file(
    connection: ForeignDatabase, store: Path, rowid: int, storage: str, name: str
) -> Iterator[BinaryIO]:
    if storage == "sqlite":
        with closing(connection.blobopen(COLD, "archive_blob", rowid, readonly=True)) as blob:
            yield cast(BinaryIO, blob)
        return
    if "/" in name or name in (".", ".."):
        raise OSError(errno.EILSEQ, "its cold archive has no valid name")
    is_usual = store.parent.name == "agent"
    folder = store.parent.parent if is_usual else store.parent
    path = folder / ("sessions/cold" if is_usual else "cold") / name
    try:
        with RegularFile(path, folder) as file:
            yield cast(BinaryIO, file)
    except FileNotFoundError as error:
        raise OSError(errno.EIO, f"its cold archive is missing: {path}") from error


def _lines(file: BinaryIO, *, packed: bool) -> Iterator[bytes]:
    import zstandard  # takes memory, so only when needed

    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    reader: Any = unpacker.stream_reader(file, closefd=False, read_across_frames=True)
    size = 0
    try:
        for line in io.BufferedReader(reader) if packed else _unpacked_lines(file):
            tick()
            size += len(line)
            if size > MAX_UNPACKED_BYTES:
                raise OSError(errno.EFBIG, "larger than 1 GiB after unpacking")
            yield line.removesuffix(b"\n")
    except zstandard.ZstdError as error:
        raise OSError(errno.EILSEQ, f"can't be unpacked: {error}") from error


def _unpacked_lines(file: BinaryIO) -> Iterator[bytes]:
    yield from io.BytesIO(file.read())
