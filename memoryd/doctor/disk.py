"""Comparison of the notes on disk with the index, file by file."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from memoryd.chunk.parser import ChunkOptions, parse
from memoryd.doctor.rows import read
from memoryd.identity import Identity
from memoryd.index.driver import Connection
from memoryd.index.schema import get_places
from memoryd.index.statements import chunk_id, text_hash
from memoryd.messages import Chunk, FileChanged, FileContent, FileGone, FileKey, Unreadable
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import SOURCE as NOTES
from memoryd.source.notes.discover import Discovery
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd.text.voice import without_days

What = Literal["new", "changed", "gone", "wrong", "unreadable"]


class Difference(NamedTuple):
    """A difference of one file. `wrong`: the indexed chunks do not match its content."""

    what: What
    path: Path
    reason: str = ""


Differences = dict[FileKey, Difference]


class IndexedFile(NamedTuple):
    """A file in the index: its hash, the transcript's state, and its chunks by id.

    A chunk is (heading, origin, voices): what may differ if the id is the same.
    """

    hash: str
    transcript: str | None
    chunks: dict[str, tuple[str, str, str]]


class Notes:
    """Comparison of a workspace's notes with its index."""

    def __init__(
        self,
        connection: Connection,
        discovery: Discovery,
        identity: Identity,
        read_file: Callable[[Path], FileContent],
        *,
        with_transcripts: bool,
    ) -> None:
        """Leave out transcripts if `with_transcripts`: `Conversations` compares them."""
        self.files = 0
        self.folders = 0
        self.problems: list[str] = []
        self._connection = connection
        self._discovery = discovery
        self._identity = identity
        self._read = read_file
        self._options = ChunkOptions(
            identity.chunk_tokens, identity.chunk_overlap, identity.max_input_bytes
        )
        self._with_transcripts = with_transcripts

    def compare(self, only: Mapping[FileKey, object] | None = None) -> Differences:
        """Read all files, or `only` these, and return those that differ."""
        scan = self._discovery.scan()
        self.files, self.folders = len(scan.stats), len(scan.folders)
        indexed = list(self._indexed())
        away = _mounts(self._connection, self._discovery).judge(scan, indexed).away
        self.problems = [*scan.problems(), *away.values()]
        unseen = [*scan.unread, *away]
        found: Differences = {}
        for key in scan.stats:
            path = self._discovery.real_path(key)
            if only is None or key in only:
                difference = self._examine(key, path)
                if difference is not None:
                    found[key] = difference
        for key in indexed:
            path = self._discovery.real_path(key)
            hidden = any(path.is_relative_to(folder) for folder in unseen)
            if key not in scan.stats and not hidden and (only is None or key in only):
                found[key] = Difference("gone", path)
        return found

    def _examine(self, key: FileKey, path: Path) -> Difference | None:
        parsed = parse(FileChanged(key, path), self._read, self._options)
        indexed = indexed_file(self._connection, key)
        match parsed:
            case FileGone():
                return None if indexed is None else Difference("gone", path)
            case Unreadable(reason=reason):
                return Difference("unreadable", path, reason)
        if indexed is None:
            return Difference("new", path)
        if indexed.hash != parsed.hash:
            return Difference("changed", path)
        if is_wrong(key, indexed, parsed.chunks, self._identity):
            return Difference("wrong", path)
        return None

    def _indexed(self) -> Iterator[FileKey]:
        for source, path in read(self._connection, "SELECT source, path FROM files"):
            if not (self._with_transcripts and source == SESSIONS):
                yield FileKey(source, path)


def _mounts(connection: Connection, discovery: Discovery) -> Mounts:
    """Return the mounts that the index recorded for the notes."""
    recorded = get_places(connection, NOTES)
    return Mounts(recorded, locate=discovery.real_path, workspace=discovery.workspace)


def indexed_file(connection: Connection, key: FileKey) -> IndexedFile | None:
    """Return one file from the index in a single statement, None if it is not indexed."""
    rows = connection.execute(
        "SELECT files.hash, transcript, id, heading, origin, voices"
        " FROM files LEFT JOIN chunks USING (file_id) WHERE path = ? AND source = ?",
        (key.path, key.source),
    ).fetchall()
    if not rows:
        return None
    chunks = {
        id_: (heading, origin, without_days(voices))
        for _, _, id_, heading, origin, voices in rows
        if id_ is not None
    }
    return IndexedFile(rows[0][0], rows[0][1], chunks)


def is_wrong(key: FileKey, indexed: IndexedFile, chunks: list[Chunk], identity: Identity) -> bool:
    """Return whether the indexed chunks of a file are not those that it should have."""
    return not identity.mixed_chunks and indexed.chunks != _expected(key, chunks, identity.model)


def _expected(key: FileKey, chunks: list[Chunk], model: str) -> dict[str, tuple[str, str, str]]:
    """Return a file's chunks as `IndexedFile` has them; an id covers lines and text."""
    return {
        chunk_id(key, chunk, text_hash(chunk.text), model): (
            chunk.heading,
            str(chunk.origin),
            without_days(chunk.voices),
        )
        for chunk in reversed(chunks)  # the first of equal ids wins
    }


def changed_since(path: Path, moment_ns: int) -> bool:
    """Return whether a file or its folder may have changed since a moment."""
    for place in (path, *path.parents):
        try:
            found = os.lstat(place)
        except OSError:
            continue
        return max(found.st_ctime_ns, found.st_mtime_ns) >= moment_ns
    return False
