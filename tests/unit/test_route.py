"""The way of the texts: proxies, this machine and others, encryption, and keys in plain text."""

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from remotes import KEY, NAMES, clear, double_of, remote, set_keys
from vendors import OpenAiDouble

from memoryd.config.settings import Remote, Settings
from memoryd.embed.provider import PermanentError, ProviderError, RetryableError
from memoryd.embed.route import INSIDE, Route, is_this_machine, route_to, without_credentials
from memoryd.embed.vendors.factory import make_remote

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
PASSWORD = "planted/p@ss:word-4711"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_keys(monkeypatch)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextlib.asynccontextmanager
async def proxy(*, answer: bytes = b"") -> AsyncIterator[tuple[str, list[bytes]]]:
    """Provide the address of a proxy that refuses everything, and the requests that it gets."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        body = answer or head
        writer.write(b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
    finally:
        server.close()
        await server.wait_closed()


def through(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Name a proxy for everything, as a company's profile does."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, address)


def route_of(url: str | None, name: str = "openai", **of_remote: Any) -> Route:
    return make_remote(name, Settings(remote=Remote(base_url=url, **of_remote))).route


# This machine


HERE = (
    *("localhost", "LOCALHOST", "localhost.", "llm.localhost", "127.0.0.1", "127.8.9.10"),
    *("::1", "::1%lo", "::ffff:127.0.0.1", "::ffff:7f00:1", "0.0.0.0", "::", "127.1", "0x7f000001"),
)
ELSEWHERE = (
    *("", "localhost.example.com", "notlocalhost", "embed.lan", "192.168.1.5", "10.0.0.1"),
    *("128.0.0.1", "::2", "::ffff:10.0.0.1", "fe80::1", "127.0.0.1.nip.io", "host", "2130706434.x"),
)


@pytest.mark.parametrize("host", HERE)
def test_this_machine_is_known_by_its_names_and_numbers(host: str) -> None:
    assert is_this_machine(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_nothing_else_is_this_machine(host: str) -> None:
    assert not is_this_machine(host)


@pytest.mark.parametrize("no_proxy", [None, "", "example.com"])
@pytest.mark.parametrize("host", ["localhost", "llm.localhost", "127.0.0.1", "[::ffff:127.0.0.1]"])
async def test_no_proxy_ever_gets_what_is_for_this_machine(
    host: str, no_proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if no_proxy is not None:
        monkeypatch.setenv("no_proxy", no_proxy)
    async with proxy() as (address, seen), OpenAiDouble(key=KEY) as double:
        through(monkeypatch, f"http://{address}")
        url = double.url.replace("127.0.0.1", host)
        async with remote("openai", url) as provider:
            with contextlib.suppress(ProviderError):  # not every machine knows `llm.localhost`
                await provider.embed_documents(["my private thing"])
            assert not provider.route.leaves_machine
            assert provider.route.proxy is None
    assert seen == []
    if host in ("localhost", "127.0.0.1"):
        assert double.embedded["my private thing"] == 1


async def test_ollamas_default_address_needs_no_exception_from_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxy() as (address, seen):
        through(monkeypatch, f"http://{address}")
        async with remote("ollama", None) as provider:
            assert str(provider.route) == "127.0.0.1:11434 (this machine)"
            with contextlib.suppress(ProviderError):  # an Ollama may be there
                await provider.embed_query("my private thing")
    assert seen == []


async def test_a_name_of_this_machine_that_leads_elsewhere_is_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = ("192.0.2.7", 80)
    found = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", elsewhere)]

    async def getaddrinfo(*_: object, **__: object) -> Any:
        return found

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    async with remote("openai", "http://llm.localhost/v1") as provider:
        with pytest.raises(RetryableError, match="its name leads to another machine"):
            await provider.embed_query("my private thing")


# Proxies


async def test_what_goes_through_a_proxy_leaves_this_machine_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxy() as (address, seen):
        through(monkeypatch, f"http://{address}")
        async with remote("ollama", "http://embed.lan:8000") as provider:
            assert provider.route == Route("embed.lan:8000", True, address, unencrypted=True)
            assert str(provider.route) == (
                f"embed.lan:8000 (another machine, not encrypted, through the proxy {address})"
            )
            with pytest.raises(PermanentError):
                await provider.embed_query("hello")
    assert seen[0].startswith(b"POST http://embed.lan:8000/api/embed ")


async def test_an_https_address_is_encrypted_for_a_proxy_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxy() as (address, seen):
        through(monkeypatch, address)  # without http://, as many tools allow
        async with remote("openai", None) as provider:
            assert str(provider.route) == (
                f"api.openai.com (another machine, through the proxy {address})"
            )
            with pytest.raises(RetryableError) as caught:
                await provider.embed_query("my private thing")
    assert str(caught.value) == (
        f"openai (api.openai.com, through the proxy {address}) can't be reached:"
        " the proxy answered 403."
    )
    assert seen[0].startswith(b"CONNECT api.openai.com:443 ")
    for secret in (b"private", KEY.encode()):
        assert secret not in b"".join(seen)


async def test_no_proxy_is_obeyed_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, "http://proxy.lan:3128")
    monkeypatch.setenv("no_proxy", "embed.lan,.example.com")
    assert route_of("http://embed.lan/v1").proxy is None
    assert route_of("https://a.example.com/v1").proxy is None
    assert route_of("https://example.org/v1").proxy == "proxy.lan:3128"


@pytest.mark.parametrize("credentials", [f"me:{PASSWORD}", "token-4711/with@odd"])
async def test_a_proxys_credentials_are_shown_nowhere(
    credentials: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy repeats the request that it refuses, with the credentials in every form."""
    name, colon, password = credentials.partition(":")
    quoted = f"{quote(name, safe='')}{colon}{quote(password, safe='')}"
    basic = base64.b64encode(f"{name}:{password}".encode()).decode()
    secret = password or name
    said = f"no: Basic {basic} {secret} {quote(secret, safe='')}"
    answer = json.dumps({"error": {"message": said}}).encode()
    async with proxy(answer=answer) as (address, seen):
        through(monkeypatch, f"http://{quoted}@{address}")
        async with remote("ollama", "http://embed.lan:8000") as provider:
            shown = [str(provider.route), repr(provider.route)]
            with pytest.raises(PermanentError) as caught:
                await provider.embed_query("hello")
            shown.append(str(caught.value))
    assert f"Proxy-Authorization: Basic {basic}".encode() in seen[0]
    assert "no: Basic *** *** ***" in shown[-1]
    for text in shown:
        for part in (secret, quote(secret, safe=""), basic, "me:"):
            assert part not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://proxy.lan:3128", "proxy.lan:3128"),
        ("http://proxy.lan:3128/", "proxy.lan:3128"),
        ("http://me:secret@proxy.lan:3128/x?y#z", "proxy.lan:3128"),
        ("http://me:se/cr@et?#@proxy.lan:3128/", "proxy.lan:3128"),
        ("me:secret@proxy.lan", "proxy.lan"),
        ("socks5://me:secret://@[::1]:1080", "[::1]:1080"),
        ("http://secret@", ""),
    ],
)
def test_a_proxy_is_named_without_its_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


# Encryption


@pytest.mark.parametrize(
    ("url", "route"),
    [
        (None, Route("api.openai.com", True)),
        ("https://embed.lan:8443/v1", Route("embed.lan:8443", True)),
        ("http://embed.lan:8000/v1", Route("embed.lan:8000", True, unencrypted=True)),
        ("http://192.168.1.5/v1", Route("192.168.1.5", True, unencrypted=True)),
        ("http://[fd00::5]:80/v1", Route("[fd00::5]:80", True, unencrypted=True)),
        ("http://localhost:1234/v1", Route("localhost:1234", False)),
        ("http://[::1]:8080/v1", Route("[::1]:8080", False)),
        ("https://llm.localhost/v1", Route("llm.localhost", False)),
    ],
)
def test_only_what_leaves_over_http_is_not_encrypted(url: str | None, route: Route) -> None:
    assert route_of(url) == route
    assert (route.warning is not None) == route.unencrypted
    assert make_remote("openai", Settings(remote=Remote(base_url=url))).remote


def test_what_stays_inside_needs_no_words() -> None:
    assert Route(None, False, None, unencrypted=False) == INSIDE
    assert INSIDE.warning is None
    assert "not encrypted" in (route_to("http", "h", None, None).warning or "")


LAN = "http://embed.lan:8000/v1"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ollama"])
async def test_no_key_goes_to_another_machine_in_plain_text(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxy() as (address, seen):
        through(monkeypatch, f"http://{address}")
        async with remote(name, LAN) as provider:
            for attempt in (provider.embed_query("hello"), provider.embed_documents(["hello"])):
                with pytest.raises(PermanentError) as caught:
                    await attempt
            with pytest.raises(PermanentError):
                provider.http.check_key()
    assert seen == []
    said = str(caught.value)
    assert said.startswith("The key from ")
    assert "would go to embed.lan:8000 (another machine, not encrypted" in said
    assert "remote.allow_unencrypted_key = true" in said
    assert KEY not in said


@pytest.mark.parametrize(
    ("url", "headers", "named"),
    [
        (LAN, {"X-API-Key": "secret-4711"}, "header X-API-Key"),
        (f"{LAN}?api-key=secret-4711", {}, "parameter api-key"),
    ],
)
async def test_a_key_in_a_header_or_an_address_is_a_key_too(
    url: str, headers: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear(monkeypatch)
    async with remote("openai", url, of_remote={"headers": headers}) as provider:
        with pytest.raises(PermanentError) as caught:
            await provider.embed_query("hello")
    assert str(caught.value).startswith(f"The {named} would go to embed.lan:8000")
    assert "secret-4711" not in str(caught.value)


async def test_a_key_goes_in_plain_text_to_whom_the_configuration_allows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxy() as (address, seen):
        through(monkeypatch, f"http://{address}")
        allowed = {"allow_unencrypted_key": True}
        async with remote("openai", LAN, of_remote=allowed) as provider:
            with pytest.raises(PermanentError, match="403"):
                await provider.embed_query("hello")
    assert f"Authorization: Bearer {KEY}".encode() in seen[0]


async def test_a_server_of_ones_own_network_is_asked_without_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clear(monkeypatch)
    monkeypatch.delenv("no_proxy")
    async with proxy() as (address, seen):
        through(monkeypatch, f"http://{address}")
        headers = {"X-Team": "seals"}
        async with remote("openai", LAN, of_remote={"headers": headers}) as provider:
            with pytest.raises(PermanentError, match="403"):
                await provider.embed_query("hello")
    assert b"X-Team: seals" in seen[0]


@pytest.mark.parametrize("name", NAMES)
async def test_a_key_for_this_machine_needs_no_encryption(name: str) -> None:
    async with double_of(name) as double, remote(name, double.url) as provider:
        await provider.embed_query("why?")
    assert len(double.requests) == 1
