"""API keys from the environment or a file, read again for every request.

A key that is rotated in its file takes effect at once. No key is ever part of a message.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from memoryd.embed.provider import PermanentError, RetryableError
from memoryd.fs.hang import DISK_LIMIT_S, SILENT, retrieve_error, tick
from memoryd_client.shared.safe_open import open_regular

log = logging.getLogger(__name__)

KEY_NAMES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "voyage": ("VOYAGE_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
}
"""Variables of each vendor's key. A daemon with a local model looks for keys, too, and needs no
other module of the vendors."""
BATCH_VENDORS = frozenset({"openai", "gemini", "voyage"})
"""Vendors with a batch API."""

_MAX_KEY_CHARS = 16_384
_MAX_FILE_BYTES = 4 * _MAX_KEY_CHARS


@dataclass(frozen=True, slots=True)
class Key:
    """A key and its origin, for people. Only `value` is secret.

    `exposed` is the file that it was found in, if other users can read that file.
    """

    value: str = field(repr=False)
    origin: str
    exposed: Path | None = None


@dataclass(frozen=True, slots=True)
class KeySource:
    """Possible origins of a key: a configured file, or else the first variable that is set.

    Each variable `NAME` has a sibling `NAME_FILE`, which names a file. `environment` None stands
    for that of the process.
    """

    names: tuple[str, ...]
    file: str | None = None
    environment: Mapping[str, str] | None = None

    def find(self) -> Key | None:
        """Return the key, or None if there is none. Raises `PermanentError` for a bad file."""
        place = self.place()
        return _from_file(*place) if isinstance(place, tuple) else place

    def place(self) -> tuple[Path, str] | Key | None:
        """Return the key's file and the setting that names it; or the key itself, or None.

        Raises `PermanentError`. Reads no disk.
        """
        if self.file is not None:
            return _expanded(self.file), "remote.api_key_file"
        if (variable := self.variable) is None:
            return None
        value = self._environment[variable]
        if variable in self.names:
            return _checked(value.strip(), variable)
        return _expanded(value), variable

    @property
    def variable(self) -> str | None:
        """The first variable that holds a key or names its file, None if there is none."""
        for name in self.names:
            if self._environment.get(name, "").strip():
                return name
            if self._environment.get(f"{name}_FILE", ""):
                return f"{name}_FILE"
        return None

    @property
    def _environment(self) -> Mapping[str, str]:
        return os.environ if self.environment is None else self.environment

    @property
    def hint(self) -> str:
        """The settings that provide a key, for people."""
        names = " or ".join(self.names)
        return f"set {names}, or remote.api_key_file" if names else "set remote.api_key_file"


class KeyReader:
    """Reads a key for each request; a key file in a thread, because its disk may hang."""

    def __init__(self, source: KeySource) -> None:
        self._source = source
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="key file")
        self._reading: asyncio.Future[Key | None] | None = None

    async def read(self) -> Key | None:
        """Return the key as `find` does. Raises `RetryableError` while the disk does not answer."""
        place = self._source.place()
        if not isinstance(place, tuple):
            return place
        reading = self._reading
        if reading is None or reading.done():  # otherwise a thread is waiting already
            find = self._thread.submit(self._source.find)
            reading = self._reading = asyncio.wrap_future(find)
            reading.add_done_callback(retrieve_error)
        if reading not in (await asyncio.wait({reading}, timeout=DISK_LIMIT_S))[0]:
            path, origin = place
            raise RetryableError(f"The key file {path} ({origin}) can't be read: {SILENT}.")
        return reading.result()

    def close(self) -> None:
        """Stop reading; a thread that hangs is abandoned. Idempotent."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _expanded(file: str) -> Path:
    return Path(os.path.expanduser(file))  # leaves the home of an unknown user unexpanded


def _from_file(path: Path, origin: str) -> Key:
    try:
        text, mode = _read(path)
        value = text.strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise PermanentError(f"The key file {path} ({origin}) can't be read: {reason}.") from None
    if not value:
        raise PermanentError(f"The key file {path} ({origin}) is empty.")
    exposed = path if stat.S_IMODE(mode) & 0o077 else None
    if exposed is not None:
        _warn_once(exposed)
    return _checked(value, f"{origin} ({path})", exposed)


def _read(path: Path) -> tuple[str, int]:
    """Return what is in a regular file, and its mode. Raises `OSError`."""
    tick(path)
    with open_regular(path) as file:
        return file.read(_MAX_FILE_BYTES).decode(), os.fstat(file.fileno()).st_mode


def key_origin(name: str) -> str | None:
    """Return the origin of a vendor's key, None without a key. Raises `PermanentError`."""
    key = KeySource(KEY_NAMES[name]).find()
    return None if key is None else key.origin


def key_variables() -> dict[str, str]:
    """Return the variable of each vendor whose key is in the environment. Reads no disk."""
    found = {name: KeySource(names).variable for name, names in KEY_NAMES.items()}
    return {name: variable for name, variable in found.items() if variable is not None}


def exposed_hint(path: Path) -> str:
    """Return a warning about a key file that other users can read, with the fix."""
    return f"other users can read the key file {path}; run `chmod 600` on it"


def _checked(value: str, origin: str, exposed: Path | None = None) -> Key:
    if len(value) > _MAX_KEY_CHARS or not value.isprintable() or not value.isascii():
        raise PermanentError(f"The key of {origin} contains characters that no key has.")
    return Key(value, origin, exposed)


@cache
def _warn_once(path: Path) -> None:
    log.warning("%s", exposed_hint(path))
