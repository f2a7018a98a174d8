"""What can go wrong with a daemon in the background."""

from memoryd_client.errors import MemorydError
from memoryd_client.shared import service_manager


class StartFailedError(MemorydError):
    """The daemon did not come up. `output` is what it wrote before it ended, the last lines."""

    code = "start_failed"
    output: tuple[str, ...] = ()


class StopFailedError(MemorydError):
    """The daemon was not stopped: it did not go in time, or it is not certain which one it is."""

    code = "stop_failed"


class ManagedError(MemorydError):
    """A service manager runs the daemon; it has to be asked instead, as the hint says."""

    code = "managed"

    def __init__(self, manager: str, to: str) -> None:
        typed = service_manager.command(manager, to)
        super().__init__(
            f"this memoryd is run by {manager}", hint=f"use `{typed}`" if typed else ""
        )


class NoLogError(MemorydError):
    """There is no log file to read."""

    code = "no_log"
