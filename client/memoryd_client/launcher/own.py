"""Refusal of a memoryd whose socket, lock or log somebody else can change."""

import os
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from memoryd_client.errors import MemorydError
from memoryd_client.shared import lock_holder, ownership, paths
from memoryd_client.shared.ownership import NotOursError

_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_DEEDS = {"logs": "read the log of"}
"""Words for an error, by command, where the command's name does not do."""


@contextmanager
def only_own(socket_path: str, to: str, failure: Callable[..., MemorydError]) -> Iterator[None]:
    """Check the socket, its lock and their folder before a command of `memctl`, named by `to`.

    Raises `failure` if they are not the caller's, then and if it turns out later. Root, too, takes
    nothing from the files of another user.
    """
    try:
        with suppress(*_NOT_THERE):
            ownership.check_folder(os.path.dirname(socket_path))
            lock_holder.read(paths.lock_path(socket_path))
            _check_socket(socket_path)
        yield
    except PermissionError as error:
        reason = error.message if isinstance(error, NotOursError) else error.strerror
        message = f"can't {_DEEDS.get(to, to)} the memoryd at {socket_path}: {reason}"
        raise failure(message, hint=_hint(error, socket_path, to)) from error


def _check_socket(path: str) -> None:
    """Raise `NotOursError` for the socket of another user. A service manager of root may own it."""
    found = os.lstat(path)
    if stat.S_ISSOCK(found.st_mode) and found.st_uid not in (os.geteuid(), 0):
        message = f"the socket belongs to another user (uid {found.st_uid})"
        raise NotOursError(message, uid=found.st_uid)


def _hint(error: PermissionError, socket_path: str, to: str) -> str:
    if not isinstance(error, NotOursError):
        return "check who owns the socket, its lock and its log"
    elsewhere = "set MEMORYD_SOCKET, or --socket, to the socket of your memoryd"
    if error.uid is not None and os.geteuid() == 0:
        command = f"sudo -u {_user(error.uid)} memctl {to} --socket {shlex.quote(socket_path)}"
        return f"as that user: `{command}`; or {elsewhere}"
    return f"{error.hint}, or {elsewhere}" if error.hint else elsewhere


def _user(number: int) -> str:
    import pwd

    try:
        return shlex.quote(pwd.getpwuid(number).pw_name)
    except KeyError:
        return f"'#{number}'"
