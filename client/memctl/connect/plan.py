"""Changes that connect or disconnect an agent: planned for all its files, then made, or none."""

import os

from msgspec import Struct

from memctl.connect import files
from memctl.connect.agents import HostAgent, TargetFile
from memctl.connect.entries import ConnectError
from memctl.connect.files import FileChangedError
from memctl.connect.journal import Journal
from memctl.connect.toml_text import MARK

ATTEMPTS = 3
"""Plans until a file is left alone that somebody else keeps changing."""


class FileChange(Struct, frozen=True):
    """One file to change. None stands for no file.

    `original` is its content without memoryd. `added` and `removed` have a line for each entry.
    """

    path: str
    before: bytes | None
    after: bytes | None
    original: bytes | None
    added: list[str]
    removed: list[str]


def connect(agent: HostAgent, *, dry_run: bool = False) -> list[FileChange]:
    """Connect an agent and return the changes, none if it is connected. Raises `ConnectError`."""
    journal = Journal(agent.name)
    for attempt in range(ATTEMPTS):
        changes = [c for t in agent.targets if (c := _to_connect(t, journal)) is not None]
        if dry_run or _made(changes, journal, last=attempt + 1 == ATTEMPTS):
            break
    return changes


def disconnect(agent: HostAgent, *, dry_run: bool = False) -> list[FileChange]:
    """Take all entries out again and return the changes. Raises `ConnectError`."""
    journal = Journal(agent.name)
    for attempt in range(ATTEMPTS):
        changes = [c for t in agent.targets if (c := _to_disconnect(t, journal)) is not None]
        if dry_run or _made(changes, None, last=attempt + 1 == ATTEMPTS):
            break
    if not dry_run:
        for target in agent.targets:
            journal.forget(target.path)
    return changes


def text_of(target: TargetFile, content: bytes | None) -> str:
    """Return a file as text that the target can read, "" for no file. Raises `ConnectError`."""
    try:
        text = (content or b"").decode()
        target.missing(text)
    except UnicodeDecodeError as error:
        message = f"{target.path} is not UTF-8 (byte {error.start})"
        raise ConnectError(message, hint="correct it, then try again") from error
    except ValueError as error:
        message = f"{target.path} can't be changed: {error}"
        raise ConnectError(message, hint="correct it, then try again") from error
    return text


def _to_connect(target: TargetFile, journal: Journal) -> FileChange | None:
    before = files.read(target.path)
    text = text_of(target, before)
    try:
        after = target.connected(text)
    except ValueError as error:
        raise ConnectError(f"{target.path} can't be changed: {error}") from error
    if after == text:
        return None
    original = before
    if target.path in journal.records:
        original = journal.original(target.path)
        if not journal.wrote(target.path, before):
            original = _without(target, before, journal)
    return _change(target, before, after.encode(), original)


def _to_disconnect(target: TargetFile, journal: Journal) -> FileChange | None:
    before = files.read(target.path)
    if journal.wrote(target.path, before):
        after = journal.original(target.path)
    else:
        after = _without(target, before, journal)
    return None if after == before else _change(target, before, after, after)


def _without(target: TargetFile, content: bytes | None, journal: Journal) -> bytes | None:
    """Return a file that others have changed too, without memoryd's entries."""
    if content is None:
        return None
    text = text_of(target, content)
    copy = journal.original(target.path)
    after = target.disconnected(text, None if copy is None else text_of(target, copy))
    is_made = text.startswith(MARK) or (target.path in journal.records and copy is None)
    return None if is_made and after.strip() in ("", "{}") else after.encode()


def _change(
    target: TargetFile, before: bytes | None, after: bytes | None, original: bytes | None
) -> FileChange:
    old, new = (target.present(text_of(target, content)) for content in (before, after))
    added, removed = ([x for x in a if x not in b] for a, b in ((new, old), (old, new)))
    return FileChange(target.path, before, after, original, added, removed)


def _made(changes: list[FileChange], journal: Journal | None, *, last: bool) -> bool:
    """Make all changes and return True, or make none.

    Returns False if a file has changed meanwhile, unless this is the `last` attempt. Raises
    `ConnectError`.
    """
    done: list[FileChange] = []
    known = {} if journal is None else dict(journal.records)
    try:
        for change in changes:
            if journal is not None and change.after is not None:
                journal.record(change.path, change.original, change.after)
            if change.after is not None:
                files.make_folder(os.path.dirname(change.path))
            files.replace(change.path, change.before, change.after)
            done.append(change)
    except (OSError, FileChangedError) as error:
        _undo(done)
        if journal is not None:
            for path in journal.records.keys() - known.keys():
                journal.forget(path)
            journal.records = known
            journal.save()
        if isinstance(error, FileChangedError):
            if not last:
                return False
            message = f"{change.path} was changed by somebody else at the same time"
            raise ConnectError(message, hint="try again when the agent is idle") from error
        message = f"can't change {change.path}: {error.strerror}"
        raise ConnectError(message, hint="nothing was changed") from error
    return True


def _undo(done: list[FileChange]) -> None:
    for change in reversed(done):
        try:
            files.replace(change.path, change.after, change.before)
        except (OSError, FileChangedError) as error:
            message = f"{change.path} was changed and can't be changed back"
            raise ConnectError(message, hint="run `memctl disconnect`") from error
