"""The `files` table in memory, to compare a scan with the index without querying SQLite."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern

import msgspec

from memoryd.index.driver import Connection
from memoryd.messages import NO_FACTS, FileFacts, FileKey, FileStat, TranscriptState
from memoryd.text.front_matter import Properties, names, searched
from memoryd.text.normal_form import composed
from memoryd.text.titles import file_key, title_key


@dataclass(frozen=True, slots=True)
class FileRow:
    """One indexed file: its row, SHA-256, quick-check stat, number of chunks, remarks and facts.

    `transcript` is the read position in a transcript, None for any other file.
    """

    file_id: int
    hash: str
    stat: FileStat
    chunks: int
    remarks: tuple[str, ...] = ()
    transcript: TranscriptState | None = None
    facts: FileFacts = NO_FACTS


class Catalog:
    """Indexed files by key. Only the writer changes it, after its transaction has committed.

    `version` grows with every change.
    """

    def __init__(self, rows: dict[FileKey, FileRow]) -> None:
        self._rows = rows
        self._titled: dict[str, FileKey | dict[FileKey, None]] = {}
        """Most titles have one file; a dict for each would take 0.5 KiB a file."""
        self._properties = Counter[str]()
        self._sources = Counter(key.source for key in rows)
        self.chunks = sum(row.chunks for row in rows.values())
        self.version = 0
        for key, row in rows.items():
            self._add_facts(key, row)

    @property
    def rows(self) -> Mapping[FileKey, FileRow]:
        """All files; a live view."""
        return self._rows

    def put(self, key: FileKey, row: FileRow) -> None:
        """Add or replace a file."""
        self.remove(key)
        self._rows[key] = row
        self._sources[key.source] += 1
        self._add_facts(key, row)
        self.chunks += row.chunks
        self.version += 1

    def remove(self, key: FileKey) -> None:
        """Remove a file if it is there."""
        row = self._rows.pop(key, None)
        self.version += 1
        self.chunks -= 0 if row is None else row.chunks
        if row is not None:
            self._properties.subtract(row.facts.properties.keys())
            self._sources[key.source] -= 1
        for title in () if row is None else title_keys(key.path, row.facts):
            files = self._titled.get(title)
            if isinstance(files, dict):
                files.pop(key, None)
            if not files or files == key:
                self._titled.pop(title, None)

    def titled(self, title: str) -> list[FileKey]:
        """Return the files with a title, given as `title_key` returns it."""
        files = self._titled.get(title, {})
        return list(files) if isinstance(files, dict) else [files]

    def spelled(self, path: str) -> str | None:
        """Return the path of a file as it is indexed, given in any normal form of Unicode.

        The exact one wins. None if there is no such file.
        """
        wanted, found = composed(path), None
        for key in self._rows:
            if key.path == path:
                return path
            if found is None and composed(key.path) == wanted:
                found = key.path
        return found

    def has_property(self, name: str) -> bool:
        """Return whether some file has a property, given in lower case."""
        return self._properties[name] > 0

    def has_source(self, source: str) -> bool:
        """Return whether some file is of a source."""
        return self._sources[source] > 0

    def _add_facts(self, key: FileKey, row: FileRow) -> None:
        self._properties.update(row.facts.properties.keys())
        for title in title_keys(key.path, row.facts):
            files = self._titled.setdefault(title, key)
            if isinstance(files, dict):
                files[key] = None
            elif files != key:
                self._titled[title] = {files: None, key: None}

    def stats(self, *, without: str | None = None) -> dict[FileKey, FileStat]:
        """Return the stats to compare, `without` those of one source. Any thread may ask."""
        return {key: row.stat for key, row in self.copy().items() if key.source != without}

    def copy(self) -> dict[FileKey, FileRow]:
        """Return a copy of all files. Thread-safe."""
        return self._rows.copy()  # atomic under the GIL

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return (files, chunks) by source."""
        counts: dict[str, tuple[int, int]] = {}
        for key, row in self._rows.items():
            files, chunks = counts.get(key.source, (0, 0))
            counts[key.source] = files + 1, chunks + row.chunks
        return counts


def title_keys(path: str, facts: FileFacts) -> set[str]:
    """Return the keys of a file's titles: of its name, its title and its aliases."""
    titles = {title_key(title) for title in (facts.title, *names(facts.properties))}
    return (titles | {file_key(path.rpartition("/")[2])}) - {""}


def encode_remarks(remarks: tuple[str, ...]) -> str:
    """Return remarks as the `files` table stores them: a JSON array."""
    return msgspec.json.encode(remarks).decode()


def decode_remarks(encoded: str) -> tuple[str, ...]:
    """Return the remarks in a row of the `files` table."""
    return msgspec.json.decode(encoded, type=tuple[str, ...])


def encode_transcript(state: TranscriptState | None) -> str | None:
    """Return a state as the `files` table stores it: a JSON object, NULL for none."""
    return None if state is None else msgspec.json.encode(state).decode()


def decode_transcript(encoded: str | None) -> TranscriptState | None:
    """Return the state in a row of the `files` table."""
    return None if encoded is None else msgspec.json.decode(encoded, type=TranscriptState)


def encode_properties(properties: Properties) -> str:
    """Return properties as the `files` table stores them: a JSON object of arrays."""
    return msgspec.json.encode(properties).decode()


def decode_properties(encoded: str) -> Properties:
    """Return the properties in a row of the `files` table."""
    return NO_FACTS.properties if encoded == "{}" else msgspec.json.decode(encoded, type=Properties)


@lru_cache(maxsize=256)
def named(encoded: str) -> str:
    """Return the stored properties of a file that are searched with each of its chunks."""
    return searched(decode_properties(encoded))


def load_catalog(connection: Connection) -> dict[FileKey, FileRow]:
    """Read the `files` table."""
    found = connection.execute(
        "SELECT source, path, files.file_id, files.hash, mtime_ns, size, inode, ctime_ns, remarks,"
        " transcript, title, date, properties, count(row_id)"
        " FROM files LEFT JOIN chunks USING (file_id) GROUP BY files.file_id"
    )
    return {
        FileKey(intern(row[0]), row[1]): FileRow(
            file_id=row[2],
            hash=row[3],
            stat=FileStat(*row[4:8]),
            chunks=row[13],
            remarks=decode_remarks(row[8]),
            transcript=decode_transcript(row[9]),
            facts=FileFacts(row[10], row[11], decode_properties(row[12])),
        )
        for row in found
    }
