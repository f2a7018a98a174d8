"""An embedding server, compatible with OpenAI's, that fails as real servers do."""

import asyncio
import hashlib
import random
from collections import Counter

import numpy as np
from aiohttp import web

DIMS = 64
OUT_EVERY_S = 9.0
OUT_FOR_S = 2.0


class FailingProvider:
    """A server that fails one request in ten, and all requests in regular outages.

    `served` counts answers by HTTP status, and dropped connections under 0.
    """

    def __init__(self, dice: random.Random) -> None:
        self.served: Counter[int] = Counter()
        self.url = ""
        self._dice = dice
        self._runner: web.AppRunner | None = None
        self._started_s = 0.0

    async def __aenter__(self) -> "FailingProvider":
        application = web.Application()
        application.router.add_post("/v1/embeddings", self._embeddings)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        self._started_s = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def is_out(self) -> bool:
        """True during an outage, in which every request fails."""
        age_s = asyncio.get_running_loop().time() - self._started_s
        return age_s % OUT_EVERY_S >= OUT_EVERY_S - OUT_FOR_S

    async def _embeddings(self, request: web.Request) -> web.Response:
        texts = (await request.json())["input"]
        status = 503 if self.is_out else self._dice.choices((200, 429, 500, 0), (90, 4, 3, 3))[0]
        self.served[status] += 1
        if status == 0:
            assert request.transport is not None
            request.transport.close()
        if status != 200:
            return web.json_response({"error": {"message": "not now"}}, status=status or 500)
        data = [{"index": n, "embedding": _vector(text)} for n, text in enumerate(texts)]
        return web.json_response({"data": data, "usage": {"total_tokens": len(texts)}})


def _vector(text: str) -> list[float]:
    """Return a vector that depends on the text only."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    values: list[float] = np.random.default_rng(seed).standard_normal(DIMS).round(4).tolist()
    return values
