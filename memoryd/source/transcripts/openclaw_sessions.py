"""OpenClaw's `sessions.json`: the keys of sessions, and which sessions spawned them.

A session without people has a transcript like any other; only its key tells.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from memoryd.fs.safe_open import RegularFile
from memoryd.source.transcripts.detect import excluded_key

NAME = "sessions.json"
MAX_BYTES = 64 * 1024 * 1024
_CRON = re.compile(r"(?:agent:[^:]*:)?cron:.")
_MAX_GENERATIONS = 20
_TOPIC = "-topic-"
"""Between a session's id and the topic of its chat, in names of transcripts."""


class _Session(msgspec.Struct):
    session_id: Any = msgspec.field(name="sessionId", default=None)
    file: Any = msgspec.field(name="sessionFile", default=None)
    spawned_by: Any = msgspec.field(name="spawnedBy", default=None)
    parent: Any = msgspec.field(name="parentSessionKey", default=None)


class SessionKeys:
    """Reasons why transcripts are left out, as the `sessions.json` beside them says."""

    def __init__(self, base: Callable[[Path], Path]) -> None:
        """Take the function that returns the directory below which no links are allowed."""
        self._base = base
        self._read: dict[Path, tuple[tuple[int, int, int], dict[str, str]]] = {}

    def reason(self, path: Path) -> str | None:
        """Return why a transcript is left out, None if it is not. Blocking."""
        return self._reasons(path.parent).get(_id_of(path.name))

    def _reasons(self, folder: Path) -> dict[str, str]:
        """Return the reasons by session id; those of the last reading while it can't be read."""
        _, before = self._read.get(folder, (None, {}))
        path = folder / NAME
        try:
            with RegularFile(path, self._base(path)) as file:
                stat = os.fstat(file.fileno())
                version = stat.st_mtime_ns, stat.st_size, stat.st_ino
                if folder in self._read and self._read[folder][0] == version:
                    return before
                data = file.read() if stat.st_size <= MAX_BYTES else b"{}"
            found = reasons(msgspec.json.decode(data, type=dict[str, _Session]))
        except FileNotFoundError:
            self._read.pop(folder, None)
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return before
        self._read[folder] = version, found
        return found


def reasons(sessions: dict[str, _Session]) -> dict[str, str]:
    """Return why sessions are left out, by their id. One that people use too is not."""
    found: dict[str, str] = {}
    kept: set[str] = set()
    for key, session in sessions.items():
        why = _why(key, sessions)
        for id_ in (session.session_id, _id_of(session.file)):
            if not isinstance(id_, str) or not id_:
                continue
            if why is None:
                kept.add(id_)
            else:
                found[id_] = why
    return {id_: why for id_, why in found.items() if id_ not in kept}


def _id_of(file: object) -> str:
    return (
        Path(file).name.partition(".jsonl")[0].partition(_TOPIC)[0] if isinstance(file, str) else ""
    )


def _alone(key: str) -> str | None:
    """Return why no person takes part in the session with this key."""
    return excluded_key(key) or ("cron run" if _CRON.match(key) else None)


def _why(key: str, sessions: dict[str, _Session]) -> str | None:
    if own := _alone(key):
        return own
    waiting, seen = [key], {key}
    for _ in range(_MAX_GENERATIONS):
        parents = []
        for child in waiting:
            session = sessions.get(child, _Session())
            for parent in (session.spawned_by, session.parent):
                if not isinstance(parent, str) or parent in seen:
                    continue
                if reason := _alone(parent):
                    return f"session that a {reason} spawned"
                seen.add(parent)
                parents.append(parent)
        waiting = parents
    return None
