"""OpenClaw's SQLite store with the tables and columns that the real agent writes.

As seen in stores of OpenClaw 2026.9.6, schema version 23. Columns that memoryd does not read are
left out, and so are checks, triggers and indexes.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

import zstandard

SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA user_version = 23;
CREATE TABLE schema_meta (
    meta_key TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, schema_version INTEGER NOT NULL,
    agent_id TEXT, app_version TEXT
) STRICT;
INSERT INTO schema_meta VALUES ('primary', 'agent', 23, 'main', '2026.9.6');
CREATE TABLE conversations (
    conversation_id TEXT NOT NULL PRIMARY KEY, channel TEXT NOT NULL, kind TEXT NOT NULL,
    peer_id TEXT NOT NULL, label TEXT
) STRICT;
CREATE TABLE session_nodes (
    session_key TEXT NOT NULL PRIMARY KEY, current_session_id TEXT NOT NULL, created_via TEXT,
    created_actor_type TEXT, parent_session_key TEXT, spawned_by TEXT, label TEXT,
    display_name TEXT, archived_at INTEGER
) STRICT;
CREATE TABLE session_windows (
    session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL, previous_session_id TEXT,
    reason TEXT, session_scope TEXT NOT NULL DEFAULT 'conversation', created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, transcript_updated_at INTEGER, hook_external_content_source TEXT,
    started_at INTEGER, ended_at INTEGER, status TEXT, chat_type TEXT, channel TEXT,
    primary_conversation_id TEXT, parent_session_key TEXT, spawned_by TEXT, display_name TEXT,
    FOREIGN KEY (session_key) REFERENCES session_nodes(session_key) ON DELETE CASCADE
) STRICT;
CREATE TABLE transcript_events (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL,
    event_zstd BLOB, event_utf8_bytes INTEGER, navigation_json TEXT,
    PRIMARY KEY (session_id, seq),
    FOREIGN KEY (session_id) REFERENCES session_windows(session_id) ON DELETE CASCADE
) STRICT;
CREATE TABLE transcript_event_identities (
    session_id TEXT NOT NULL, event_id TEXT NOT NULL, seq INTEGER NOT NULL, event_type TEXT,
    parent_id TEXT, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, event_id),
    FOREIGN KEY (session_id, seq) REFERENCES transcript_events(session_id, seq) ON DELETE CASCADE
) STRICT;
CREATE TABLE session_transcript_active_events (
    session_id TEXT NOT NULL, active_position INTEGER NOT NULL, event_seq INTEGER NOT NULL,
    message_position INTEGER, context_eligible INTEGER, PRIMARY KEY (session_id, active_position),
    FOREIGN KEY (session_id, event_seq) REFERENCES transcript_events(session_id, seq)
        ON DELETE CASCADE
) STRICT;
CREATE UNIQUE INDEX idx_agent_transcript_active_event_seq
    ON session_transcript_active_events (session_id, event_seq);
CREATE TABLE transcript_rewrite_watermarks (
    session_id TEXT NOT NULL PRIMARY KEY, generation TEXT NOT NULL, updated_at INTEGER NOT NULL,
    FOREIGN KEY (session_id) REFERENCES session_windows(session_id) ON DELETE CASCADE
) STRICT;
CREATE TABLE session_transcript_archives (
    session_id TEXT NOT NULL, generation TEXT NOT NULL, session_key TEXT NOT NULL,
    reason TEXT NOT NULL, encoding TEXT NOT NULL, archive_blob BLOB NOT NULL,
    archive_sha256 TEXT NOT NULL, archive_name TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL,
    published_at INTEGER, PRIMARY KEY (session_id, generation)
) STRICT;
CREATE TABLE session_transcript_cold_archives (
    session_id TEXT NOT NULL PRIMARY KEY, generation TEXT NOT NULL,
    archive_name TEXT NOT NULL UNIQUE, archive_sha256 TEXT NOT NULL, event_count INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL, archive_bytes INTEGER NOT NULL, last_seq INTEGER NOT NULL,
    archived_at INTEGER NOT NULL, storage TEXT NOT NULL, archive_blob BLOB,
    FOREIGN KEY (session_id) REFERENCES session_windows(session_id) ON DELETE CASCADE
) STRICT;
CREATE TABLE memory_session_tombstones (
    session_id TEXT NOT NULL PRIMARY KEY, agent_id TEXT NOT NULL, reason TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
"""
START_MS = 1_795_980_000_000
"""29 November 2026."""


class OpenClawWriter:
    """The agent: a connection to its store that stays open, as the real one's does."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._now_ms = START_MS
        self._tips: dict[str, str] = {}
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(SCHEMA if path.stat().st_size == 0 else "")
        self.db.execute("PRAGMA foreign_keys = ON")

    def close(self) -> None:
        """End as the agent does: the log is merged into the database and removed."""
        self.db.close()

    def begin(self, session: str, key: str = "", node: Any = None, **window: Any) -> None:
        """Start a session: its rows, and the header."""
        key = key or f"agent:main:explicit:{session}"
        columns = {"session_key": key, "current_session_id": session} | (node or {})
        self._insert("session_nodes", columns, "OR REPLACE" if node else "OR IGNORE")
        now = self._tick()
        columns = {"session_id": session, "session_key": key, "created_at": now, "updated_at": now}
        self._insert("session_windows", columns | window)
        self._insert(
            "transcript_rewrite_watermarks",
            {"session_id": session, "generation": f"{now:032x}", "updated_at": now},
        )
        self._add(session, {"type": "session", "version": 4, "id": session}, active=False)

    def say(
        self,
        session: str,
        text: str,
        *,
        role: str = "user",
        packed: bool = False,
        active: bool = True,
        owner: bool | None = True,
    ) -> int:
        """Append a message; return its number."""
        message: dict[str, Any] = {"role": role, "content": text, "timestamp": self._now_ms}
        if role == "user" and owner is not None:
            message["__openclaw"] = {"senderIsOwner": owner}
        event = {"type": "message", "message": message}
        return self._add(session, event, active=active, packed=packed)

    def add(self, session: str, event: dict[str, Any], *, active: bool = True) -> int:
        """Append any other event; return its number."""
        return self._add(session, event, active=active)

    def abandon(self, session: str, first: int) -> None:
        """Take the events from a number on out of the current branch."""
        query = (
            "DELETE FROM session_transcript_active_events WHERE session_id = ? AND event_seq >= ?"
        )
        self.db.execute(query, (session, first))
        self._tips[session] = f"{session}-{first - 1}"
        self._touch(session)

    def rewind(self, session: str, first: int, copy: str) -> None:
        """Rewind as the agent does: copy the conversation, without the events from a number on."""
        (key,) = self.db.execute(
            "SELECT session_key FROM session_windows WHERE session_id = ?", (session,)
        ).fetchone()
        self.begin(copy, key, previous_session_id=session)
        events = self.db.execute(
            "SELECT event_json FROM transcript_events WHERE session_id = ? AND seq > 0"
            " ORDER BY seq",
            (session,),
        ).fetchall()
        for number, (event,) in enumerate(events, start=1):
            self._add(copy, json.loads(event), active=number < first)
        self._add(copy, {"type": "leaf"}, active=False)

    def delete(self, session: str, *, packed: bool = True, reason: str = "deleted") -> None:
        """Delete a session as the agent does: only its archive stays."""
        data = b"".join(event.encode() + b"\n" for _, event in self._events(session))
        key, generation = self.db.execute(
            "SELECT session_key, generation FROM session_windows"
            " JOIN transcript_rewrite_watermarks USING (session_id) WHERE session_id = ?",
            (session,),
        ).fetchone()
        row = {
            "session_id": session,
            "generation": generation,
            "session_key": key,
            "reason": reason,
            "encoding": "zstd" if packed else "identity",
            "archive_blob": zstandard.compress(data) if packed else data,
            "archive_sha256": "0" * 64,
            "archive_name": f"{session}.jsonl.{reason}.{generation}",
            "created_at": self._tick(),
        }
        self._insert("session_transcript_archives", row)
        self.db.execute("DELETE FROM session_windows WHERE session_id = ?", (session,))

    def cool(self, session: str, *, in_file: bool) -> None:
        """Pack a session that nobody has used for long as the agent does."""
        (generation,) = self.db.execute(
            "SELECT generation FROM transcript_rewrite_watermarks WHERE session_id = ?", (session,)
        ).fetchone()
        events = self._events(session)
        active = self.db.execute(
            "SELECT active_position, event_seq FROM session_transcript_active_events"
            " WHERE session_id = ?",
            (session,),
        ).fetchall()
        lines = [
            {"kind": "header", "sessionId": session, "generation": generation},
            *(
                {"kind": "event", "row": {"seq": number, "event_json": event}}
                for number, event in events
            ),
            *(
                {"kind": "active", "row": {"active_position": position, "event_seq": number}}
                for position, number in active
            ),
        ]
        data = zstandard.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
        name = f"{session}.jsonl.zst"
        row = {
            "session_id": session,
            "generation": generation,
            "archive_name": name,
            "archive_sha256": "0" * 64,
            "event_count": len(events),
            "raw_bytes": len(data),
            "archive_bytes": len(data),
            "last_seq": events[-1][0],
            "archived_at": self._tick(),
            "storage": "file" if in_file else "sqlite",
            "archive_blob": None if in_file else data,
        }
        if in_file:
            folder = self.path.parents[1] / "sessions/cold"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        self._insert("session_transcript_cold_archives", row)
        self.db.execute("DELETE FROM transcript_events WHERE session_id = ?", (session,))

    def forget(self, session: str) -> None:
        """Forget a session in the agent's memory."""
        row = {"session_id": session, "agent_id": "main", "reason": "user"}
        self._insert("memory_session_tombstones", row | {"created_at": self._tick()})

    def _events(self, session: str) -> list[tuple[int, str]]:
        rows = self.db.execute(
            "SELECT seq, event_json, event_zstd FROM transcript_events WHERE session_id = ?"
            " ORDER BY seq",
            (session,),
        )
        return [
            (number, zstandard.decompress(packed).decode() if event is None else event)
            for number, event, packed in rows
        ]

    def _add(
        self, session: str, event: dict[str, Any], *, active: bool, packed: bool = False
    ) -> int:
        now = self._touch(session)
        (number,) = self.db.execute(
            "SELECT coalesce(max(seq) + 1, 0) FROM transcript_events WHERE session_id = ?",
            (session,),
        ).fetchone()
        name = event.get("id", f"{session}-{number}")
        parent = self._tips.get(session)
        text = json.dumps({"id": name, "parentId": parent} | event, ensure_ascii=False)
        if active:
            self._tips[session] = name
        data = text.encode()
        row = {"session_id": session, "seq": number, "created_at": now}
        row |= (
            {"event_zstd": zstandard.compress(data), "event_utf8_bytes": len(data)}
            if packed
            else {"event_json": text}
        )
        self.db.execute("BEGIN IMMEDIATE")
        self._insert("transcript_events", row)
        identity = {"session_id": session, "event_id": name, "seq": number, "created_at": now}
        self._insert("transcript_event_identities", identity)
        if active:
            (position,) = self.db.execute(
                "SELECT coalesce(max(active_position) + 1, 0)"
                " FROM session_transcript_active_events WHERE session_id = ?",
                (session,),
            ).fetchone()
            place = {"session_id": session, "active_position": position, "event_seq": number}
            self._insert("session_transcript_active_events", place)
        self.db.execute("COMMIT")
        return int(number)

    def _insert(self, table: str, row: dict[str, Any], how: str = "") -> None:
        marks = ", ".join("?" * len(row))
        query = f"INSERT {how} INTO {table} ({', '.join(row)}) VALUES ({marks})"
        self.db.execute(query, tuple(row.values()))

    def _tick(self) -> int:
        self._now_ms += 1_000
        return self._now_ms

    def _touch(self, session: str) -> int:
        now = self._tick()
        query = "UPDATE session_windows SET transcript_updated_at = ? WHERE session_id = ?"
        self.db.execute(query, (now, session))
        return now
