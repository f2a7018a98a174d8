"""Provider over HTTP: any vendor's `Api`, at any address."""

import asyncio
import hashlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from memoryd.embed.answer_limit import max_answer_bytes
from memoryd.embed.provider import Calibration, FloatMatrix, utf8_bytes
from memoryd.embed.vendors.api import Api, EmbeddedRows, Purpose, RequestOptions

if TYPE_CHECKING:
    from memoryd.embed.vendors.http import Http

TIMEOUT_S = 120.0
QUERY_TIMEOUT_S = 60.0
LOCAL_TIMEOUT_S = 600.0
LOCAL_QUERY_TIMEOUT_S = 300.0
"""Seconds; longer, because a server on this machine may have to load its model first."""
LARGE_BYTES = 64 * 1024
"""Larger answers are decoded in a thread: 64 vectors of 3,072 numbers take about 20 ms."""
_MIN_INPUT_BYTES = 256


class RemoteProvider:
    """Provider backed by a server. Connects at the first request."""

    calibration: Calibration | None = None
    remote = True
    window_units: int | None = None

    def __init__(
        self,
        api: Api,
        http: "Http",
        options: RequestOptions,
        *,
        batch_items: int,
        batch_bytes: int,
        concurrency: int | None,
        key_of: Mapping[str, str],
    ) -> None:
        """`key_of` are the headers that determine vectors, without secrets."""
        self.name = api.name
        self.model = options.model
        self.dims: int | None = options.dimensions
        self.route = http.route
        self.tokens_used = 0
        self.batch_items = min(batch_items, api.max_items)
        self.batch_bytes = batch_bytes
        self.concurrency = concurrency or api.concurrency
        far = self.route.leaves_machine
        self.query_timeout_s = QUERY_TIMEOUT_S if far else LOCAL_QUERY_TIMEOUT_S
        longest_prefix = max(map(utf8_bytes, (options.query_prefix, options.document_prefix)))
        self.max_input_bytes = max(_MIN_INPUT_BYTES, api.max_input_bytes - longest_prefix)
        self.http = http
        self.api = api
        self.options = options
        self._timeout_s = TIMEOUT_S if far else LOCAL_TIMEOUT_S
        self._answered_dims = options.dimensions
        self.key = _identity_key(http, options, key_of)

    @property
    def warning(self) -> str | None:
        """A warning about an unsafe key file, None if there is none."""
        return self.http.warning

    @property
    def is_ready(self) -> bool:
        """True: a server needs no preparation."""
        return True

    async def embed_query(self, text: str) -> FloatMatrix:
        """Embed one query. Returns shape (1, dims). Raises `ProviderError`."""
        return await self._embed([text], "query", self.query_timeout_s)

    async def embed_documents(self, texts: list[str]) -> FloatMatrix:
        """Embed texts. Returns shape (len(texts), dims). Raises `ProviderError`."""
        return await self._embed(texts, "document", self._timeout_s)

    def warm(self) -> None:
        """Do nothing: requests to a server cost money."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self.http.close()

    async def _embed(self, texts: list[str], purpose: Purpose, timeout_s: float) -> FloatMatrix:
        sent = [self.options.sent(text, purpose) for text in texts]
        body = self.api.body(sent, purpose, self.options)
        raw = await self.http.post(
            self.api.path(self.options),
            body,
            timeout_s=timeout_s,
            max_bytes=max_answer_bytes(len(texts), self._answered_dims),
        )
        read = partial(self.api.read, raw, len(texts))
        answer: EmbeddedRows = read() if len(raw) < LARGE_BYTES else await asyncio.to_thread(read)
        self.tokens_used += answer.tokens
        self._answered_dims = answer.rows.shape[1]
        return answer.rows


def _identity_key(http: "Http", options: RequestOptions, key_of: Mapping[str, str]) -> str:
    """Return a hash of all that determines vectors, except model, provider and secrets."""
    base = http.base.with_user(None)
    said = {name: value for name, value in msgspec.to_builtins(options).items() if value}
    facts = [str(base), said, sorted(key_of.items())]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]
