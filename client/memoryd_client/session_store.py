"""OpenClaw's older session store, for programs that write it: one JSON5 document for each chat.

A chat is `chats/ID.json5` or `groups/ID.json5` below the folder of the store, and the file
`registry.json5` beside both folders says what each is. Each change rewrites a document below its
lock, through a temporary file: a reader finds the old or the new one, and a crash leaves either.
memoryd reads such stores (`source/transcripts/openclaw_json5.py`); no current OpenClaw has one.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from memoryd_client.errors import MemorydError
from memoryd_client.shared.folder_lock import FolderLock
from memoryd_client.shared.paths import StrPath
from memoryd_client.shared.safe_open import open_regular

SUFFIX = ".json5"
REGISTRY = "registry"
KINDS = ("chats", "groups")
"""Folders of chats with one person and of those with several."""
_PART = ".tmp"
_MODE = 0o600

Document = dict[str, Any]


class SessionStoreError(MemorydError):
    """A chat can't be named like this, is no document of the store, or can't be read here."""

    code = "session_store"


class SessionStore:
    """The session store in a folder. Blocking; threads and processes may share a store.

    All methods name a chat by its path without the ending, such as `chats/7`. Those that write
    raise `SessionStoreError`, `FileLockedError`, `LockLostError` or `OSError`, and then nothing is
    written.
    """

    def __init__(self, folder: StrPath) -> None:
        self._folder = os.path.abspath(folder)

    def append(self, chat: str, message: Mapping[str, Any]) -> int:
        """Append a message to a chat, which is created; return the number of its messages.

        A message has `role` and `content`; `timestamp`, in milliseconds, is now by default.
        """
        if not isinstance(message.get("role"), str) or "content" not in message:
            raise SessionStoreError("a message needs role and content")

        def add(document: Document) -> int:
            messages = _list(document, "messages")
            messages.append({**message, "timestamp": message.get("timestamp", _now_ms())})
            return len(messages)

        return self._change(chat, add)

    def compact(self, chat: str, summary: str, count: int) -> int:
        """Replace the first `count` messages by a summary; return the number of those that remain.

        Messages that came after them stay, also those that another process has appended meanwhile.
        """

        def shorten(document: Document) -> int:
            messages = _list(document, "messages")
            if not 1 <= count <= len(messages):
                raise SessionStoreError(f"{chat} has {len(messages)} messages (got {count})")
            del messages[:count]
            _list(document, "compactedHistory").append(
                {
                    "role": "system",
                    "content": summary,
                    "compactedAt": _now_ms(),
                    "originalMessageCount": count,
                }
            )
            return len(messages)

        return self._change(chat, shorten)

    def register(self, chat: str, *, channel: str, group_id: str | None = None) -> None:
        """Say in the registry where a chat takes place: the channel, and the group if it is one."""
        name = self._checked(chat).rpartition("/")[2]
        entry: Document = {"channel": channel, "file": f"{chat}{SUFFIX}", "updatedAt": _now_ms()}
        if group_id is not None:
            entry["groupId"] = group_id

        with self._locked(REGISTRY) as (registry, save):
            sessions = registry.setdefault("sessions", {})
            if not isinstance(sessions, dict):
                raise SessionStoreError(f"{REGISTRY}{SUFFIX} has no table of sessions")
            sessions[name] = {**sessions.get(name, {}), **entry}
            save()

    def read(self, chat: str) -> Document:
        """Return a chat as it stands there. Raises `SessionStoreError` or `OSError`."""
        return _read(self._path(self._checked(chat)))

    def _change(self, chat: str, change: Callable[[Document], int]) -> int:
        with self._locked(self._checked(chat)) as (document, save):
            document.setdefault("id", chat.rpartition("/")[2])
            _list(document, "messages")
            result = change(document)
            save()
        return result

    @contextmanager
    def _locked(self, name: str) -> Iterator[tuple[Document, Callable[[], None]]]:
        """Yield a document below its lock, empty if there is none, and what saves it."""
        path = self._path(name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with FolderLock(path) as lock:
            _remove_parts(path)
            try:
                document = _read(path)
            except FileNotFoundError:
                document = {}
            yield document, lambda: _write(path, document, lock)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name + SUFFIX)

    def _checked(self, chat: str) -> str:
        kind, _, name = chat.partition("/")
        if kind not in KINDS or not name or name[0] == "." or {"/", "\\", "\0"} & set(name):
            raise SessionStoreError(
                f"no chat is named {chat!r}", hint=f"use {KINDS[0]}/ID or {KINDS[1]}/ID"
            )
        return chat


def _list(document: Document, name: str) -> list[Any]:
    found = document.setdefault(name, [])
    if not isinstance(found, list):
        raise SessionStoreError(f"{name} is no list", hint="look at the file")
    return found


def _read(path: str) -> Document:
    with open_regular(path) as file:
        data = file.read()
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        document = _read_json5(path, data)
    if not isinstance(document, dict):
        raise SessionStoreError(f"{path} is no document of a session store", hint="look at it")
    return document


def _read_json5(path: str, data: bytes) -> Any:
    """Return a document that another program has written, with what JSON5 has beyond JSON."""
    try:
        import pyjson5
    except ImportError as error:
        message = f"{path} is JSON5, and the package pyjson5 is missing"
        raise SessionStoreError(message, hint="install memoryd-client[json5]") from error
    try:
        return pyjson5.decode(data.decode("utf-8-sig"))
    except (pyjson5.Json5Exception, UnicodeDecodeError, RecursionError) as error:
        raise SessionStoreError(f"{path} is not valid JSON5", hint="look at the file") from error


def _write(path: str, document: Document, lock: FolderLock) -> None:
    # JSON is JSON5, and so are the Infinity and NaN that this writes; half of a surrogate pair
    # becomes its escape.
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    data = text.encode("utf-8", "backslashreplace")
    part = f"{path}.{secrets.token_hex(4)}{_PART}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(part, flags, _MODE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        lock.check()
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove_parts(path: str) -> None:
    """Remove the temporary files of writers that were killed; the lock says that none writes."""
    folder, name = os.path.split(path)
    for found in os.listdir(folder):
        if found.startswith(f"{name}.") and found.endswith(_PART):
            with suppress(OSError):
                os.unlink(os.path.join(folder, found))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
