"""OpenCode's SQLite store, `opencode.db`: sessions, their messages, and the parts of these.

Messages are numbered from 1 in the order of their times. Only text parts are talk; tool calls,
reasoning and injected texts are not. A message that is still being written is not read yet.
"""

import errno
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from memoryd.messages import FileStat
from memoryd.source.transcripts.foreign_sqlite import ForeignDatabase, columns
from memoryd.source.transcripts.format import Message, Record
from memoryd.source.transcripts.records import decoded
from memoryd.source.transcripts.stored import StoredConversation, StoredRecord, lineage
from memoryd.source.transcripts.strip import said

_NEEDED = {
    "session": {"id", "parent_id", "time_updated", "revert"},
    "message": {"id", "session_id", "time_created", "data"},
    "part": {"id", "message_id", "data"},
}
_SESSIONS = """\
SELECT s.id, s.parent_id, s.time_updated, s.revert,
    (SELECT count(*) FROM message AS m WHERE m.session_id = s.id),
    (SELECT max(m.time_created) FROM message AS m WHERE m.session_id = s.id)
FROM session AS s"""
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = """\
SELECT data FROM part WHERE message_id = ?
    AND CASE WHEN json_valid(data) THEN json_extract(data, '$.type') = 'text' END ORDER BY id"""


class _Row(NamedTuple):
    """Row of a session, in the order of the query."""

    id: str
    parent: str | None
    updated_ms: int
    revert: str | None
    messages: int
    last_ms: int | None


class OpenCodeStore:
    """A record is `{"info": …, "parts": […]}`, with the text parts only."""

    format = "opencode"

    def conversations(
        self, connection: ForeignDatabase, before: Mapping[str, StoredConversation]
    ) -> dict[str, StoredConversation]:
        """Return the conversations by id. Those in `before` with the same `token` are reused."""
        for table, needed in _NEEDED.items():
            if missing := needed - columns(connection, table):
                name = f"{table}.{min(missing)}"
                raise OSError(errno.EPROTO, f"a store of an unknown OpenCode: it has no {name}")
        found: dict[str, StoredConversation] = {}
        for row in map(_Row._make, connection.execute(_SESSIONS)):
            known = before.get(row.id)
            # A message grows without a sign in its session until it is complete.
            if known is None or known.token != row or known.stat.size <= row.messages:
                left_out = "" if row.parent is None else "a subagent"
                size = _complete(connection, row) + 1
                stat = FileStat(row.updated_ms * 1_000_000, size, lineage(row.id, left_out))
                known = StoredConversation(row.id, stat, left_out, token=row)
            if row.messages:
                found[row.id] = known
        return found

    def fingerprint(self, connection: ForeignDatabase, name: str, end: int) -> str:
        """Return a digest of the ids of the messages before the number `end`."""
        digest = hashlib.sha256()
        for message, _ in connection.execute(f"{_MESSAGES} LIMIT ?", (name, max(0, end - 1))):
            digest.update(f"{message}\n".encode())
        return digest.hexdigest()

    def records(
        self, connection: ForeignDatabase, path: Path, name: str, start: int
    ) -> Iterator[StoredRecord]:
        """Yield the messages from the number `start` on."""
        skipped = max(0, start - 1)
        rows = connection.execute(f"{_MESSAGES} LIMIT -1 OFFSET ?", (name, skipped))
        for number, (message, data) in enumerate(rows, start=skipped + 1):
            parts = [text for (text,) in connection.execute(_PARTS, (message,))]
            record = f'{{"id":{msgspec.json.encode(message).decode()},"info":{data},"parts":['
            yield StoredRecord(number, f"{record}{','.join(parts)}]}}".encode())

    def message(self, record: Record, conversation: StoredConversation) -> Message | None:
        """Return the message of a record, None if it has none. Never raises."""
        info, parts = record.get("info"), record.get("parts")
        if not isinstance(info, dict) or not isinstance(parts, list) or info.get("summary") is True:
            return None
        times = info.get("time")
        created = times.get("created") if isinstance(times, dict) else None
        return said(info.get("role"), [part for part in parts if _is_talk(part)], created)


def _is_talk(part: Any) -> bool:
    return isinstance(part, dict) and not part.get("synthetic") and not part.get("ignored")


def _complete(connection: ForeignDatabase, row: _Row) -> int:
    """Return the number of leading messages that are complete and were not reverted."""
    revert = decoded(None if row.revert is None else row.revert.encode()) or {}
    messages = connection.execute(_MESSAGES, (row.id,)).fetchall()
    names = [name for name, _ in messages]
    if (first := revert.get("messageID")) in names:
        return names.index(first)
    if messages and not _is_complete(connection, *messages[-1]):
        return len(messages) - 1
    return len(messages)


def _is_complete(connection: ForeignDatabase, name: str, data: str) -> bool:
    """Return whether the last message of a session has all its text."""
    info = decoded(data.encode()) or {}
    if info.get("role") == "assistant":
        times = info.get("time")
        is_done = isinstance(times, dict) and times.get("completed") is not None
        return is_done or info.get("error") is not None
    return connection.execute(_PARTS, (name,)).fetchone() is not None
