"""Fixtures for the tests of the doubles."""

from collections.abc import AsyncIterator

import aiohttp
import pytest


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Provide a plain HTTP client."""
    async with aiohttp.ClientSession() as session:
        yield session
