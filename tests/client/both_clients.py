"""The blocking and the asyncio client behind one interface, for their common tests."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack
from typing import Any, cast

import pytest

from memoryd_client import AsyncClient, Client

SHORT_S = 0.02
"""A timeout that is meant to expire in the test; the script waits for its consequence."""


class Blocking:
    """An `AsyncClient` with the blocking methods of a `Client`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*args, **options)

    def __enter__(self) -> "Blocking":
        with ExitStack() as undo:
            undo.callback(self._runner.close)
            self._runner.run(self._client.__aenter__())
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._client.close())

    @property
    def agent(self) -> str | None:
        return self._client.agent

    @agent.setter
    def agent(self, agent: str | None) -> None:
        self._client.agent = agent

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            called = getattr(self._client, name)(*args, **options)
            if isinstance(called, AsyncGenerator):
                return self._steps(called)
            return self._runner.run(called)

        return call

    def _steps(self, steps: AsyncGenerator[Any, None]) -> Generator[Any, None, None]:
        async def step() -> Any:
            return await anext(steps, None)

        try:
            while (element := self._runner.run(step())) is not None:
                yield element
        finally:
            self._runner.run(steps.aclose())


Connect = Callable[..., Client]

with_both_clients = pytest.mark.parametrize(
    "connect", [cast(Connect, Client), cast(Connect, Blocking)], ids=["sync", "async"]
)
