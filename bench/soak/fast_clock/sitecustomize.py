"""Has time pass `SOAK_SPEED` times as fast in a process with this folder on its `PYTHONPATH`.

That holds for `time.monotonic` and for the timers of asyncio's own loop, so for every interval,
schedule and limit of memoryd; what SQLite, the kernel and other threads wait for takes as long as
ever. uvloop's timers can't be reached, so it is not used.
"""

import os
import selectors
import sys
import time

SPEED = float(os.environ["SOAK_SPEED"])
_monotonic = time.monotonic
_started = _monotonic()
_select = selectors.DefaultSelector.select


def monotonic() -> float:
    """Return what `time.monotonic` does, as many times as far from the start of the process."""
    return _started + (_monotonic() - _started) * SPEED


def select(
    self: selectors.DefaultSelector, timeout: float | None = None
) -> list[tuple[selectors.SelectorKey, int]]:
    """Wait as much shorter."""
    return _select(self, None if timeout is None else timeout / SPEED)


time.monotonic = monotonic
selectors.DefaultSelector.select = select  # type: ignore[method-assign]
sys.modules["uvloop"] = None  # type: ignore[assignment]
