"""OpenClaw's `sessions.json`: the keys and labels of sessions, and which sessions spawned them.

A session without people has a transcript like any other; only its key tells.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from memoryd.fs.safe_open import RegularFile
from memoryd.source.transcripts.detect import excluded_key
from memoryd.source.transcripts.format import CHANNEL, DIRECT, GROUP, chat_type_of

NAME = "sessions.json"
MAX_BYTES = 64 * 1024 * 1024
_CRON = re.compile(r"(?:agent:[^:]*:)?cron:.")
_MAX_GENERATIONS = 20
_KINDS = {"direct": DIRECT, "dm": DIRECT, "group": GROUP, "channel": CHANNEL}
"""Parts of keys that name the kind of a chat, as in `agent:main:telegram:group:-100`."""
_TOPIC = "-topic-"
"""Between a session's id and the topic of its chat, in names of transcripts."""


class KeyedSession(msgspec.Struct):
    """Entry of a session: its id and file, and the keys of the sessions that it comes from."""

    session_id: Any = msgspec.field(name="sessionId", default=None)
    file: Any = msgspec.field(name="sessionFile", default=None)
    spawned_by: Any = msgspec.field(name="spawnedBy", default=None)
    parent: Any = msgspec.field(name="parentSessionKey", default=None)
    label: Any = None
    subject: Any = None
    chat_type: Any = msgspec.field(name="chatType", default=None)


class SessionFacts(NamedTuple):
    """Facts about a session. `reason`: why its transcript is left out, None if it is not.

    `label` is the name that a person gave it, or else the subject of its group. `chat_type` and
    `spawned_by` are as in `TranscriptState`.
    """

    reason: str | None = None
    label: str = ""
    chat_type: str = ""
    spawned_by: tuple[str, ...] = ()


UNKNOWN_SESSION = SessionFacts()


class SessionKeys:
    """Facts about the sessions of transcripts, as the `sessions.json` beside them says."""

    def __init__(self, base: Callable[[Path], Path]) -> None:
        """Take the function that returns the directory below which no links are allowed."""
        self._base = base
        self._read: dict[Path, tuple[tuple[int, int, int], dict[str, SessionFacts]]] = {}

    def facts(self, path: Path) -> SessionFacts:
        """Return what is known about the session of a transcript. Blocking."""
        return self._of_folder(path.parent).get(_id_of(path.name), UNKNOWN_SESSION)

    def has(self, path: Path) -> bool:
        """Return whether `sessions.json` lists the session of a transcript. Blocking."""
        return _id_of(path.name) in self._of_folder(path.parent)

    def _of_folder(self, folder: Path) -> dict[str, SessionFacts]:
        """Return the facts by session id; those of the last reading while it can't be read."""
        _, before = self._read.get(folder, (None, {}))
        path = folder / NAME
        try:
            with RegularFile(path, self._base(path)) as file:
                stat = os.fstat(file.fileno())
                version = stat.st_mtime_ns, stat.st_size, stat.st_ino
                if folder in self._read and self._read[folder][0] == version:
                    return before
                data = file.read() if stat.st_size <= MAX_BYTES else b"{}"
            found = session_facts(msgspec.json.decode(data, type=dict[str, KeyedSession]))
        except FileNotFoundError:
            self._read.pop(folder, None)
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return before
        self._read[folder] = version, found
        return found


def session_facts(sessions: Mapping[str, KeyedSession]) -> dict[str, SessionFacts]:
    """Return the facts about sessions by their id. One that people use too is not left out."""
    found: dict[str, SessionFacts] = {}
    for key, session in sessions.items():
        own = SessionFacts(
            why_without_people(key, sessions),
            _label(session),
            kind_of_chat(key, session),
            names_above(key, sessions),
        )
        for id_ in (session.session_id, _id_of(session.file)):
            if isinstance(id_, str) and id_:
                found[id_] = _both(found[id_], own) if id_ in found else own
    return found


def _both(one: SessionFacts, other: SessionFacts) -> SessionFacts:
    """Return the facts about a session with two keys."""
    is_kept = one.reason is None or other.reason is None
    return SessionFacts(
        None if is_kept else other.reason,
        one.label or other.label,
        chat_type_of(one.chat_type, other.chat_type),
        tuple(dict.fromkeys(one.spawned_by + other.spawned_by)),
    )


def kind_of_chat(key: str, session: KeyedSession) -> str:
    """Return the kind of a session's chat: what it says, else what its key names."""
    if session.chat_type in (DIRECT, GROUP, CHANNEL):
        return str(session.chat_type)
    # The last part may be the name that a person chose for the chat.
    parts = key.split(":")[2:-1] if key.startswith("agent:") else key.split(":")[:-1]
    kinds = (_KINDS.get(part, "") for part in parts)
    if key.count(":") == 2 and key.endswith(":main"):
        return DIRECT
    return next(filter(None, kinds), "")


def _label(session: KeyedSession) -> str:
    labels = (session.label, session.subject)
    return next((label for label in labels if isinstance(label, str) and label.strip()), "")


def _id_of(file: object) -> str:
    return (
        Path(file).name.partition(".jsonl")[0].partition(_TOPIC)[0] if isinstance(file, str) else ""
    )


def _alone(key: str) -> str | None:
    """Return why no person takes part in the session with this key."""
    return excluded_key(key) or ("cron run" if _CRON.match(key) else None)


def why_without_people(key: str, sessions: Mapping[str, KeyedSession]) -> str | None:
    """Return why no person takes part in the session with this key, None if one may."""
    if own := _alone(key):
        return own
    reason = next(filter(None, map(_alone, _ancestors(key, sessions))), None)
    return None if reason is None else f"session that a {reason} spawned"


def _ancestors(key: str, sessions: Mapping[str, KeyedSession]) -> Iterator[str]:
    """Yield the keys of the sessions that spawned a session, the nearest first."""
    waiting, seen = [key], {key}
    for _ in range(_MAX_GENERATIONS):
        parents = []
        for child in waiting:
            session = sessions.get(child, KeyedSession())
            for parent in (session.spawned_by, session.parent):
                if isinstance(parent, str) and parent not in seen:
                    seen.add(parent)
                    parents.append(parent)
        yield from parents
        waiting = parents


def names_above(key: str, sessions: Mapping[str, KeyedSession]) -> tuple[str, ...]:
    """Return the keys of the sessions above one, each with the id of its session."""
    keys = _ancestors(key, sessions)
    found = ((key, sessions.get(key, KeyedSession()).session_id) for key in keys)
    return tuple(name for names in found for name in names if isinstance(name, str) and name)
