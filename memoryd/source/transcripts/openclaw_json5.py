"""OpenClaw's older session store: one JSON5 document for each chat, rewritten on each change.

Message numbers take the place of line numbers. Compaction summaries count as assistant messages.
"""

import errno
import hashlib
import os
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from memoryd.fs.hang import idle, tick
from memoryd.fs.safe_open import RegularFile
from memoryd.messages import FileStat, TranscriptState, file_stat
from memoryd.source.transcripts.format import DIRECT, GROUP, Message, Record, chat_type_of
from memoryd.source.transcripts.openclaw import is_from_a_session
from memoryd.source.transcripts.strip import said

NAME = "openclaw-store"
SUFFIX = ".json5"
MAX_BYTES = 64 * 1024 * 1024
LOCK_SUFFIX = ".lock"
STALE_LOCK_S = 10.0
"""Age of a lock whose holder has died, because a holder refreshes its time."""
REGISTRY = "registry.json5"
_FOLDERS = {"groups": GROUP, "chats": DIRECT}
_NAMES = ("id", "chatId", "sessionId", "sessionKey", "key", "file", "path")
_REGISTRY_DEPTH = 4
_SUMMARIES = ("compactions", "compactedHistory")


class BeingWrittenError(OSError):
    """Incomplete document that is being written; memoryd reads it again, changed or not."""


def load(path: Path, base: Path) -> tuple[Record, FileStat, str, tuple[int, int]]:
    """Return a chat, its stat, the SHA-256 of its bytes, and its (device, inode).

    No links are allowed below the directory `base`. Raises `BeingWrittenError` if the chat is
    locked or does not parse, or another `OSError`.
    """
    import pyjson5  # takes memory, so only when needed

    tick(path)
    if _is_locked(path):
        raise BeingWrittenError(errno.EAGAIN, "being written; memoryd tries again")
    with RegularFile(path, base) as file:
        found = os.fstat(file.fileno())
        if found.st_size > MAX_BYTES:
            raise OSError(errno.EFBIG, f"larger than {MAX_BYTES // 1024**2} MiB")
        data = file.read()
    idle()
    try:
        chat = pyjson5.decode(data.decode("utf-8-sig"))
    except (pyjson5.Json5Exception, UnicodeDecodeError, RecursionError) as error:
        raise BeingWrittenError(errno.EAGAIN, "not valid JSON5; memoryd tries again") from error
    if not isinstance(chat, dict) or not isinstance(chat.get("messages"), list):
        raise OSError(errno.EILSEQ, "not a chat of OpenClaw's session store")
    inode = found.st_dev, found.st_ino
    return chat, file_stat(found), hashlib.sha256(data).hexdigest(), inode


def registered_chat_type(path: Path, chat: Record, base: Path) -> str:
    """Return the kind of a chat, by the `registry.json5` above it, else by its folder. Blocking.

    An entry of the registry with a `groupId` is a group, one with a `channel` alone a direct chat.
    """
    import pyjson5  # takes memory, so only when needed

    names = {path.stem, str(chat.get("id", "")), str(chat.get("sessionId", ""))} - {""}
    for folder in (path.parent, path.parent.parent):
        try:
            with RegularFile(folder / REGISTRY, min(base, folder)) as file:
                data = file.read() if os.fstat(file.fileno()).st_size <= MAX_BYTES else b""
            registry = pyjson5.decode(data.decode("utf-8-sig"))
        except (OSError, pyjson5.Json5Exception, UnicodeDecodeError, RecursionError):
            continue
        kinds = [
            GROUP if entry.get("groupId") else DIRECT
            for name, entry in _entries(registry, _REGISTRY_DEPTH)
            if names & {name, *(_stem(entry.get(field)) for field in _NAMES)}
        ]
        if kinds:
            return chat_type_of(*kinds)
    return _FOLDERS.get(path.parent.name, "")


def _entries(value: Any, depth: int, name: str = "") -> Iterator[tuple[str, Record]]:
    """Yield the entries of a registry with their names."""
    if isinstance(value, dict) and ("groupId" in value or "channel" in value):
        yield name, value
    elif depth and isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _entries(item, depth - 1, _stem(key))


def _stem(name: object) -> str:
    return Path(name).name.removesuffix(SUFFIX) if isinstance(name, str) else ""


def numbered(chat: Record) -> Iterator[tuple[int, Any]]:
    """Yield the messages and then the compaction summaries, numbered from 1."""
    found = (chat.get(name) for name in _SUMMARIES)
    summaries = chain.from_iterable(part for part in found if isinstance(part, list))
    yield from enumerate([*chat["messages"], *summaries], start=1)


def _is_locked(path: Path) -> bool:
    """Return whether somebody writes a chat now."""
    try:
        return time.time() - path.with_name(path.name + LOCK_SUFFIX).stat().st_mtime < STALE_LOCK_S
    except OSError:
        return False


def message(item: Any) -> Message | None:
    """Return the message of an element, None if it has none."""
    if isinstance(item, str):
        return said("assistant", item)
    if not isinstance(item, dict):
        return None
    if isinstance(summary := item.get("summary"), str):
        return said("assistant", summary, item.get("timestamp"))
    if "compactedAt" in item and "originalMessageCount" in item:
        # Whatever its role, the assistant has written it.
        return said("assistant", item.get("content"), item["compactedAt"])
    inner = item.get("message")
    part = inner if isinstance(inner, dict) else item
    if part.get("role") == "user" and is_from_a_session(item, part):
        return None
    times = part.get("timestamp"), item.get("timestamp")
    return said(part.get("role"), part.get("content"), *times, record=part.get("__openclaw"))


def state(
    chat: Record,
    stat: FileStat,
    inode: tuple[int, int],
    messages: int,
    *,
    owner: str,
    reading: str,
) -> TranscriptState:
    """Return the state of a chat that was read to its end."""
    name = chat.get("id", chat.get("sessionId", ""))
    return TranscriptState(
        format=NAME,
        device=inode[0],
        inode=inode[1],
        generation=0,
        offset=stat.size,
        lines=sum(1 for _ in numbered(chat)),
        head_bytes=0,
        head_hash="",
        tail_offset=0,
        tail_line=1,
        messages=messages,
        session=name if isinstance(name, str) else "",
        owner=owner,
        reading=reading,
    )
