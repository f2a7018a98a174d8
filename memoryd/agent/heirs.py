"""Transcripts that hold the conversation of another one, under another name, as archives do."""

from collections.abc import Mapping

from memoryd.index.catalog import FileRow
from memoryd.messages import FileKey, TranscriptState
from memoryd.source.transcripts.kept import KeptCopies
from memoryd.source.transcripts.locations import Found
from memoryd.source.transcripts.stored import is_stored


class Heirs:
    """Transcripts on disk that hold the conversation of another one, under another name."""

    def __init__(
        self, rows: Mapping[FileKey, FileRow], found: Found, copies: KeptCopies, *, unread: bool
    ) -> None:
        """Take the transcripts that were read, and with `unread` renamed ones that were not."""
        self._ends: dict[tuple[str, ...], int] = {}
        self._stored: dict[tuple[str, ...], int] = {}
        for key, (path, stat) in found.files.items():
            row = rows.get(key)
            if copies.holds(path):
                continue
            if row is not None and row.transcript is not None:
                for mark in _marks(key, row.transcript):
                    if is_stored(path):  # it counts records, not bytes
                        self._stored[mark] = row.transcript.messages
                        continue
                    self._ends[mark] = max(row.transcript.offset, self._ends.get(mark, 0))
            elif unread:
                self._ends[_stem(key), str(stat.inode)] = stat.size

    def of(self, key: FileKey, state: TranscriptState) -> bool:
        """Return whether another transcript has all of this one."""
        return any(
            self._ends.get(mark, -1) >= state.offset or self._stored.get(mark, -1) >= state.messages
            for mark in _marks(key, state)
        )


def _marks(key: FileKey, state: TranscriptState) -> list[tuple[str, ...]]:
    """Return the marks of a conversation: equal ones are of the same conversation."""
    stem = _stem(key)
    marks: list[tuple[str, ...]] = [(stem, str(state.inode & (2**63 - 1)))]
    if state.session:
        marks.append((stem, "session", state.session))
    if state.head_bytes:
        marks.append((state.session or stem, "head", str(state.head_bytes), state.head_hash))
    return marks


def _stem(key: FileKey) -> str:
    """Return the name of a transcript's file without the suffix of an archive."""
    return key.path.rpartition("/")[2].partition(".jsonl")[0]
