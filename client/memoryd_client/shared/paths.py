"""Default paths of memoryd's files, shared by the daemon and its clients.

XDG Base Directory Specification: an unset, empty or relative variable is ignored.
"""

import os
import sys

StrPath = str | os.PathLike[str]

SOCKET_PATH_MAX_BYTES = 103 if sys.platform == "darwin" else 107
"""Size of `sun_path` without its closing NUL: 104 bytes on macOS, 108 on Linux."""


class SocketPathError(ValueError):
    """A socket path is too long. `hint` has the next step."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message, self.hint = message, hint


def state_dir() -> str:
    """Return the folder of indexes and other state, which may not exist yet."""
    return os.path.join(_base("XDG_STATE_HOME", "~/.local/state"), "memoryd")


def config_path() -> str:
    """Return the path of the configuration file, which may not exist."""
    return os.path.join(_base("XDG_CONFIG_HOME", "~/.config"), "memoryd", "config.toml")


def default_socket_path() -> str:
    """Return the socket's path: `MEMORYD_SOCKET`, the runtime directory, or the state directory."""
    if chosen := os.environ.get("MEMORYD_SOCKET"):
        return os.path.abspath(os.path.expanduser(chosen))
    return _usual_socket_path()


def own_folders() -> tuple[str, ...]:
    """Return the default folders that belong to memoryd alone."""
    return (state_dir(), os.path.dirname(_usual_socket_path()))


def lock_path(socket_path: str) -> str:
    """Return the path of a socket's lock file, whose holder may listen there."""
    return f"{socket_path}.lock"


def restricted_socket_path(setting: bool | str, socket_path: str) -> str | None:
    """Return the path of the restricted socket beside a daemon's main one; None: there is none.

    Its default folder has nothing else in it, so that it can be given to a sandbox as a whole.
    """
    if isinstance(setting, str):
        return os.path.abspath(os.path.expanduser(setting))
    folder, name = os.path.split(os.path.abspath(socket_path))
    own = f"{os.path.splitext(name)[0]}-agent"
    return os.path.join(folder, own, "memoryd.sock") if setting else None


def restricted_lock_path(socket_path: str) -> str:
    """Return the path of a restricted socket's lock file, which stays outside its folder.

    The file is never removed. So it tells that a path was given to agents, also while none listens.
    """
    from hashlib import sha256

    real = os.path.realpath(socket_path)
    name = f"restricted-{sha256(os.fsencode(real)).hexdigest()[:8]}.lock"
    return os.path.join(state_dir(), name)


def is_restricted_socket(path: str) -> bool:
    """Return whether a path is, or was, the restricted socket of a daemon of this user."""
    usual = restricted_socket_path(True, _usual_socket_path())
    return os.path.abspath(path) == usual or os.path.lexists(restricted_lock_path(path))


def socket_suffix(path: str) -> str:
    """Return a suffix that separates the files of daemons by socket; "" for the default socket.

    `MEMORYD_SOCKET` does not change the default.
    """
    if os.path.abspath(path) == _usual_socket_path():
        return ""
    from hashlib import sha256

    return f"-{sha256(os.fsencode(os.path.abspath(path))).hexdigest()[:8]}"


def check_socket_path(path: str) -> str:
    """Return `path`. Raises `SocketPathError` if it is too long for a socket address."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX_BYTES:
        raise SocketPathError(
            f"the socket path has {length} bytes, the maximum is {SOCKET_PATH_MAX_BYTES}: {path}",
            "set MEMORYD_SOCKET (or --socket) to a shorter path",
        )
    return path


def _usual_socket_path() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        return os.path.join(runtime, "memoryd", "memoryd.sock")
    return os.path.join(state_dir(), "run", "memoryd.sock")


def _base(variable: str, default: str) -> str:
    value = os.environ.get(variable, "")
    return value if os.path.isabs(value) else os.path.expanduser(default)
