"""Errors of starting and stopping a daemon in the background."""

from memoryd_client.errors import MemorydError
from memoryd_client.shared import paths, service_manager


class StartFailedError(MemorydError):
    """The daemon did not start. `output` has the last lines that it wrote."""

    code = "start_failed"
    output: tuple[str, ...] = ()


class StopFailedError(MemorydError):
    """The daemon was not stopped: it did not exit in time, or its process is uncertain."""

    code = "stop_failed"


class RestrictedSocketError(MemorydError):
    """The socket is a restricted one, at which no daemon can be started or stopped."""

    code = "restricted_socket"

    def __init__(self, socket_path: str) -> None:
        super().__init__(
            f"{socket_path} is the restricted socket of a memoryd: it only answers agents",
            hint="use the main socket: unset MEMORYD_SOCKET, or name it with --socket",
        )


def check_main_socket(path: str) -> str:
    """Return `path`. Raises `RestrictedSocketError` if it is, or was, a restricted socket."""
    if paths.is_restricted_socket(path):
        raise RestrictedSocketError(path)
    return path


class ManagedError(MemorydError):
    """A service manager runs the daemon; the hint has the manager's command."""

    code = "managed"

    def __init__(self, manager: str, to: str) -> None:
        typed = service_manager.command(manager, to)
        super().__init__(f"{manager} runs this memoryd", hint=f"use `{typed}`" if typed else "")


class NoLogError(MemorydError):
    """There is no log file to read."""

    code = "no_log"
