"""Requests that need the index to be written, and what they are told while it can't be."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from memoryd.abandoned import retrieve_error
from memoryd.index.outage import Outage
from memoryd.serve.connection import RequestFailedError
from memoryd_client.protocol import ErrorCode

T = TypeVar("T")


async def while_writable(outage: Outage, work: Coroutine[Any, Any, T]) -> T:
    """Do what has to wait for the writer, but not for a disk that fails.

    Has it tried at once, if it is failing by now. Raises `RequestFailedError` when a try fails;
    what is in the writer's queue by then stays there, and is done when the disk works again.
    """
    outage.hurry()
    failure = asyncio.create_task(outage.until_failure(), name="until a try fails")
    working = asyncio.create_task(work, name="work that needs the writer")
    try:
        await asyncio.wait((working, failure), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise RequestFailedError(
            ErrorCode.UNAVAILABLE, outage.warning or "", outage.advice, retryable=True
        )
    finally:
        failure.cancel()
        working.cancel()
        await asyncio.wait((working, failure))
        retrieve_error(working)
        retrieve_error(failure)
