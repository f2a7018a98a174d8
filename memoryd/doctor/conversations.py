"""Comparison of transcripts with the index, up to the offset that the index has read."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from memoryd.agent.transcripts import Transcripts
from memoryd.doctor.disk import Difference, Differences, IndexedFile, expected, indexed_file
from memoryd.doctor.rows import read
from memoryd.identity import Identity
from memoryd.index.catalog import decode_transcript
from memoryd.index.driver import Connection
from memoryd.index.forget import load_tombstones
from memoryd.index.schema import get_places
from memoryd.messages import FileKey, TranscriptState
from memoryd.source.mounts import Mounts
from memoryd.source.transcripts.format import LeftOutError
from memoryd.source.transcripts.locations import SOURCE
from memoryd.source.transcripts.openclaw_json5 import NAME as STORE


class Conversations:
    """Comparison of an agent's transcripts with its index."""

    def __init__(
        self, connection: Connection, transcripts: Transcripts, identity: Identity
    ) -> None:
        self.files = 0
        self.problems: list[str] = []
        self._connection = connection
        self._transcripts = transcripts
        self._identity = identity

    def compare(self, only: Mapping[FileKey, object] | None = None) -> Differences:
        """Read all transcripts, or `only` these, and return those that differ."""
        self._transcripts.tombstones |= load_tombstones(self._connection)
        found = self._transcripts.find()
        self.files = len(found.files)
        differences: Differences = {}
        for key, (path, _) in found.files.items():
            if only is None or key in only:
                difference = self._examine(key, path)
                if difference is not None:
                    differences[key] = difference
        places = self._transcripts.places
        rows = read(self._connection, "SELECT path FROM files WHERE source = ?", SOURCE)
        indexed = [FileKey(SOURCE, name) for (name,) in rows]
        mounts = Mounts(get_places(self._connection, SOURCE), locate=places.real_path)
        away = mounts.judge(found, indexed).away
        self.problems = list(away.values())
        # The files of a missing folder are unknown: its disk may be unmounted.
        unseen = [*found.unread, *away]
        for key in indexed:
            path = places.real_path(key) or Path("/")
            unknown = key in found.files or any(path.is_relative_to(folder) for folder in unseen)
            if not unknown and (only is None or key in only):
                differences[key] = Difference("gone", path)
        return differences

    def _examine(self, key: FileKey, path: Path) -> Difference | None:
        indexed = indexed_file(self._connection, key)
        try:
            delta = self._transcripts.read(path, None)
        except (FileNotFoundError, LeftOutError):
            return None if indexed is None else Difference("gone", path)
        except OSError as error:
            return Difference("unreadable", path, error.strerror or str(error))
        if indexed is None or (state := _state(indexed)) is None:
            return Difference("new", path)
        now = delta.state
        # A chat in one document has no offset: its hash covers the whole document.
        is_same = (now.format, now.offset, now.head_hash) == (
            state.format,
            state.offset,
            state.head_hash,
        )
        if not is_same or (now.format == STORE and delta.hash != indexed.hash):
            return Difference("changed", path)
        if indexed.chunks != expected(key, delta.chunks, self._identity.model):
            return Difference("wrong", path)
        return None


def _state(indexed: IndexedFile) -> TranscriptState | None:
    try:
        return decode_transcript(indexed.transcript)
    except msgspec.MsgspecError:
        return None  # reported with the index
