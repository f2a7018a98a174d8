"""Work that nobody waits for any more: asyncio logs its errors unless they are retrieved."""

import asyncio
from typing import Any


def retrieve_error(work: asyncio.Future[Any]) -> None:
    """Retrieve the error of finished work, if it has one. Usable as a done callback."""
    if not work.cancelled():
        work.exception()
