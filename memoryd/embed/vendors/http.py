"""HTTP requests to one provider; every failure is a `ProviderError`."""

import base64
import errno
import re
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import unquote
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from memoryd.embed.provider import PermanentError, ProviderError, RetryableError
from memoryd.embed.route import Route, is_this_machine, route_to
from memoryd.embed.vendors.credentials import Key, KeyReader, KeySource, exposed_hint
from memoryd.embed.vendors.decode import unreadable
from memoryd.embed.vendors.http_errors import refusal
from memoryd_client.shared.humanize import size

ERROR_BODY_BYTES = 8 * 1024
MAX_JSON_BYTES = 8 * 1024 * 1024
"""Maximum bytes of an answer without vectors, such as a list of batch jobs."""
_SHORTEST_SECRET = 4
CONNECT_S = 15.0
_DROPPED = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientPayloadError,
    aiohttp.ClientOSError,
    ConnectionError,
)


class Http:
    """One provider's address, headers and key. Follows no redirect: the key would go with it."""

    def __init__(
        self,
        vendor: str,
        base_url: str,
        *,
        headers: Mapping[str, str],
        source: KeySource,
        key_headers: Callable[[str], Mapping[str, str]],
        key_required: bool,
        secret_parts: Sequence[str] = (),
        allow_unencrypted_key: bool = False,
    ) -> None:
        """`secret_parts` names each configured header or parameter that is a secret."""
        self.vendor = vendor
        self.base = URL(base_url)
        self._proxy = _proxy(self.base)
        self.route: Route = route_to(
            self.base.scheme, self.host, self.base.explicit_port, self._proxy
        )
        self._headers = {"User-Agent": "memoryd", **headers}
        self._source = source
        self._reader = KeyReader(source)
        self._key_headers = key_headers
        self._key_required = key_required
        self._secret_parts = secret_parts
        self._may_send_key = allow_unencrypted_key or not self.route.unencrypted
        self._session: aiohttp.ClientSession | None = None
        # Some servers take a key in the address, and repeat the address in errors.
        as_sent = (part.partition("=")[2] for part in self.base.raw_query_string.split("&"))
        self._values = sorted(
            {*headers.values(), *self.base.query.values(), *as_sent, *_credentials(self._proxy)}
        )
        self._key_values: list[str] = []
        self.warning: str | None = None

    @property
    def host(self) -> str:
        """The host that receives the texts."""
        return self.base.host or ""

    def url(self, path: str, *, base_path: str | None = None, **query: str) -> URL:
        """Return the address of a path below the base; the base's own query stays."""
        below = self.base.path.rstrip("/") if base_path is None else base_path
        return self.base.with_path(f"{below}{path}", keep_query=True).update_query(query)

    async def post(self, path: str, body: Any, *, timeout_s: float, max_bytes: int) -> bytes:
        """Post JSON and return the answer, at most `max_bytes`. Raises `ProviderError`."""
        async with self.request(
            "POST",
            self.url(path),
            timeout_s=timeout_s,
            data=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
        ) as response:
            return await self._body(response, max_bytes)

    async def json(self, method: str, url: URL, *, timeout_s: float, **options: Any) -> Any:
        """Send a request and return the JSON of its answer. Raises `ProviderError`."""
        async with self.request(method, url, timeout_s=timeout_s, **options) as response:
            body = await self._body(response, MAX_JSON_BYTES)
        return decoded(self.vendor, body)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: URL,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield a successful answer. Raises `ProviderError`."""
        key = self._checked(await self._reader.read())
        sent = {**self._headers, **(headers or {})}
        if key is not None:
            sent |= self._key_headers(key.value)
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        try:
            async with self._opened().request(
                method,
                url,
                headers=sent,
                timeout=timeout,
                allow_redirects=False,
                proxy=self._proxy,
                **options,
            ) as response:
                if not response.ok or response.status >= 300:
                    raise await self._refused(response, key)
                yield response
        except aiohttp.ConnectionTimeoutError as error:
            raise self._failed(f"can't be reached within {CONNECT_S:g} s") from error
        except TimeoutError as error:
            raise self._failed(f"did not answer within {timeout_s:g} s", answered=True) from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            # Neither its text nor the error as cause: both may contain an address with a password.
            dropped = isinstance(error, _DROPPED) and not isinstance(
                error, aiohttp.ClientConnectorError
            )
            problem = f"can't be reached: {_reason(error)}"
            raise self._failed(problem, answered=dropped) from None

    def mask(self, text: str) -> str:
        """Return a server's text without the key, headers and query that it was sent."""
        return without_secrets(text, [*self._key_values, *self._values])

    def check_key(self) -> Key | None:
        """Return the key. Raises `PermanentError` if a required key is missing. Blocking."""
        return self._checked(self._source.find())

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        self._reader.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _failed(self, problem: str, *, answered: bool = False) -> RetryableError:
        via = "" if self.route.proxy is None else f", through the proxy {self.route.proxy}"
        return RetryableError(f"{self.vendor} ({self.host}{via}) {problem}.", answered=answered)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            resolver = None if self.route.leaves_machine else _LoopbackResolver()
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, resolver=resolver)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    def _checked(self, key: Key | None) -> Key | None:
        if key is None and self._key_required:
            raise PermanentError(
                f"There is no key for {self.vendor}: {self._source.hint}; or choose another"
                " provider."
            )
        secrets = [*self._secret_parts] if key is None else [f"key from {key.origin}"]
        if secrets and not self._may_send_key:
            raise PermanentError(
                f"The {secrets[0]} would go to {self.route}; memoryd sends nothing. Set an"
                " https:// address, remove the secret, or allow this with"
                " remote.allow_unencrypted_key = true."
            )
        self.warning = None
        if key is not None:
            self._key_values = [key.value, *self._key_headers(key.value).values()]
            self.warning = None if key.exposed is None else exposed_hint(key.exposed)
        return key

    async def parts(
        self, response: aiohttp.ClientResponse, max_bytes: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield an answer's body in unpacked pieces. Raises `RetryableError` beyond `max_bytes`.

        aiohttp unpacks no more than it is asked for, so a large answer is never in memory.
        """
        total = 0
        async for part in response.content.iter_any():
            total += len(part)
            if total > max_bytes:
                raise self._failed(
                    f"sent more than {size(max_bytes)}, far more than the request asks for",
                    answered=True,
                )
            yield part

    async def _body(self, response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
        body = bytearray()
        async with aclosing(self.parts(response, max_bytes)) as parts:
            async for part in parts:
                body += part
        return bytes(body)

    async def _refused(self, response: aiohttp.ClientResponse, key: Key | None) -> ProviderError:
        body = bytearray()
        async for part in response.content.iter_any():
            body += part
            if len(body) >= ERROR_BODY_BYTES:
                break
        error = refusal(
            self.vendor,
            response.status,
            {name.lower(): value for name, value in response.headers.items()},
            self.mask(body[:ERROR_BODY_BYTES].decode("utf-8", "replace")),
            key=None if key is None else key.origin,
            now_s=time.time(),
        )
        error.args = (self.mask(str(error)),)  # JSON may have escaped it
        return error


def decoded(vendor: str, body: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer. Raises `RetryableError` for anything else."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError) as error:  # invalid UTF-8 included
        raise unreadable(vendor, body, else_it_is="something other than JSON") from error


class _LoopbackResolver(aiohttp.ThreadedResolver):
    """Resolves names of this machine, whatever a name server says about them."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """Return the addresses of this machine only. Raises `OSError` without any."""
        found = await super().resolve(host, port, family)
        if here := [result for result in found if is_this_machine(result["host"])]:
            return here
        raise OSError(errno.EADDRNOTAVAIL, "its name leads to another machine")


def _proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for an address; none for this machine.

    aiohttp's own `trust_env` would also take passwords from `.netrc`.
    """
    if url.host is None or is_this_machine(url.host) or proxy_bypass(url.host):
        return None
    proxy = getproxies_environment().get(url.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy or None


def _credentials(proxy: str | None) -> list[str]:
    """Return the forms in which a server may repeat the credentials of a proxy."""
    given = (proxy or "").partition("://")[2].rpartition("@")[0]
    if not given:
        return []
    plain = unquote(given)
    pair = plain if ":" in plain else f"{plain}:"  # as aiohttp sends a name alone
    basic = base64.b64encode(pair.encode(errors="replace")).decode()
    return [basic, *(part for text in (given, plain) for part in (text, text.partition(":")[2]))]


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with keys masked, also those that a vendor has shortened.

    In a secret of several words, such as `Bearer …`, each word but the first is a secret.
    """
    words = {word for secret in secrets for word in (secret, *secret.split()[1:])}
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= _SHORTEST_SECRET:
            # Some servers write JSON with a backslash before each slash.
            text = text.replace(word, "***").replace(word.replace("/", r"\/"), "***")
    # As in `Incorrect API key provided: sk-pr****7890`.
    return re.sub(r"\b[\w-]{0,12}\*{3,}[\w-]{0,8}", "***", text)


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.strerror or type(error.os_error).__name__
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, aiohttp.InvalidURL | UnicodeError):
        return "the address is not valid"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return {
        "ServerDisconnectedError": "the connection was closed",
        "ClientPayloadError": "the answer broke off",
    }.get(type(error).__name__, type(error).__name__)
