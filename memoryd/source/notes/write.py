"""Writer of notes: entries appended to the memory of one workspace, and kept in a journal."""

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec.structs import replace as with_fields

from memoryd.chunk.provenance import (
    MAX_FIELD_CHARS,
    provenance,
    without_provenance,
    written_ids,
)
from memoryd.errors import HintedError
from memoryd.fs.change_file import FileBytes, append, read_bytes, replace
from memoryd.fs.lockfile import in_turn
from memoryd.fs.safe_open import unlink_file
from memoryd.messages import file_stat, split_lines
from memoryd.source.filenames import MEMORY_FOLDER, ROOT_FILES, SUFFIX, is_utf8
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.entry import (
    entry_lines,
    find_entry,
    heading_line,
    open_block,
    with_comment,
)
from memoryd.source.notes.insertion import insertion, removal, text_of
from memoryd.source.notes.journal import JournalNote, NoteJournal
from memoryd.text.outside import outside_lines
from memoryd.text.voice import least_trusted
from memoryd_client.schema.notes import NoteBody
from memoryd_client.schema.search import Origin
from memoryd_client.shared.citation import cite

TODAY = "today"
MAX_TEXT_CHARS = 8_000
MAX_HEADING_CHARS = 200
MAX_FILE_BYTES = 8 * 1024 * 1024
"""Maximum size of a note to which memoryd appends, because it reads the note for that."""
DAY_S = 86_400
LOCK_S = 10.0
"""Seconds to wait for another daemon that writes into the same workspace."""
_TRIES = 5
"""Tries while another program writes the same file."""
_MAX_OF_A_MINUTE = 99
"""Maximum notes about conversations that end in the same minute."""
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")


Check = Callable[[str, str], None]
"""Gets the content of a file under its lock and the text to be added; may raise."""


class NoteRefusedError(HintedError):
    """The note can't be written like this; nothing was written."""


class PlacedNote(NamedTuple):
    """A note, the path of its file, its citation, and whether it already stood there."""

    note: JournalNote
    path: Path
    citation: str
    duplicate: bool = False


class NoteWriter:
    """Writes the notes of one workspace. Blocking; only one thread at a time may use it.

    `lock` is a lock file that all daemons share, `mask` removes secrets, and `zone` is the time
    zone of days (None: the local one).
    """

    def __init__(
        self,
        discovery: Discovery,
        journal: NoteJournal,
        *,
        lock: Path,
        mask: Callable[[str], str],
        zone: tzinfo | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._discovery = discovery
        self._journal = journal
        self._lock = lock
        self._mask = mask
        self._zone = zone
        self._clock = clock
        self._checked: dict[str, tuple[object, frozenset[str]]] = {}

    def write(self, body: NoteBody, *, check: Check | None = None) -> tuple[PlacedNote, bool]:
        """Write a note durably; return it, and whether a secret in it was masked.

        `check` may refuse it. Without one, the same text of the last day in any file is not written
        again. Raises `NoteRefusedError`, `SocketError` for the lock, or `OSError`.
        """
        at = self._clock()
        path = self._target(body.file, at)
        text, heading = self._mask(body.text), self._mask(body.heading or "")
        masked = text != body.text or heading != (body.heading or "")
        title = heading_line(heading)[:MAX_HEADING_CHARS] or None
        if body.heading is not None and title is None:
            raise NoteRefusedError("the heading has no text")
        if len(text) > MAX_TEXT_CHARS:
            raise NoteRefusedError(
                f"a note has at most {MAX_TEXT_CHARS:,} characters (got {len(text):,})",
                "write what matters, or several notes",
            )
        entry = entry_lines(text, body.kind)
        if not entry:
            raise NoteRefusedError("the note has no text to write")
        note_id = secrets.token_hex(6)
        comment = provenance({"id": note_id, **self._source(body, at)})
        note = JournalNote(
            id=note_id,
            at=at,
            path=path,
            lines=with_comment(entry, comment),
            digest=hashlib.sha256("\n".join(entry).encode()).hexdigest(),
            heading=title,
        )
        with in_turn(self._lock, LOCK_S):
            same = [earlier for earlier in self._journal.notes() if _is_same(note, earlier)]
            if check is not None:
                same = [earlier for earlier in same if earlier.path == note.path]
            for earlier in reversed(same):
                if check is None and (placed := self._standing(earlier)) is not None:
                    return placed._replace(duplicate=True), masked
            placed = self._put(note, check)
            for earlier in same:  # it got lost, or a crash came before its file
                self._journal.end(earlier)
            return placed, masked

    def _local(self, at: float) -> datetime:
        """Return a Unix time in the time zone of days, with its offset from UTC."""
        local = datetime.fromtimestamp(at, self._zone)
        return local if self._zone is not None else local.astimezone()

    def _source(self, body: NoteBody, at: float) -> dict[str, str]:
        """Return the fields of a note's comment that say where it comes from."""
        now = self._local(at).isoformat("T", "minutes")
        fields = {
            "conversation": body.conversation or "",
            "observed": body.observed or now,
            "supersedes": body.supersedes or "",
        }
        for name, value in fields.items():
            if len(value) > MAX_FIELD_CHARS:
                raise NoteRefusedError(f"{name} has at most {MAX_FIELD_CHARS} characters")
        quotes = bool(outside_lines(split_lines(body.text)))
        origin = least_trusted([body.origin, Origin.UNTRUSTED if quotes else body.origin])
        return {"origin": str(origin), **{name: self._mask(v) for name, v in fields.items()}}

    def write_session(
        self, session: str, at: float, make: Callable[[str, str], list[str]]
    ) -> PlacedNote | None:
        """Write a note about a conversation of the Unix time `at` into a file of its own.

        Return the note, also if it stands there already, and None if it would be empty. `make`
        returns its lines for an id and the time of day. Raises as `write`.
        """
        local = self._local(at)
        note_id, title = secrets.token_hex(6), f"# Conversation of {local:%Y-%m-%d %H:%M}"
        if not (lines := make(note_id, local.isoformat("T", "minutes"))):
            return None
        lines = [title, "", *lines]
        data = text_of(lines).encode()
        digest = hashlib.sha256(data).hexdigest()
        with in_turn(self._lock, LOCK_S):
            earlier = [note for note in self._journal.notes() if note.session == session]
            for note in earlier:
                with suppress(OSError, NoteRefusedError):
                    content, found = self._read(note.path)
                    if note.id in written_ids(split_lines(content)):
                        return self._placed(note, 1)._replace(duplicate=True)
                    whole = text_of(note.lines)
                    if found.stat is not None and whole.startswith(content):
                        # A crash came between the creation of its file and the end of the write.
                        self._replace(note.path, whole, found.stat)
                        return self._placed(note, 1)
            for number in range(1, _MAX_OF_A_MINUTE + 1):
                name = f"{local:%Y-%m-%d-%H%M}" + (f"-{number}" if number > 1 else "")
                path = self._target(f"{MEMORY_FOLDER}/{name}{SUFFIX}", at)
                note = JournalNote(note_id, at, path, lines, digest, session=session)
                if self._create(note, data):
                    for before in earlier:  # a crash came before its file
                        self._journal.end(before)
                    return self._placed(note, 1)
        raise NoteRefusedError(f"{MEMORY_FOLDER} has too many notes of {local:%Y-%m-%d %H:%M}")

    def _create(self, note: JournalNote, data: bytes) -> bool:
        """Create the file of a note, and put it into the journal first; False if there is one."""
        path, below = self._place(note.path)
        if os.path.lexists(path):
            return False
        self._journal.add(note)
        try:
            append(path, below, data, None)
        except OSError as error:
            with suppress(OSError):
                self._journal.end(note)
            if error.errno == errno.EEXIST:
                return False
            raise
        return True

    def undo(self) -> PlacedNote | None:
        """Take back the last note; return it, None if there is none. Raises as `write`.

        Notes about conversations don't count, because nobody asked for them just now.
        """
        with in_turn(self._lock, LOCK_S):
            notes = [note for note in self._journal.notes() if not note.session]
            if not notes:
                return None
            note = notes[-1]
            for last in range(1, _TRIES + 1):
                content, found = self._read(note.path)
                rest = removal(content, note.lines, note.inserted)
                if rest is None or found.stat is None:
                    raise NoteRefusedError(
                        f"the last note is no longer in {note.path} as memoryd wrote it",
                        "edit the file",
                    )
                first = (find_entry(split_lines(content), note.lines) or 0) + 1
                try:
                    self._replace(note.path, rest, found.stat)
                    break
                except OSError as error:
                    if error.errno != errno.ESTALE or last == _TRIES:
                        raise
            self._journal.end(note)
            return self._placed(note, first)

    def restore(self) -> list[PlacedNote]:
        """Write again the notes that are no longer in their files. Raises as `write`."""
        with in_turn(self._lock, LOCK_S):
            return [self._put(note, again=True) for note in self.lost()]

    def dismiss(self) -> list[JournalNote]:
        """Stop reporting the notes that are no longer in their files; return them."""
        with in_turn(self._lock, LOCK_S):
            lost = self.lost()
            for note in lost:
                self._journal.end(note)
            return lost

    def noted(self) -> list[JournalNote]:
        """Return the notes in the journal, oldest first. Raises `OSError`."""
        return self._journal.notes()

    def forget(self, condition: Callable[[JournalNote], bool]) -> None:
        """Remove notes from the journal. Raises `OSError`."""
        self._journal.drop(condition)

    def lost(self) -> list[JournalNote]:
        """Return the notes in the journal that are no longer in their files, oldest first.

        Files that can't be read count as unchanged. A session note is not lost with its file, which
        has nothing else. Raises `OSError` for the journal.
        """
        by_path: dict[str, list[JournalNote]] = {}
        for note in self._journal.notes():
            by_path.setdefault(note.path, []).append(note)
        lost = frozenset[str]().union(*(self._lost_in(*each) for each in by_path.items()))
        return [note for note in self._journal.notes() if note.id in lost]

    def _lost_in(self, path: str, notes: list[JournalNote]) -> frozenset[str]:
        ids = tuple(note.id for note in notes)
        try:
            seen = os.lstat(self._discovery.workspace / path)
            state: object = (file_stat(seen), ids)
        except (FileNotFoundError, NotADirectoryError):
            if not self._discovery.workspace.is_dir():
                return frozenset()  # its disk may be missing
            return frozenset(note.id for note in notes if not note.session)
        except OSError:
            return frozenset()
        if not stat.S_ISREG(seen.st_mode):
            return frozenset(ids)  # a folder or a link has taken its place
        known = self._checked.get(path)
        if known is not None and known[0] == state:
            return known[1]
        try:
            lines = split_lines(self._read(path)[0])
        except (OSError, NoteRefusedError):
            return frozenset()
        # A note that somebody has edited has kept its comment; one that lost it may have its text.
        standing = written_ids(lines)
        missing = [note for note in notes if note.id not in standing]
        text = "\n".join(["", *without_provenance(lines), ""]) if missing else ""
        found = frozenset(
            note.id
            for note in missing
            if "\n".join(["", *without_provenance(note.lines), ""]) not in text
        )
        self._checked[path] = state, found
        return found

    def _target(self, file: str, at: float) -> str:
        """Return the path of a file in the workspace. Raises `NoteRefusedError` or `OSError`."""
        if file == TODAY:
            day = datetime.fromtimestamp(at, self._zone).date()
            file = f"{MEMORY_FOLDER}/{day.isoformat()}{SUFFIX}"
        path = os.path.normpath(file)
        hint = f"use {TODAY}, {ROOT_FILES[0]} or a path like {MEMORY_FOLDER}/topic{SUFFIX}"
        if "\0" in file or not is_utf8(file) or len(path) > MAX_TEXT_CHARS:
            raise NoteRefusedError("the path of the file is not valid", hint)
        if path != ROOT_FILES[0] and not path.startswith(f"{MEMORY_FOLDER}/"):
            raise NoteRefusedError(f"memoryd writes no notes into {file[:100]}", hint)
        if (why := self._discovery.why_not(self._discovery.workspace / path)) is not None:
            raise NoteRefusedError(f"{path[:100]} would not be memory: {why}", hint)
        return path

    def _standing(self, note: JournalNote) -> PlacedNote | None:
        """Return where a note stands unchanged; None: nowhere."""
        with suppress(OSError, NoteRefusedError):
            at = find_entry(split_lines(self._read(note.path)[0]), note.lines)
            if at is not None:
                return self._placed(note, at + 1)
        return None

    def _put(
        self, note: JournalNote, check: Check | None = None, *, again: bool = False
    ) -> PlacedNote:
        """Write a note into its file, and first into the journal.

        It remains in the journal if it can't be written `again`.
        """
        for last in range(1, _TRIES + 1):
            content, found = self._read(note.path)
            if (block := open_block(split_lines(content))) is not None:
                raise NoteRefusedError(
                    f"{note.path} ends within {block}, which would hide the note", "close it first"
                )
            stem = PurePosixPath(note.path).stem
            title = stem if _DATED.fullmatch(stem) else ""
            place = insertion(content, note.lines, note.heading, title)
            if check is not None:
                check(content, place.text)
            note = with_fields(note, inserted=place.text)
            self._journal.add(note)
            try:
                if found.stat is None or place.at == len(content):
                    append(*self._place(note.path), place.text.encode(), found.stat)
                else:
                    text = content[: place.at] + place.text + content[place.at :]
                    self._replace(note.path, text, found.stat)
                break
            except OSError as error:
                if error.errno not in (errno.ESTALE, errno.EEXIST) or last == _TRIES:
                    if not again:
                        with suppress(OSError):
                            self._journal.end(note)
                    raise
        return self._placed(note, place.first_line)

    def _read(self, path: str) -> tuple[str, FileBytes]:
        found = read_bytes(*self._place(path), MAX_FILE_BYTES)
        try:
            return found.content.decode(), found
        except UnicodeDecodeError:
            raise NoteRefusedError(
                f"{path} is not in UTF-8", "convert it, or name another file"
            ) from None

    def _replace(self, path: str, text: str, was: os.stat_result) -> None:
        if text:
            replace(*self._place(path), text.encode(), was)
        else:
            unlink_file(*self._place(path), (was.st_dev, was.st_ino))

    def _place(self, path: str) -> tuple[Path, Path]:
        """Return the path of a file, and the folder below which no link is followed."""
        return self._discovery.workspace / path, self._discovery.workspace

    def _placed(self, note: JournalNote, first: int) -> PlacedNote:
        citation = cite(note.path, first, first + len(note.lines) - 1)
        return PlacedNote(note, self._discovery.workspace / note.path, citation)


def _is_same(note: JournalNote, earlier: JournalNote) -> bool:
    """Return whether a note has the text of an earlier one of the same day and night."""
    return note.digest == earlier.digest and earlier.at > note.at - DAY_S
