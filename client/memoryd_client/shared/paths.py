"""Where memoryd's files are. The daemon and its clients follow the same rules.

XDG Base Directory Specification: a variable that is unset, empty or relative doesn't count.
"""

import os
import sys

StrPath = str | os.PathLike[str]

SOCKET_PATH_MAX_BYTES = 103 if sys.platform == "darwin" else 107
"""What `sun_path` takes besides its closing NUL: 104 bytes on macOS, 108 on Linux."""


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
    """Return the folders that are for memoryd alone, wherever its files are by default."""
    return (state_dir(), os.path.dirname(_usual_socket_path()))


def lock_path(socket_path: str) -> str:
    """Return the path of the lock file of a socket: who holds it may listen there."""
    return f"{socket_path}.lock"


def socket_suffix(path: str) -> str:
    """Return what tells the files of daemons with different sockets apart; "" for the default.

    `MEMORYD_SOCKET` has no part in what counts as the default.
    """
    if os.path.abspath(path) == _usual_socket_path():
        return ""
    from hashlib import sha256

    return f"-{sha256(os.fsencode(os.path.abspath(path))).hexdigest()[:8]}"


def check_socket_path(path: str) -> str:
    """Return `path`, or raise `ValueError` if it is too long for a socket's address."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX_BYTES:
        raise ValueError(
            f"the socket path is {length} bytes long, but this system takes at most "
            f"{SOCKET_PATH_MAX_BYTES}: {path}\n"
            "Set MEMORYD_SOCKET (or --socket) to a shorter path."
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
