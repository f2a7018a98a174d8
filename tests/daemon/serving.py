"""Runs a vendor's double for synchronous tests, in a thread with its own loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from vendors import Double

D = TypeVar("D", bound=Double)


@contextmanager
def serving(double: D) -> Iterator[D]:
    """Run a double until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="double", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(double.__aenter__(), loop).result()
        try:
            yield double
        finally:
            done = double.__aexit__(None, None, None)
            asyncio.run_coroutine_threadsafe(done, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
