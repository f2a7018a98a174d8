"""Secret key of the hashes in the record of forgotten texts.

From a plain hash, anybody with the file could guess a short text such as a PIN. The key is in a
file of its own beside the index, so that a copy of the index alone gives nothing away. Without the
key, the record recognizes no text any more.
"""

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from memoryd.fs.atomic_replace import rename_over
from memoryd.index import schema
from memoryd.index.driver import Connection, one_value, transaction

SUFFIX = ".tombstone-key"
KEY_BYTES = 32
NOTE = "tombstone key"
"""Note: a hash that shows whether a key is that of the record."""
KEY_ADVICE = (
    "put the file back from a backup, then `memctl restart`; without one, forget the texts again"
    " with `memctl forget`, which begins a new record. Until then the index is not rebuilt, because"
    " forgotten messages would come back"
)
MESSAGE, MASKED_MESSAGE, CHUNK = "words-hmac", "message-hmac", "chunk-hmac"
"""Kinds of keyed hashes. Earlier versions hashed the masked text of a message, not its words."""
PLAIN = {"message": MASKED_MESSAGE, "chunk": CHUNK}
"""Kinds of tombstones with plain hashes, of earlier versions, and their present kinds."""
_OLD = f"kind IN ({', '.join(repr(kind) for kind in PLAIN)})"
_MESSAGES = f"kind IN ('{MESSAGE}', '{MASKED_MESSAGE}')"
_KEYED = f"({_MESSAGES} OR kind = '{CHUNK}')"


class TombstoneKey:
    """The key of one index. `problem` says why forgotten texts are not recognized, if so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None
        self._key: bytes | None = None

    @property
    def is_there(self) -> bool:
        """True if the key is known."""
        return self._key is not None

    def hashed(self, digest: str) -> str:
        """Return the tombstone's value for the SHA-256 of a text.

        Without a key, returns the SHA-256, which is never recorded and so matches no tombstone.
        """
        if self._key is None:
            return digest
        return hmac.new(self._key, digest.encode(), hashlib.sha256).hexdigest()

    def open(self, connection: Connection, *, convert: bool) -> None:
        """Read the key, and check that it is that of the record. Raises `OSError`.

        `convert`: replace plain hashes of an earlier version, which creates the key.
        """
        self._key, self.problem = self._read(), None
        if convert and self._key is not None:
            with suppress(OSError):
                self.path.chmod(0o600)
        if convert and one_value(connection, f"SELECT 1 FROM forgotten WHERE {_OLD} LIMIT 1"):
            self.create()
            with transaction(connection):
                self._convert(connection)
                self.adopt(connection)
        # Those of chunks only keep vectors out that were under way when a text was forgotten.
        needed = one_value(connection, f"SELECT 1 FROM forgotten WHERE {_MESSAGES} LIMIT 1")
        if self._key is None:
            self.problem = f"the key of the record of forgotten texts is missing: {self.path}"
        elif schema.get_note(connection, NOTE) not in (None, self._check()):
            self.problem = f"{self.path} is not the key of the record of forgotten texts"
            self._key = None
        if not needed:
            self.problem = None

    def create(self) -> None:
        """Create the key durably, unless there is one. Blocking. Raises `OSError`."""
        if self._key is not None:
            return
        if (there := self._read()) is None:
            fresh, part = secrets.token_bytes(KEY_BYTES), Path(f"{self.path}.new")
            part.unlink(missing_ok=True)
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(part, flags, 0o600), "wb") as file:
                file.write(fresh)
                file.flush()
                os.fsync(file.fileno())
            rename_over(part, self.path)
            there = fresh
        self._key = there

    def adopt(self, connection: Connection) -> None:
        """Make this the key of the record, within the caller's transaction.

        Hashes of another key are useless, and removed.
        """
        if schema.get_note(connection, NOTE) not in (None, self._check()):
            connection.execute(f"DELETE FROM forgotten WHERE {_KEYED}")
            connection.execute("DELETE FROM recalls")
        schema.put_note(connection, NOTE, self._check())
        self.problem = None

    def _check(self) -> str:
        return self.hashed("memoryd")

    def _convert(self, connection: Connection) -> None:
        plain = connection.execute(f"SELECT kind, value FROM forgotten WHERE {_OLD}").fetchall()
        connection.executemany(
            "INSERT OR IGNORE INTO forgotten VALUES (?, ?)",
            [(PLAIN[kind], self.hashed(value)) for kind, value in plain],
        )
        connection.execute(f"DELETE FROM forgotten WHERE {_OLD}")

    def _read(self) -> bytes | None:
        """Return the key, None if there is none. Raises `OSError` if it can't be read."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise OSError(f"{self.path} is not a regular file of this user")
            key = file.read(KEY_BYTES + 1)
        return key if len(key) == KEY_BYTES else None
