"""Files of agents: read whole, and replaced in one step with their mode kept.

Links are followed, since people keep settings elsewhere; the file that they lead to is replaced.
"""

import os
import stat
from contextlib import suppress
from tempfile import mkstemp

from memctl.connect.entries import ConnectError
from memoryd_client.shared.safe_open import open_regular

MAX_BYTES = 64 * 1024 * 1024
PRIVATE = 0o600


class FileChangedError(Exception):
    """Somebody else has changed the file meanwhile."""


def read(path: str) -> bytes | None:
    """Return the content of a file that may be changed, None if there is none.

    Raises `ConnectError`.
    """
    content = peek(path)
    if content is not None:
        _check(path, os.stat(path))
    return content


def peek(path: str) -> bytes | None:
    """Return the content of a file, None if there is none. Raises `ConnectError`."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if os.path.islink(path):
            raise ConnectError(
                f"{path} is a link to a missing file", hint="remove the link, then try again"
            ) from None
        return None
    except NotADirectoryError as error:
        raise ConnectError(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise ConnectError(f"can't read {path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ConnectError(f"{path} is larger than {MAX_BYTES} bytes")
    return content


def replace(path: str, before: bytes | None, after: bytes | None) -> None:
    """Replace the content of a file, which is still `before`. None stands for no file.

    Raises `FileChangedError` or `OSError`.
    """
    real = os.path.realpath(path)
    if after is None:
        _check_same(real, before)
        with suppress(FileNotFoundError):
            os.unlink(real)
        return
    descriptor, new = mkstemp(prefix=f".{os.path.basename(real)}.", dir=os.path.dirname(real))
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(os.stat(real).st_mode))
            file.write(after)
            file.flush()
            os.fsync(descriptor)
        _check_same(real, before)
        os.replace(new, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


def make_folder(path: str) -> list[str]:
    """Create a private folder and those above it; return the created ones. Raises `OSError`."""
    made: list[str] = []
    while not os.path.isdir(path):
        made.insert(0, path)
        path = os.path.dirname(path)
    for folder in made:
        os.mkdir(folder, 0o700)
    return made


def _check(path: str, found: os.stat_result) -> None:
    """Raise `ConnectError` for a file that its owner does not want to be changed."""
    if found.st_uid != os.geteuid():
        raise ConnectError(
            f"{path} belongs to another user (uid {found.st_uid})", hint="run memctl as that user"
        )
    if not found.st_mode & stat.S_IWUSR:
        raise ConnectError(f"{path} is read-only", hint="`chmod u+w` it, then try again")


def _check_same(real: str, before: bytes | None) -> None:
    try:
        with open_regular(real) as file:
            current = file.read()
    except FileNotFoundError:
        current = None
    if current != before:
        raise FileChangedError(real)
