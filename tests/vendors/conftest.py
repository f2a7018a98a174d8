"""What tests of the doubles share."""

from collections.abc import AsyncIterator

import aiohttp
import pytest


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Give a plain client."""
    async with aiohttp.ClientSession() as session:
        yield session
