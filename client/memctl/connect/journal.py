"""Record of the files that `connect` has changed, with a private copy of each.

Both are in the folder `connect` of memoryd's state: a file for each agent, and one for each copy.
"""

import os
from contextlib import suppress
from hashlib import sha256

import msgspec
from msgspec import Struct

from memctl.connect import files
from memctl.connect.entries import ConnectError
from memoryd_client.shared import ownership
from memoryd_client.shared.paths import state_dir

MAX_BYTES = 1024 * 1024


class ChangeRecord(Struct):
    """One changed file. `written` is the SHA-256 of its content after the change.

    `copy` is the name of the copy of its content before, None if it did not exist. `folders` are
    those that were created for it.
    """

    path: str
    written: str
    copy: str | None = None
    folders: list[str] = []


class Journal:
    """The records of one agent, by path."""

    def __init__(self, name: str) -> None:
        """Read them. Raises `ConnectError`."""
        self._folder = os.path.join(state_dir(), "connect")
        self._path = os.path.join(self._folder, f"{name}.json")
        self._name = name
        self.records: dict[str, ChangeRecord] = {}
        try:
            descriptor = ownership.open_own(self._path)
            with os.fdopen(descriptor, "rb") as file:
                found = msgspec.json.decode(file.read(MAX_BYTES), type=list[ChangeRecord])
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            hint = "move it away; the entries are then removed without it"
            raise ConnectError(f"can't read {self._path}: {reason}", hint=hint) from error
        self.records = {record.path: record for record in found}

    def wrote(self, path: str, content: bytes | None) -> bool:
        """Return whether a file still has the content that was written."""
        record = self.records.get(path)
        return record is not None and content is not None and record.written == digest(content)

    def original(self, path: str) -> bytes | None:
        """Return the content of a recorded file before the change. Raises `ConnectError`."""
        record = self.records.get(path)
        if record is None or record.copy is None:
            return None
        place = os.path.join(self._folder, os.path.basename(record.copy))
        try:
            with os.fdopen(ownership.open_own(place), "rb") as file:
                return file.read()
        except OSError as error:
            raise ConnectError(f"can't read the copy {place}: {error.strerror}") from error

    def record(self, path: str, original: bytes | None, after: bytes) -> None:
        """Record a change that is about to be made, with a copy. Raises `OSError`."""
        files.make_folder(self._folder)
        copy = None
        if original is not None:
            copy = f"{self._name}-{digest(os.fsencode(path))[:8]}.copy"
            self._write(os.path.join(self._folder, copy), original)
        old = self.records.get(path)
        folders = old.folders if old is not None else _missing_folders(path)
        self.records[path] = ChangeRecord(path, digest(after), copy, folders)
        self.save()

    def save(self) -> None:
        """Write the records, or remove their file if there are none. Raises `OSError`."""
        if self.records:
            content = msgspec.json.encode(list(self.records.values()))
            self._write(self._path, msgspec.json.format(content, indent=2) + b"\n")
            return
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def forget(self, path: str) -> None:
        """Forget a file that is as it was, with its copy and the folders made for it."""
        record = self.records.pop(path, None)
        self.save()
        if record is None:
            return
        for folder in reversed(record.folders):
            with suppress(OSError):  # not empty any more
                os.rmdir(folder)
        if record.copy is not None:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, os.path.basename(record.copy)))

    @staticmethod
    def _write(path: str, content: bytes) -> None:
        new = f"{path}.new"
        with suppress(FileNotFoundError):
            os.unlink(new)
        descriptor = os.open(
            new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, files.PRIVATE
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(new, path)


def digest(content: bytes) -> str:
    """Return the SHA-256 of a content in hex digits."""
    return sha256(content).hexdigest()


def _missing_folders(path: str) -> list[str]:
    folder, found = os.path.dirname(path), list[str]()
    while not os.path.isdir(folder):
        found.insert(0, folder)
        folder = os.path.dirname(folder)
    return found
