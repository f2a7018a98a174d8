"""Conversations in the store of an agent: their description, and the protocol of a store."""

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

import msgspec

from memoryd.messages import FileStat
from memoryd.source.transcripts.foreign_sqlite import ForeignDatabase
from memoryd.source.transcripts.format import Message, Record

STORE_FILES = {"openclaw-agent.sqlite": "openclaw", "opencode.db": "opencode"}
"""Formats by the names of the files that are stores."""


class StoredConversation(NamedTuple):
    """One conversation of a store.

    `stat.size` is the number after that of the last record. `stat.inode` changes if earlier records
    do, for example by a rewind. `left_out` is the reason why it is not read, "" if it is.
    `token` changes with the conversation. `outside`: none of the words are the owner's.
    `chat` is the name of the group or channel, None in a private conversation. `is_over`: it was
    reset, and another one has begun. `chat_type` and `spawned_by` are as in `TranscriptState`.
    """

    id: str
    stat: FileStat
    left_out: str = ""
    outside: bool = False
    chat: str | None = None
    token: tuple[Any, ...] = ()
    is_over: bool = False
    chat_type: str = ""
    spawned_by: tuple[str, ...] = ()


class StoredRecord(NamedTuple):
    """Record of a conversation; `data` is None if it can't be unpacked."""

    number: int
    data: bytes | None


class TranscriptStore(Protocol):
    """Kind of store: a database that holds the conversations of an agent. Stateless.

    Each conversation is a list of records with ascending numbers, of which those of the current
    branch count. All methods are blocking and raise the errors of SQLite; `conversations` also
    raises `OSError` for a store of another version.
    """

    format: str

    def conversations(
        self,
        connection: ForeignDatabase,
        before: Mapping[str, StoredConversation],
    ) -> dict[str, StoredConversation]:
        """Return the conversations by id. Those in `before` with the same `token` are reused."""

    def fingerprint(self, connection: ForeignDatabase, name: str, end: int) -> str:
        """Return a digest of the records before the number `end`, "" if `lineage` has them."""

    def records(
        self, connection: ForeignDatabase, path: Path, name: str, start: int
    ) -> Iterator[StoredRecord]:
        """Yield the records of the conversation with this id, from the number `start` on."""

    def message(self, record: Record, conversation: StoredConversation) -> Message | None:
        """Return the message of a record, None if it has none. Never raises."""


def is_store(path: str) -> bool:
    """Return whether a file with this name is a store."""
    return os.path.basename(path) in STORE_FILES


def is_stored(path: Path) -> bool:
    """Return whether a path is that of a conversation in a store."""
    return path.parent.name in STORE_FILES


def conversation_path(store: Path, name: str) -> Path:
    """Return the path of the conversation with this id in a store."""
    return store / quote(name, safe=" @+=,:;!()~")


def conversation_id(path: Path) -> str:
    """Return the id of the conversation with this path."""
    return unquote(path.name)


class StoredNames:
    """Names of conversations in stores: the format and the quoted id. Any thread may ask.

    If two stores have the same id, the name in the second one also has the store's agent.
    """

    def __init__(self, expected: list[Path]) -> None:
        """Take where stores would be, also on a disk that is missing."""
        self._expected = expected
        self._paths: dict[str, Path] = {}
        self._names: dict[Path, str] = {}
        self._stores: list[Path] = []

    def assign(self, stores: list[Path], conversations: Collection[Path]) -> None:
        """Name the conversations of all stores anew."""
        paths: dict[str, Path] = {}
        for path in conversations:
            start = f"sessions/{STORE_FILES[path.parent.name]}"
            name = f"{start}/{path.name}"
            if name in paths:
                name = f"{start}/{_owner(path.parent)}/{path.name}"
            paths[name] = path
        self._names = {path: name for name, path in paths.items()}
        self._paths, self._stores = paths, stores

    def name(self, path: Path) -> str:
        """Return the name of a conversation."""
        return self._names[path]

    def present_path(self, name: str) -> Path | None:
        """Return the path of a conversation that is in a store."""
        return self._paths.get(name)

    def path(self, name: str) -> Path | None:
        """Return the path of a conversation, also if it is gone; None for other names."""
        if (path := self._paths.get(name)) is not None:
            return path
        parts = name.split("/")
        if len(parts) < 3 or parts[-1].endswith((".jsonl", ".json5")) or ".jsonl." in parts[-1]:
            return None
        # One that is not there may be on a missing disk, so that its conversations are kept.
        absent = [store for store in self._expected if store not in self._stores]
        for store in (*absent, *self._stores):
            is_meant = len(parts) == 3 or (len(parts) == 4 and parts[2] == _owner(store))
            if parts[:2] == ["sessions", STORE_FILES[store.name]] and is_meant:
                return store / parts[-1]
        return None


def _owner(store: Path) -> str:
    """Return the agent of a store in its usual place, or else the name of its directory."""
    return store.parts[-3] if store.parent.name == "agent" else store.parent.name


def lineage(*parts: Any) -> int:
    """Return a number for `FileStat.inode` that stands for these parts."""
    digest = hashlib.sha256(msgspec.json.encode(parts)).digest()
    return int.from_bytes(digest[:8], "big") >> 1
