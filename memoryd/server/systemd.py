"""Notifications to systemd, and the socket that systemd hands over.

The protocols are sd_notify(3) and sd_listen_fds(3), which systemd keeps stable.
"""

import asyncio
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

FIRST_DESCRIPTOR = 3
_MICROSECONDS = re.compile("[0-9]{1,20}")


class Notifier:
    """Notifications to the service manager, if there is one."""

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        environ = dict(os.environ) if environ is None else environ
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_s: float | None = None
        if environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            usec = environ.get("WATCHDOG_USEC", "")
            self._watchdog_s = int(usec) / 1e6 or None if _MICROSECONDS.fullmatch(usec) else None

    def send(self, *lines: str) -> None:
        """Send assignments such as `READY=1`. Ignores a manager that does not listen."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.setblocking(False)
            with suppress(OSError):
                manager.sendto("\n".join(lines).encode(), self._address)

    def reloading(self) -> None:
        """Announce a reload of the configuration; `READY=1` follows."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.send("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    async def run(self, healthy: Callable[[], Awaitable[bool]]) -> None:
        """Feed the watchdog twice per period while `healthy` returns True. Never returns."""
        if self._watchdog_s is None or not self._address:
            await asyncio.Event().wait()
            return
        while True:
            if await healthy():
                self.send("WATCHDOG=1")
                await asyncio.sleep(self._watchdog_s / 2)
            else:
                await asyncio.sleep(self._watchdog_s / 10)


def is_handed_over(environ: Mapping[str, str]) -> bool:
    """Return whether systemd has bound a socket for this process."""
    return environ.get("LISTEN_PID") == str(os.getpid()) and environ.get("LISTEN_FDS") == "1"


def inherited_socket(environ: Mapping[str, str]) -> socket.socket | None:
    """Return the listening socket that systemd has bound, or None. Raises `OSError`."""
    if not is_handed_over(environ):
        return None
    os.set_inheritable(FIRST_DESCRIPTOR, False)
    listener = socket.socket(fileno=FIRST_DESCRIPTOR)
    listener.setblocking(False)
    return listener
