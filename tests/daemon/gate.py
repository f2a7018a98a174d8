"""Holds back what a vendor's double answers, from a thread that is not its own."""

import asyncio
import threading
from typing import Literal

_LOOK_S = 0.005


class Gate(asyncio.Event):
    """Closed until `open_up` is called, from any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = threading.Event()

    async def wait(self) -> Literal[True]:
        """Wait in the double's loop."""
        while not self._opened.is_set():
            await asyncio.sleep(_LOOK_S)
        return True

    def open_up(self) -> None:
        """Let everything pass from now on."""
        self._opened.set()
