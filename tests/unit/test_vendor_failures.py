"""All failures of all vendors: the error, its message, and the reaction of the pool."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp.client_reqrep import ConnectionKey
from remotes import KEY, NAMES, VENDORS, FakeClock, double_of, pool_of, remote, set_keys
from vendors import (
    TRANSIENT,
    AnyFault,
    Fault,
    GeminiDouble,
    OpenAiDouble,
    RateLimit,
    embedding,
    openai_double,
)
from waiting import settle

from memoryd.embed.circuit_breaker import AFTER_MAX_S
from memoryd.embed.pool import EmbedOutcome
from memoryd.embed.provider import (
    BadTextError,
    BatchTooLargeError,
    PermanentError,
    ProviderError,
    RetryableError,
    unit_rows,
)
from memoryd.embed.vendors import http as http_module
from memoryd.embed.vendors.http import ERROR_BODY_BYTES, without_secrets
from memoryd.embed.vendors.http_errors import SHOWN_CHARS, refusal
from memoryd.embed.vendors.remote import RemoteProvider

TEXTS = ["one", "two three", "four"]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_keys(monkeypatch)


async def failed(provider: RemoteProvider) -> ProviderError:
    """Return the error of a request for TEXTS."""
    with pytest.raises(ProviderError) as caught:
        await provider.embed_documents(TEXTS)
    assert KEY not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def complete(outcome: EmbedOutcome, texts: list[str] = TEXTS) -> bool:
    """Return whether all texts have their own vectors, in order."""
    rows = np.array([embedding(text, 8) for text in texts], np.float32)
    return (
        outcome.bad == []
        and [name for name, _ in outcome.vectors] == texts
        and all(
            np.allclose(np.frombuffer(found, "<f4"), row, atol=1e-5)
            for (_, found), row in zip(outcome.vectors, rows, strict=True)
        )
    )


def named(*texts: str) -> list[tuple[str, str]]:
    return [(text, text) for text in texts]


# Each fault, of each vendor

KINDS: dict[Fault, type[ProviderError]] = {
    Fault.BAD_REQUEST: BadTextError,
    Fault.NO_KEY: PermanentError,
    Fault.WRONG_KEY: PermanentError,
    Fault.FORBIDDEN: PermanentError,
    Fault.NOT_FOUND: PermanentError,
    Fault.UNKNOWN_MODEL: PermanentError,
    Fault.TOO_MANY: BatchTooLargeError,
    Fault.TOO_LONG: BadTextError,
    Fault.TOO_LARGE: BatchTooLargeError,
    Fault.RATE_LIMIT: RetryableError,
    Fault.QUOTA: PermanentError,
    Fault.SERVER_ERROR: RetryableError,
    Fault.OVERLOADED: RetryableError,
    Fault.HTML_502: RetryableError,
    Fault.HTML_200: RetryableError,
    Fault.TRUNCATED: RetryableError,
    Fault.EMPTY: RetryableError,
    Fault.WRONG_COUNT: RetryableError,
    Fault.DROPPED: RetryableError,
    Fault.BROKEN_OFF: RetryableError,
}
HARMLESS = {Fault.NAN, Fault.NULL, Fault.ZERO, Fault.REORDERED}
SAID = {
    Fault.NO_KEY: ("key", "`memctl probe`"),
    Fault.WRONG_KEY: ("key", "`memctl probe`"),
    Fault.FORBIDDEN: ("key", "`memctl probe`"),
    Fault.NOT_FOUND: ("no such model or address", "`model` and `remote.base_url`"),
    Fault.UNKNOWN_MODEL: ("no such model or address", "`model` and `remote.base_url`"),
    Fault.QUOTA: ("quota of the key from", "Top it up, or choose another provider"),
    Fault.HTML_502: ("502: an HTML page (502 Bad Gateway)",),
    Fault.HTML_200: ("answered with an HTML page",),
    Fault.TRUNCATED: ("answered with no vectors",),
    Fault.EMPTY: ("answered with nothing",),
    Fault.WRONG_COUNT: ("returned 2 vectors for 3 texts",),
    Fault.DROPPED: ("can't be reached",),
    Fault.BROKEN_OFF: ("can't be reached: the answer broke off",),
}
PASSING_QUOTA = {"voyage", "ollama"}
"""Vendors whose message for an exhausted quota is that of a rate limit, or which have no quota."""


def test_every_fault_is_tested() -> None:
    assert {*KINDS, *HARMLESS, Fault.SLOW} == set(Fault)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", KINDS)
async def test_a_fault_is_the_right_error_and_says_what_to_do(name: str, fault: Fault) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        double.fail(fault)
        error = await failed(provider)
        passing = fault is Fault.QUOTA and name in PASSING_QUOTA
        assert type(error) is (RetryableError if passing else KINDS[fault])
        assert str(error).startswith(name)
        for words in () if passing else SAID.get(fault, ()):
            assert words in str(error)
        if fault in (Fault.NO_KEY, Fault.WRONG_KEY, Fault.FORBIDDEN):
            origin = VENDORS[name].variable
            told = "a key is required" if name == "ollama" else f"the key from {origin} is refused"
            assert told in str(error)
        # The fault is over.
        assert (await provider.embed_documents(TEXTS)).shape == (3, 8)


@pytest.mark.parametrize("name", NAMES)
async def test_a_quota_and_a_missing_address_are_told_from_a_bad_key(name: str) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        for fault, for_good, missing in (
            (Fault.WRONG_KEY, True, False),
            (Fault.NOT_FOUND, True, True),
            *([] if name in PASSING_QUOTA else [(Fault.QUOTA, False, False)]),
        ):
            double.fail(fault)
            error = await failed(provider)
            assert isinstance(error, PermanentError)
            assert (error.for_good, error.missing) == (for_good, missing)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("fault", "answered"),
    [
        (Fault.RATE_LIMIT, False),
        (Fault.SERVER_ERROR, True),
        (Fault.HTML_200, True),
        (Fault.TRUNCATED, True),
        (Fault.WRONG_COUNT, True),
        (Fault.DROPPED, True),
        (Fault.BROKEN_OFF, True),
    ],
)
async def test_it_is_known_whether_the_texts_may_be_to_blame(
    name: str, fault: Fault, *, answered: bool
) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        double.fail(fault)
        error = await failed(provider)
        assert isinstance(error, RetryableError)
        assert error.answered == answered


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", [Fault.NAN, Fault.NULL, Fault.ZERO])
async def test_a_bad_vector_is_one_row_and_no_more(name: str, fault: Fault) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        double.fail(fault)
        rows = await provider.embed_documents(TEXTS)
        _, good = unit_rows(rows, count=3, dims=8)
        assert good == [False, True, True]


# Servers that are unavailable or slow


async def test_nobody_at_the_address_is_told_at_once() -> None:
    async with OpenAiDouble() as double:
        url = double.url
    async with remote("openai", url) as provider:
        error = await failed(provider)
    assert isinstance(error, RetryableError)
    assert not error.answered
    assert str(error).startswith("openai (127.0.0.1) can't be reached: ")


async def test_a_slow_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with OpenAiDouble(key=KEY) as double, remote("openai", double.url) as provider:
        double.fail(Fault.SLOW, times=2)
        monkeypatch.setattr(provider, "_timeout_s", 0.02)
        monkeypatch.setattr(provider, "query_timeout_s", 0.01)
        error = await failed(provider)
        assert isinstance(error, RetryableError)
        assert error.answered
        assert str(error) == "openai (127.0.0.1) did not answer within 0.02 s."
        with pytest.raises(RetryableError, match=r"did not answer within 0\.01 s"):
            await provider.embed_query("why?")


async def test_whoever_is_cancelled_takes_the_request_back() -> None:
    async with OpenAiDouble(key=KEY) as double, remote("openai", double.url) as provider:
        double.gate = asyncio.Event()
        task = asyncio.create_task(provider.embed_query("why?"))
        while not double.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not double.cancelled:
            await asyncio.sleep(0)
        double.gate.set()
        assert (await provider.embed_query("why?")).shape == (1, 8)


SOMEWHERE = ConnectionKey(
    "h", 443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


@pytest.mark.parametrize(
    ("error", "message", "answered"),
    [
        (
            aiohttp.ConnectionTimeoutError("Connection timeout to http://h/v1?key=secret"),
            "can't be reached within 15 s",
            False,
        ),
        (
            aiohttp.ClientConnectorCertificateError(
                SOMEWHERE, ssl.SSLCertVerificationError(1, "self-signed certificate")
            ),
            "can't be reached: self-signed certificate",
            False,
        ),
        (
            aiohttp.ClientConnectorDNSError(SOMEWHERE, OSError(-2, "Name or service not known")),
            "can't be reached: Name or service not known",
            False,
        ),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer", True),
        (aiohttp.InvalidURL("http://h/v1?key=secret"), "the address is not valid", False),
        (aiohttp.ClientError("secret"), "can't be reached: ClientError", False),
    ],
)
async def test_why_nobody_is_reached_is_told_without_the_address(
    error: Exception, message: str, *, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def request(*_: object, **__: object) -> AsyncIterator[None]:
        raise error
        yield

    monkeypatch.setattr(aiohttp.ClientSession, "request", request)
    async with remote("openai", "https://h/v1?key=secret") as provider:
        found = await failed(provider)
    assert isinstance(found, RetryableError)
    assert message in str(found)
    assert "secret" not in str(found)
    assert found.answered == answered


# Raw answers that no double sends


@contextlib.asynccontextmanager
async def answering(
    status: int, *parts: bytes, headers: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Provide a server with this answer, sent part by part, and the list of its requests."""
    seen: list[bytes] = []
    serving: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        lines = [f"HTTP/1.1 {status} X", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join((*lines, "", "")).encode())
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await settle()  # the client reads this part before the next
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1", seen
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*filter(None, serving))


async def refused(
    status: int, *parts: bytes, headers: Mapping[str, str] | None = None, name: str = "openai"
) -> ProviderError:
    async with answering(status, *parts, headers=headers) as (url, _), remote(name, url) as asked:
        return await failed(asked)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    async with OpenAiDouble(key=KEY) as double:
        headers = {"Location": f"{double.url}/embeddings"}
        page = b"<html><title>Moved</title><body>cloudflare, billing</body></html>"
        async with answering(status, page, headers=headers) as (url, seen):
            async with remote("openai", url) as provider:
                error = await failed(provider)
            assert len(seen) == 1
        assert isinstance(error, PermanentError)
        assert str(error) == (
            f"openai answered {status}: an HTML page (Moved)"
            " - it redirects requests; set remote.base_url."
        )
        assert double.requests == []


async def test_a_huge_error_is_read_to_8_kib(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = []

    def looking(vendor: str, status: int, headers: Any, body: str, **more: Any) -> ProviderError:
        bodies.append(body)
        return refusal(vendor, status, headers, body, **more)

    monkeypatch.setattr(http_module, "refusal", looking)
    error = await refused(500, *[b"x" * 1_000] * 1_000)
    assert isinstance(error, RetryableError)
    assert str(error) == f"openai answered 500: {'x' * SHOWN_CHARS}"
    assert [len(body) for body in bodies] == [ERROR_BODY_BYTES]


async def test_an_error_that_comes_in_parts_is_read_whole() -> None:
    body = json.dumps({"error": {"message": "m" * 400, "code": "insufficient_quota"}}).encode()
    error = await refused(429, *(body[at : at + 60] for at in range(0, len(body), 60)))
    assert isinstance(error, PermanentError)
    assert not error.for_good
    assert str(error).startswith("openai answered 429: mmm")


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b"", b"[" * 5_000, b"null", b'{"error": 7}'])
async def test_an_error_that_says_nothing_is_an_error_all_the_same(body: bytes) -> None:
    assert type(await refused(503, body)) is RetryableError
    assert type(await refused(401, body)) is PermanentError
    assert type(await refused(400, body)) is BadTextError


@pytest.mark.parametrize(
    "body",
    [
        f"Incorrect API key provided: {KEY}. You can find yours elsewhere.",
        json.dumps({"error": {"message": f"Bearer {KEY} is wrong"}}),
        json.dumps({"error": KEY}).replace("/", "\\/").replace("+", "\\u002b"),
        f"<html><title>{KEY}</title></html>",
        "x" * (SHOWN_CHARS - 9) + KEY,
    ],
)
async def test_a_key_that_is_sent_back_is_shown_to_nobody(body: str) -> None:
    for status in (400, 401, 429, 500):
        error = await refused(status, body.encode())  # `failed` searches for the key
        assert KEY[:9] not in str(error)


async def test_an_oauth_token_that_is_sent_back_is_shown_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", json.dumps({"token": "ya29.token"}))
    error = await refused(401, b'{"error": "ya29.token has expired"}', name="gemini")
    assert "*** has expired" in str(error)
    assert "ya29" not in str(error)


@pytest.mark.parametrize("name", NAMES)
async def test_a_wrong_key_is_shown_to_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    double = VENDORS[name].double(key="sk-right")
    set_keys(monkeypatch, "sk-wrong-0123456789abcdef")
    async with double, remote(name, double.url) as provider:
        error = await failed(provider)
    assert isinstance(error, PermanentError)
    for part in ("sk-wro", "cdef", "sk-right"):
        assert part not in str(error)


def test_what_vendors_leave_of_a_key_is_masked_too() -> None:
    assert without_secrets("key sk-pr****7890 is wrong", []) == "key *** is wrong"
    assert without_secrets("k=abc", ["abc"]) == "k=abc"  # keys are never this short
    assert without_secrets("k=abcd", ["Bearer abcd"]) == "k=***"
    assert without_secrets("abcd and abcdef", ["abcd", "abcdef"]) == "*** and ***"
    assert without_secrets(r"k=ab\/cd", ["ab/cd"]) == "k=***"


async def test_the_file_that_a_wrong_key_came_from_is_told(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-wrong-0123456789abcdef\n")
    file.chmod(0o600)
    async with (
        OpenAiDouble(key=KEY) as double,
        remote("openai", double.url, of_remote={"api_key_file": str(file)}) as provider,
    ):
        error = await failed(provider)
    assert f"the key from remote.api_key_file ({file}) is refused" in str(error)


# Waiting times


@pytest.mark.parametrize("name", ["openai", "voyage", "mistral", "ollama"])
@pytest.mark.parametrize("form", ["seconds", "date", "ms"])
async def test_a_rate_limit_says_how_long_in_each_form(name: str, form: Any) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        double.fail(RateLimit(300, form=form))
        error = await failed(provider)
    assert type(error) is RetryableError
    assert error.after_s == pytest.approx(300, abs=5 if form == "date" else 0)


async def test_geminis_retry_delay_is_kept_although_it_speaks_of_a_quota() -> None:
    async with GeminiDouble(key=KEY) as double, remote("gemini", double.url) as provider:
        double.fail(RateLimit(37.5))
        error = await failed(provider)
    assert type(error) is RetryableError
    assert error.after_s == 37.5
    assert "quota" in str(error)


# Through the pool


def ids(fault: AnyFault) -> str:
    return fault.name if isinstance(fault, Fault) else f"after {fault.after_s} s"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", [*TRANSIENT, RateLimit(5), RateLimit(1, form="date")], ids=ids)
async def test_what_fails_twice_arrives_whole(name: str, fault: AnyFault) -> None:
    clock = FakeClock()
    async with (
        double_of(name) as double,
        remote(name, double.url) as provider,
        pool_of(provider, clock) as pool,
    ):
        double.fail(fault, times=2)
        assert complete(await pool.embed(named(*TEXTS)))
        assert not pool.blocked.is_set()
        assert all(double.embedded[text] >= 1 for text in TEXTS)
    if fault in (Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.DROPPED):
        assert clock.pauses == [0.5, 1.0]
    if fault == RateLimit(5):
        assert clock.pauses == [5.0, 5.0]


@pytest.mark.parametrize("name", NAMES)
async def test_an_outage_blocks_the_pool_and_loses_nothing(name: str) -> None:
    clock = FakeClock()
    async with (
        double_of(name) as double,
        remote(name, double.url) as provider,
        pool_of(provider, clock) as pool,
    ):
        double.fail(Fault.OVERLOADED, times=12)
        assert complete(await pool.embed(named(*TEXTS)))
        assert len(double.requests) == 13
        assert not pool.blocked.is_set()
        assert pool.stats().last_error is None  # it is over
        assert pool.stats().failures == 12


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (name, fault)
        for name in NAMES
        for fault in (Fault.WRONG_KEY, Fault.UNKNOWN_MODEL, Fault.FORBIDDEN, Fault.QUOTA)
        if not (fault is Fault.QUOTA and name in PASSING_QUOTA)
    ],
)
async def test_what_only_people_can_mend_stops_at_once_and_goes_on_when_it_is_mended(
    name: str, fault: Fault
) -> None:
    clock = FakeClock(held_from_s=100)
    async with (
        double_of(name) as double,
        remote(name, double.url) as provider,
        pool_of(provider, clock) as pool,
    ):
        double.fail(fault, times=9)
        job = asyncio.create_task(pool.embed(named(*TEXTS)))
        await pool.blocked.wait()
        # A refusal without a type is checked with a harmless text.
        assert len(double.requests) <= 2
        stats = pool.stats()
        assert stats.blocked_reason is not None
        assert stats.retry_in_s == 300.0
        with pytest.raises(PermanentError) as caught:
            await pool.embed_query("why?")
        assert str(caught.value) == stats.blocked_reason
        assert KEY not in stats.blocked_reason
        while not clock.pauses:
            await asyncio.sleep(0)
        double.heal()
        pool.breaker.wake()
        assert complete(await job)
        assert pool.stats().blocked_reason is None


async def test_a_pause_that_is_asked_for_is_kept_shown_and_capped() -> None:
    clock = FakeClock(held_from_s=100)
    async with (
        OpenAiDouble(key=KEY) as double,
        remote("openai", double.url) as provider,
        pool_of(provider, clock) as pool,
    ):
        for after_s, kept_s in ((600.0, 600.0), (99_999.0, AFTER_MAX_S)):
            double.fail(RateLimit(after_s))
            clock.pauses.clear()
            job = asyncio.create_task(pool.embed(named(*TEXTS)))
            await pool.blocked.wait()
            assert pool.stats().retry_in_s == kept_s
            while not clock.pauses:
                await asyncio.sleep(0)
            pool.breaker.wake()
            assert complete(await job)


@pytest.mark.parametrize("name", NAMES)
async def test_a_cap_on_items_is_learned_from_the_vendors_words(name: str) -> None:
    texts = [f"text {number}" for number in range(24)]
    async with (
        double_of(name) as double,
        remote(name, double.url) as provider,
        pool_of(provider, FakeClock()) as pool,
    ):
        double.max_items = 10
        assert complete(await pool.embed(named(*texts)), texts)
        told = 12 if name == "mistral" else 10  # Mistral's error does not include the number
        assert len(double.inputs[1]) == told
        assert pool.stats().max_items <= 10
        double.inputs.clear()
        assert complete(await pool.embed(named(*texts)), texts)
        assert max(map(len, double.inputs)) <= 10
        assert all(double.embedded[text] == 2 for text in texts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("long", [True, False])
async def test_one_bad_text_is_set_aside_and_sinks_nothing_else(name: str, *, long: bool) -> None:
    texts = [f"text {number}" for number in range(16)]
    bad = "x" * 200 if long else "poison"
    async with (
        double_of(name) as double,
        remote(name, double.url) as provider,
        pool_of(provider, FakeClock()) as pool,
    ):
        double.max_text_chars = 100
        double.bad_texts = {"poison"}
        outcome = await pool.embed(named(*texts[:7], bad, *texts[7:]))
        assert [text for text, _ in outcome.vectors] == texts
        ((text, reason),) = outcome.bad
        assert text == bad
        assert reason.startswith(f"{name} answered 400")
        assert all(double.embedded[text] == 1 for text in texts)
        assert pool.stats().max_items == 64


@pytest.mark.parametrize("fault", [Fault.NAN, Fault.NULL, Fault.ZERO])
async def test_a_text_whose_vector_stays_bad_is_set_aside(fault: Fault) -> None:
    async with (
        OpenAiDouble(key=KEY) as double,
        remote("openai", double.url) as provider,
        pool_of(provider, FakeClock()) as pool,
    ):
        double.fail(fault, times=3)
        outcome = await pool.embed(named(*TEXTS))
        assert [text for text, _ in outcome.vectors] == TEXTS[1:]
        assert outcome.bad == [(TEXTS[0], "Its vector is zero or not finite.")]
        assert double.inputs == [TEXTS, TEXTS[:1], TEXTS[:1]]


async def test_a_query_that_fails_is_tried_once_more_and_then_not_waited_for() -> None:
    clock = FakeClock()
    async with (
        OpenAiDouble(key=KEY) as double,
        remote("openai", double.url) as provider,
        pool_of(provider, clock) as pool,
    ):
        double.fail(Fault.SERVER_ERROR)
        assert (await pool.embed_query("why?")).shape == (8,)
        assert clock.pauses == [0.5]
        double.fail(Fault.SERVER_ERROR, times=2)
        with pytest.raises(RetryableError, match="500"):
            await pool.embed_query("how?")
        asked = len(double.requests)
        with pytest.raises(RetryableError, match="500"):
            await pool.embed_query("when?")
        assert len(double.requests) == asked


async def test_words_of_a_refused_text_pause_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "the model of the ship does not exist, batch size too large"
    monkeypatch.setitem(openai_double.ERRORS, Fault.BAD_REQUEST, (400, words, "bad_input", None))
    texts = [f"text {number}" for number in range(16)]
    async with (
        double_of("openai") as double,
        remote("openai", double.url) as provider,
        pool_of(provider, FakeClock()) as pool,
    ):
        double.bad_texts = {"poison"}
        outcome = await pool.embed(named(*texts[:7], "poison", *texts[7:]))
        assert [text for text, _ in outcome.vectors] == texts
        assert outcome.bad == [("poison", f"openai answered 400: {words}")]
        assert not pool.blocked.is_set()
        assert (pool.stats().max_items, pool.stats().last_error) == (64, None)
        with pytest.raises(BadTextError):
            await pool.embed_query("poison")
        assert not pool.blocked.is_set()
