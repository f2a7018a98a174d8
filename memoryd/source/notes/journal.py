"""Journal of the notes that memoryd has written, so that none is lost to a careless editor.

A private file of JSON lines beside the index. A note is in it before it is in its file.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from memoryd.fs.atomic_replace import rename_over

SUFFIX = ".notes"
MAX_NOTES = 2_000
MAX_BYTES = 4 * 1024 * 1024
"""Maximum notes and bytes that are kept when the journal is written anew; the oldest go first."""
_SLACK = 2
"""Factor on both from which the journal is written anew."""


class JournalNote(Struct, frozen=True, omit_defaults=True):
    """One note of the time `at` (Unix time): its lines, and the text inserted with them.

    `digest` is the hash of its text, by which the same note is recognized. `session` names the
    conversation that a session note is about, "" for any other note.
    """

    id: str
    at: float
    path: str
    lines: list[str]
    digest: str
    inserted: str = ""
    heading: str | None = None
    session: str = ""

    @property
    def text(self) -> str:
        """Return all of its text that is in the journal."""
        return "\n".join([*self.lines, self.inserted])


class _Line(Struct, omit_defaults=True):
    """One line: a note, or the id of one that no longer counts."""

    note: JournalNote | None = None
    end: str | None = None


class NoteJournal:
    """The journal of one index. One thread at a time uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._notes: dict[str, JournalNote] | None = None
        self._lines = 0
        self._bytes = 0

    def notes(self) -> list[JournalNote]:
        """Return the notes that count, oldest first. Blocking. Raises `OSError`."""
        return list(self._read().values())

    def add(self, note: JournalNote) -> None:
        """Add a note durably. Blocking. Raises `OSError`, and then the note is not in it."""
        self._read()[note.id] = note
        try:
            self._append(_Line(note))
        except OSError:
            del self._read()[note.id]
            raise

    def end(self, note: JournalNote) -> None:
        """Stop counting a note. Blocking. Raises `OSError`."""
        if self._read().pop(note.id, None) is not None:
            self._append(_Line(end=note.id))

    def drop(self, condition: Callable[[JournalNote], bool]) -> None:
        """Remove notes, and their text from the file. Blocking. Raises `OSError`."""
        if not self._path.exists():
            return
        self._write([note for note in self.notes() if not condition(note)])

    def _read(self) -> dict[str, JournalNote]:
        if self._notes is None:
            data = self._content()
            self._notes = {}
            for line in data.splitlines():
                self._lines += 1
                try:
                    read = msgspec.json.decode(line, type=_Line)
                except msgspec.MsgspecError:
                    continue  # cut off by a full disk or a power cut, so never acknowledged
                if read.note is not None:
                    self._notes[read.note.id] = read.note
                elif read.end is not None:
                    self._notes.pop(read.end, None)
            self._bytes = len(data)
        return self._notes

    def _content(self) -> bytes:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags)
        except FileNotFoundError:
            return b""
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(f"{self._path} is not a regular file")
            return file.read()

    def _append(self, line: _Line) -> None:
        if self._lines >= _SLACK * MAX_NOTES or self._bytes >= _SLACK * MAX_BYTES:
            return self._write(_newest(self.notes()))
        # It begins with a line end, in case a full disk has cut off the line before.
        data = b"\n" + msgspec.json.encode(line)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        with open(descriptor, "ab", buffering=0) as file:
            if file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(descriptor)
        self._lines += 1
        self._bytes += len(data)
        return None

    def _write(self, notes: Iterable[JournalNote]) -> None:
        """Write the file anew with these notes."""
        kept = list(notes)
        data = b"".join(b"\n" + msgspec.json.encode(_Line(note)) for note in kept)
        part = Path(f"{self._path}.new")
        part.unlink(missing_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "wb") as file:
            file.write(data)
        rename_over(part, self._path)
        self._notes = {note.id: note for note in kept}
        self._lines, self._bytes = len(kept), len(data)


def _newest(notes: list[JournalNote]) -> list[JournalNote]:
    kept, size = list[JournalNote](), 0
    for note in reversed(notes[-MAX_NOTES:]):
        size += len(note.text.encode())
        if size > MAX_BYTES:
            break
        kept.append(note)
    return kept[::-1]
