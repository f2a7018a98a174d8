"""Start of the daemon on first use, with `autostart = true`."""

import os

from memoryd_client.shared import paths
from memoryd_client.shared.safe_open import open_regular

READY_S = 30.0


def autostart(socket_path: str) -> bool:
    """Start a daemon at this socket if the configuration enables it; return whether it does.

    `MEMORYD_NO_AUTOSTART`, set to anything but 0, disables it, and none is started at a restricted
    socket. Raises the errors of `control.start`.
    """
    if not may_start(socket_path):
        return False
    from memoryd_client.launcher import control as background

    background.start(socket_path, options=[], ready_s=READY_S)
    return True


def may_start(socket_path: str) -> bool:
    """Return whether a daemon may be started at this socket.

    Raises `StartFailedError` if somebody else could have enabled it.
    """
    if os.environ.get("MEMORYD_NO_AUTOSTART", "0") not in ("", "0"):
        return False
    return is_enabled(paths.config_path()) and not paths.is_restricted_socket(socket_path)


def is_enabled(config_path: str) -> bool:
    """Return whether the configuration enables autostart. The daemon reports a broken one.

    Raises `StartFailedError` if somebody else could have enabled it.
    """
    try:
        with open_regular(config_path) as file:
            from memoryd_client.shared import toml

            if toml.loads(file.read(toml.MAX_BYTES + 1)).get("autostart") is not True:
                return False
    except (OSError, ValueError):
        return False
    from memoryd_client.launcher.errors import StartFailedError
    from memoryd_client.shared import ownership

    try:
        ownership.check_file(config_path)
    except OSError as error:
        raise StartFailedError(
            f"autostart is on in a configuration that is not yours alone: {error.strerror}",
            hint=getattr(error, "hint", "") or "set XDG_CONFIG_HOME to your own folder",
        ) from error
    return True
