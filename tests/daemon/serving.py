"""Runs a vendor's double for synchronous tests, in a thread with its own loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from harness import Daemon
from vendors import Double, OpenAiDouble

D = TypeVar("D", bound=Double)
LAN = "http://embed.lan:8000/v1"
SECRET = "plantedproxy0123456789"


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


def through(daemon: Daemon, proxy: str) -> None:
    """Set proxies as a company's profile does, with nothing exempt."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        daemon.variables[name] = daemon.variables[name.upper()] = proxy


def on_the_lan(daemon: Daemon, double: OpenAiDouble) -> str:
    """Have the double answer for a server of the network, as the proxy before it.

    Return the description of the way to it.
    """
    proxy = double.url.removeprefix("http://").partition("/")[0]
    through(daemon, f"http://me:{SECRET}@{proxy}")
    daemon.variables["OPENAI_BASE_URL"] = LAN
    return f"embed.lan:8000 (another machine, not encrypted, through the proxy {proxy})"
