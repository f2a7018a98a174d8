"""OpenCode's SQLite store with the tables and columns of OpenCode 1.18.33 that memoryd reads."""

import json
import sqlite3
from pathlib import Path
from typing import Any

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE session (
    id text PRIMARY KEY, project_id text NOT NULL, parent_id text, directory text NOT NULL,
    title text NOT NULL, version text NOT NULL, revert text, time_created integer NOT NULL,
    time_updated integer NOT NULL
);
CREATE TABLE message (
    id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL
);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE TABLE part (
    id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
"""


class OpenCodeWriter:
    """The agent: it adds a message first, and its parts later."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True)
        self.path = path
        self._now_ms = 1_795_983_457_902
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(SCHEMA)

    def begin(self, session: str, parent: str | None = None) -> None:
        """Start a session."""
        row = (session, "global", parent, "/home", "Title", "1.18.33", None, *[self._tick()] * 2)
        self.db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def add(self, session: str, role: str, **info: Any) -> str:
        """Add a message without parts; return its id."""
        now = self._tick()
        name, data = f"msg_{now:x}", {"role": role, "time": {"created": now}} | info
        row = (name, session, now, now, json.dumps(data))
        self.db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        self.db.execute("UPDATE session SET time_updated = ? WHERE id = ?", (now, session))
        return name

    def fill(self, message: str, text: str, **rest: Any) -> None:
        """Add a part to a message, and complete the message."""
        now = self._tick()
        data = json.dumps({"type": "text", "text": text} | rest)
        self.db.execute(
            "INSERT INTO part VALUES (?, ?, 's', ?, ?, ?)",
            (f"prt_{now:x}", message, now, now, data),
        )
        completed = "json_set(data, '$.time.completed', 1)"
        self.db.execute(f"UPDATE message SET data = {completed} WHERE id = ?", (message,))

    def say(self, session: str, text: str, *, role: str = "user", **info: Any) -> str:
        """Add a complete message; return its id."""
        message = self.add(session, role, **info)
        self.fill(message, text)
        return message

    def _tick(self) -> int:
        self._now_ms += 1_000
        return self._now_ms
