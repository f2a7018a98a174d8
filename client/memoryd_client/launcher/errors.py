"""Errors of starting and stopping a daemon in the background."""

from memoryd_client.errors import MemorydError
from memoryd_client.shared import service_manager


class StartFailedError(MemorydError):
    """The daemon did not start. `output` has the last lines that it wrote."""

    code = "start_failed"
    output: tuple[str, ...] = ()


class StopFailedError(MemorydError):
    """The daemon was not stopped: it did not exit in time, or its process is uncertain."""

    code = "stop_failed"


class ManagedError(MemorydError):
    """A service manager runs the daemon; the hint has the manager's command."""

    code = "managed"

    def __init__(self, manager: str, to: str) -> None:
        typed = service_manager.command(manager, to)
        super().__init__(f"{manager} runs this memoryd", hint=f"use `{typed}`" if typed else "")


class NoLogError(MemorydError):
    """There is no log file to read."""

    code = "no_log"
