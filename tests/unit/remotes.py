"""HTTP providers for tests: real requests to a vendor's double, with a fake clock."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest
from vendors import Double, GeminiDouble, MistralDouble, OllamaDouble, OpenAiDouble, VoyageDouble

from memoryd.config.settings import Remote, Settings
from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import Provider
from memoryd.embed.vendors.factory import make_remote
from memoryd.embed.vendors.remote import RemoteProvider

KEY = "sk-double-Zq7+Zq7/Zq7Zq7Zq7Zq7"


class Vendor(NamedTuple):
    """A vendor: its double, the path for embeddings, the model and the variable of the key."""

    double: Callable[..., Double]
    path: str
    model: str
    variable: str


VENDORS = {
    "openai": Vendor(OpenAiDouble, "/v1/embeddings", "text-embedding-3-small", "OPENAI_API_KEY"),
    "gemini": Vendor(
        GeminiDouble,
        "/v1beta/models/gemini-embedding-001:batchEmbedContents",
        "gemini-embedding-001",
        "GEMINI_API_KEY",
    ),
    "voyage": Vendor(VoyageDouble, "/v1/embeddings", "voyage-4-large", "VOYAGE_API_KEY"),
    "mistral": Vendor(MistralDouble, "/v1/embeddings", "mistral-embed", "MISTRAL_API_KEY"),
    "ollama": Vendor(OllamaDouble, "/api/embed", "nomic-embed-text", "OLLAMA_API_KEY"),
}
NAMES = tuple(VENDORS)
WITH_KEY = tuple(name for name in NAMES if name != "ollama")
_VARIABLES = (
    *(vendor.variable for vendor in VENDORS.values()),
    "GOOGLE_API_KEY",
    "OPENAI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "OLLAMA_HOST",
)


def clear(environment: pytest.MonkeyPatch) -> None:
    """Remove every variable that a provider reads from the environment."""
    for name in _VARIABLES:
        environment.delenv(name, raising=False)
        environment.delenv(f"{name}_FILE", raising=False)
    environment.setenv("no_proxy", "*")


def set_keys(environment: pytest.MonkeyPatch, key: str = KEY) -> None:
    """Clear the environment, then set a key for each vendor."""
    clear(environment)
    for vendor in VENDORS.values():
        environment.setenv(vendor.variable, key)


def double_of(name: str) -> Double:
    """Return a vendor's double, which requires `KEY` unless the vendor needs none."""
    vendor = VENDORS[name].double
    return vendor() if name == "ollama" else vendor(key=KEY)


@contextlib.asynccontextmanager
async def remote(
    name: str, base_url: str | None, *, of_remote: dict[str, Any] | None = None, **of_settings: Any
) -> AsyncIterator[RemoteProvider]:
    """Provide a provider for `base_url` with these settings."""
    settings = Settings(
        provider=name,  # type: ignore[arg-type]
        remote=Remote(base_url=base_url, **(of_remote or {})),
        **of_settings,
    )
    provider = make_remote(name, settings)
    try:
        yield provider
    finally:
        await provider.close()


class FakeClock:
    """A clock that only `sleep` advances; pauses of `held_from_s` or more end only by `wake`."""

    def __init__(self, held_from_s: float = float("inf")) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []
        self.held_from_s = held_from_s

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if seconds >= self.held_from_s:
            await asyncio.get_running_loop().create_future()
        self.now_s += max(0.0, seconds)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def pool_of(provider: Provider, clock: FakeClock) -> AsyncIterator[EmbedPool]:
    """Provide a running pool without jitter."""
    pool = EmbedPool(asyncio.Queue(), provider, sleep=clock.sleep, clock=clock, jitter=lambda: 0.0)
    task = asyncio.create_task(pool.run())
    try:
        yield pool
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
