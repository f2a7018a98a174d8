"""The common parts of all doubles: a server that records, counts and fails."""

import abc
import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Self

from aiohttp import web

from vendors.faults import TRANSIENT, AnyFault, Fault, RateLimit, Row, spoiled
from vendors.vectors import embedding

_MAX_BODY_BYTES = 1024 * 1024 * 1024
_HTML = (
    b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request: header names in lower case, the body as parsed JSON or else as bytes."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Asked:
    """The contents of a valid request for embeddings."""

    model: str
    texts: list[str]
    dims: int
    base64: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer; the server calls `sent` after the last byte is written."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: Callable[[], None] | None = None


class RefusedError(Exception):
    """An error answer, with the facts for the vendor's message."""

    def __init__(self, fault: AnyFault, **facts: object) -> None:
        super().__init__(fault)
        self.fault = fault
        self.facts = facts


def as_json(body: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Encode an answer as JSON, with the invalid literal NaN that some servers send."""
    return Answer(json.dumps(body).encode(), status, headers=headers or {})


class Double(abc.ABC):
    """A vendor on a local port, used as an async context manager.

    Tests read `url`, `requests`, `embedded` (the number of good vectors per text in complete
    answers), `inputs` (the texts of each inline request), `most_at_once`, and `cancelled` (clients
    that disconnected before the answer). Tests set `models`, `latency_s`, `max_items`,
    `max_text_chars`, `bad_texts`, `gate`, and the faults.
    """

    prefix: ClassVar[str] = "/v1"
    default_model: ClassVar[str]
    indexed: ClassVar[bool] = True
    errors: ClassVar[Mapping[Fault, Any]]

    def __init__(self, *, key: str | None = "sk-double", dims: int = 8) -> None:
        """Create the double without starting it. An empty `key` disables the check of keys."""
        self.key = key
        self.dims = dims
        self.url = ""
        self.models: set[str] = {self.default_model}
        self.requests: list[Seen] = []
        self.inputs: list[list[str]] = []
        self.embedded: Counter[str] = Counter()
        self.most_at_once = 0
        self.cancelled = 0
        self.latency_s = 0.0
        self.max_items: int | None = None
        self.max_text_chars: int | None = None
        self.bad_texts: set[str] = set()
        self.gate: asyncio.Event | None = None
        self._under_way = 0
        self._faults: list[tuple[str | None, AnyFault]] = []
        self._at_random: tuple[float, random.Random, Sequence[AnyFault]] | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=_MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=0
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}{self.prefix}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def fail(self, fault: AnyFault, times: int = 1, path: str | None = None) -> None:
        """Fail the next `times` requests whose path contains `path` (by default: embeddings)."""
        self._faults += [(path, fault)] * times

    def fail_at_random(
        self, rate: float, seed: int, faults: Sequence[AnyFault] = TRANSIENT
    ) -> None:
        """Fail each request for embeddings with this probability, with one of these faults."""
        self._at_random = (rate, random.Random(seed), faults)

    def heal(self) -> None:
        """Remove all pending faults."""
        self._faults.clear()
        self._at_random = None

    @abc.abstractmethod
    def embeds(self, seen: Seen) -> bool:
        """Return whether the path is that of a request for embeddings."""

    @property
    def asked_for(self) -> list[list[str]]:
        """The texts of each inline request, without those that measure the scale of cosines."""
        # Vendors' SDKs run against the doubles where memoryd is not installed.
        from memoryd.embed.scale import REFERENCE

        return [texts for texts in self.inputs if texts[0] != REFERENCE[0][0]]

    @abc.abstractmethod
    def texts(self, seen: Seen) -> list[str]:
        """Return the texts of a request for embeddings, even if the rest is invalid."""

    @abc.abstractmethod
    def asked(self, seen: Seen) -> Asked:
        """Check a request for embeddings as the vendor does. Raises `RefusedError`."""

    @abc.abstractmethod
    def embeddings(self, asked: Asked, rows: list[Row]) -> Any:
        """Return the vendor's JSON for these vectors."""

    @abc.abstractmethod
    def error(self, fault: AnyFault, facts: Mapping[str, object]) -> Answer:
        """Return the vendor's own error for a fault in `errors`, or a rate limit."""

    def key_sent(self, seen: Seen) -> str | None:
        """Return the key of a request, or None."""
        scheme, _, key = seen.headers.get("authorization", "").partition(" ")
        return key if scheme.lower() == "bearer" and key else None

    def other(self, seen: Seen) -> Answer:
        """Answer a request that is not for embeddings. Raises `RefusedError`."""
        raise RefusedError(Fault.NOT_FOUND, method=seen.method, path=seen.path)

    def check(self, model: str, texts: Sequence[str]) -> None:
        """Run the checks that all vendors share. Raises `RefusedError`."""
        if model not in self.models:
            raise RefusedError(Fault.UNKNOWN_MODEL, model=model)
        if self.max_items is not None and len(texts) > self.max_items:
            raise RefusedError(Fault.TOO_MANY, model=model, items=len(texts), limit=self.max_items)
        for index, text in enumerate(texts):
            if self.max_text_chars is not None and len(text) > self.max_text_chars:
                raise RefusedError(
                    Fault.TOO_LONG,
                    model=model,
                    index=index,
                    items=len(text),
                    limit=self.max_text_chars,
                )
            if text in self.bad_texts:
                raise RefusedError(Fault.BAD_REQUEST, model=model, index=index)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        seen = Seen(
            request.method,
            request.path,
            dict(request.query),
            {name.lower(): value for name, value in request.headers.items()},
            _parsed(raw, request.content_type),
        )
        self.requests.append(seen)
        embeds = self.embeds(seen)
        if embeds:
            self.inputs.append(self.texts(seen))
        fault = self._next_fault(seen, embeds)
        with self._counted(embeds):
            await asyncio.sleep(self.latency_s)
            if self.gate is not None:
                await self.gate.wait()
            if fault is Fault.SLOW:
                await asyncio.Event().wait()
            if fault is Fault.DROPPED:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()
            return await _send(request, self._answer(seen, embeds, fault), fault)

    @contextmanager
    def _counted(self, embeds: bool) -> Iterator[None]:
        self._under_way += embeds
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self._under_way -= embeds

    def _next_fault(self, seen: Seen, embeds: bool) -> AnyFault | None:
        for number, (path, fault) in enumerate(self._faults):
            if embeds if path is None else path in seen.path:
                del self._faults[number]
                return fault
        if embeds and self._at_random is not None:
            rate, drawn, faults = self._at_random
            if drawn.random() < rate:
                return drawn.choice(faults)
        return None

    def _answer(self, seen: Seen, embeds: bool, fault: AnyFault | None) -> Answer:
        if fault in (Fault.HTML_502, Fault.HTML_200):
            return Answer(_HTML, 502 if fault is Fault.HTML_502 else 200, "text/html")
        if fault is Fault.EMPTY:
            return Answer(b"")
        try:
            if fault is not None and (isinstance(fault, RateLimit) or fault in self.errors):
                raise RefusedError(fault, key=self.key_sent(seen))
            sent = self.key_sent(seen)
            if self.key is not None and sent != self.key:
                raise RefusedError(Fault.NO_KEY if sent is None else Fault.WRONG_KEY, key=sent)
            return self._embedded(self.asked(seen), fault) if embeds else self.other(seen)
        except RefusedError as refused:
            defaults = {"model": self.default_model, "items": 0, "limit": 0, "index": 0}
            return self.error(
                refused.fault, defaults | {"method": seen.method, "path": seen.path} | refused.facts
            )

    def _embedded(self, asked: Asked, fault: AnyFault | None) -> Answer:
        rows = [(i, embedding(text, asked.dims)) for i, text in enumerate(asked.texts)]
        rows, good = spoiled(fault, rows, indexed=self.indexed)
        body = json.dumps(self.embeddings(asked, rows))
        if fault is Fault.NULL:
            body = body.replace("[NaN", "[null")

        def sent() -> None:
            if fault not in (Fault.TRUNCATED, Fault.BROKEN_OFF):
                self.embedded.update(asked.texts[index] for index in good)

        return Answer(body.encode(), sent=sent)


def _parsed(raw: bytes, content_type: str) -> Any:
    if content_type != "application/json":
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


async def _send(request: web.Request, answer: Answer, fault: AnyFault | None) -> web.StreamResponse:
    """Send an answer, or the part of it that a fault leaves."""
    response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
    response.content_type = answer.content_type
    body = answer.body[: len(answer.body) // 2] if fault is Fault.TRUNCATED else answer.body
    response.content_length = len(body)
    await response.prepare(request)
    if fault is Fault.BROKEN_OFF:
        await response.write(body[: len(body) // 2])
        if request.transport is not None:
            request.transport.close()
        return response
    await response.write(body)
    await response.write_eof()
    if answer.sent is not None:
        answer.sent()
    return response
