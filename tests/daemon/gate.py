"""Holds back the answers of a vendor's double, controlled from another thread."""

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
        """Open the gate permanently."""
        self._opened.set()
