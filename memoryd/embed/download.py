"""Download of a model file, only on request, only over TLS and only with a known hash."""

import asyncio
import fcntl
import hashlib
import os
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import aiohttp
from yarl import URL

from memoryd.embed.gguf_file import MAGIC
from memoryd_client.shared.safe_open import open_regular

_REPOSITORY = "https://huggingface.co/ggml-org/embeddinggemma-300m-qat-q8_0-GGUF"
_FILE = "main/embeddinggemma-300m-qat-Q8_0.gguf"
MODEL_URL = f"{_REPOSITORY}/resolve/{_FILE}"
MODEL_PAGE = f"{_REPOSITORY}/blob/{_FILE}"
"""The page that shows the file's SHA-256."""

_PART_BYTES = 2**20
_CONNECT_S = 15.0
_SILENCE_S = 60.0
_MAX_REDIRECTS = 5
_REDIRECTS = {301, 302, 303, 307, 308}

DownloadProgress = Callable[[int, int | None], None]
"""(bytes downloaded, bytes of the whole file if known)"""


class DownloadError(Exception):
    """The download failed. The message names the problem and the fix, for people."""


async def download(url: str, folder: Path, *, sha256: str, progress: DownloadProgress) -> Path:
    """Download the GGUF file with a SHA-256 (64 hexadecimal digits) into a folder.

    Returns its path, at once if the file exists already. If the connection ends, the data stay in
    `<name>.part`, and the next call resumes there if the server still has the same file. The file
    gets its name only if its SHA-256 is right. Raises `DownloadError`.
    """
    expected = sha256.lower()
    if not re.fullmatch("[0-9a-f]{64}", expected):
        raise DownloadError(f"{sha256} is not a SHA-256, which has 64 hexadecimal digits.")
    target = folder / _name(url)
    try:
        if await asyncio.to_thread(_is_there, target, expected):
            return target
        with _opened(target) as part:
            await _fetch(url, part, progress)
            if (found := await asyncio.to_thread(part.digest)) != expected:
                part.start_over("")
                raise DownloadError(
                    f"The file at {url} has the SHA-256 {found}, not {expected}, and was removed:"
                    " compare the hash with the publisher's page."
                )
            os.replace(part.path, target)
    except OSError as error:
        raise DownloadError(f"{target} can't be written: {error.strerror or error}.") from error
    return target


def _name(url: str) -> str:
    try:
        parsed = URL(url)
    except ValueError as error:
        raise DownloadError(f"{url} is not an address.") from error
    name = parsed.name
    if parsed.scheme != "https" or not parsed.host:
        raise DownloadError(f"{url} is not an address that starts with https://.")
    if Path(name).name != name or not name.endswith(".gguf") or "\0" in name:
        raise DownloadError(f"{url} is not the address of a .gguf file.")
    return name


def _is_there(target: Path, sha256: str) -> bool:
    """Return whether the file exists; create its folder. Raises OSError."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not target.exists():
        return False
    with open_regular(target) as file:
        found = _digest(file)
    if found != sha256:
        raise DownloadError(f"{target} exists and has the SHA-256 {found}; remove it first.")
    return True


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while data := file.read(_PART_BYTES):
        digest.update(data)
    return digest.hexdigest()


class _Part:
    """Downloaded part of a file, and its version: the server's ETag, or ""."""

    def __init__(self, file: BinaryIO, path: Path, version_path: Path) -> None:
        self.file = file
        self.path = path
        self.size = file.seek(0, os.SEEK_END)
        self.version = ""
        self._version_path = version_path
        with suppress(FileNotFoundError, ValueError), open_regular(version_path) as version:
            self.version = version.read().decode()

    def start_over(self, version: str) -> None:
        self.file.truncate(0)
        self.size = 0
        self._version_path.write_text(version, "utf-8")

    def add(self, data: bytes) -> None:
        self.size += self.file.write(data)

    def finish(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def digest(self) -> str:
        self.file.seek(0)
        return _digest(self.file)

    def clean(self) -> None:
        """Remove everything but a part that the next call can resume."""
        if self.size == 0:
            self.path.unlink(missing_ok=True)
        if not self.path.exists():
            self._version_path.unlink(missing_ok=True)


@contextmanager
def _opened(target: Path) -> Iterator[_Part]:
    """Open the existing part, or a new one, for one process alone."""
    path = target.with_name(f"{target.name}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "a+b") as file:
        os.fchmod(file.fileno(), 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DownloadError(f"Another process is downloading {target}.") from error
        if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise DownloadError(f"Another process has just downloaded {target}.")
        part = _Part(file, path, target.with_name(f"{target.name}.version"))
        try:
            yield part
        finally:
            part.clean()


async def _fetch(url: str, part: _Part, progress: DownloadProgress) -> None:
    """Complete the part. Raises `DownloadError`, and OSError if it can't be written."""
    headers = {"User-Agent": "memoryd", "Accept-Encoding": "identity"}
    if part.size and part.version:
        headers |= {"Range": f"bytes={part.size}-", "If-Range": part.version}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=ssl.create_default_context()),
                timeout=timeout,
                trust_env=True,
                auto_decompress=False,
            ) as session,
            await _answer(session, URL(url), headers) as response,
        ):
            start, total = _span(response, url, part.size)
            if start == 0:
                tag = response.headers.get("ETag", "")
                # Equal tags mean equal bytes, unless they are weak.
                part.start_over(tag if tag.startswith('"') else "")
            progress(part.size, total)
            if response.status != 416:
                await _receive(response.content, part, url, lambda: progress(part.size, total))
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _broken(url, type(error).__name__) from error
    if total not in (None, part.size):
        raise _broken(url, f"{part.size:,} bytes came of {total:,}")
    await asyncio.to_thread(part.finish)


async def _answer(
    session: aiohttp.ClientSession, url: URL, headers: dict[str, str]
) -> aiohttp.ClientResponse:
    """Return the first answer that is no redirect; none may lead to an address without TLS."""
    for _ in range(_MAX_REDIRECTS + 1):
        response = await session.get(url, headers=headers, allow_redirects=False)
        if response.status not in _REDIRECTS:
            return response
        response.close()
        sender = url.host
        try:
            url = url.join(URL(response.headers["Location"]))
        except (KeyError, ValueError):
            url = URL()
        if url.scheme != "https":
            raise DownloadError(
                f"{sender} redirects to an address that does not start with https://; use another"
                " one with --from."
            )
    raise DownloadError(f"{url.host} redirects more than {_MAX_REDIRECTS} times.")


def _span(response: aiohttp.ClientResponse, url: str, have: int) -> tuple[int, int | None]:
    """Return the offset of an answer in the file, and the size of the whole file, if known.

    Status codes are those of RFC 9110, section 15. Raises `DownloadError`.
    """
    part, _, whole = response.headers.get("Content-Range", "").partition("/")
    total = int(whole) if whole.isdecimal() else None
    if response.status == 200:
        return 0, response.content_length
    if response.status == 416 and total == have:  # it was all there
        return have, have
    if response.status == 206 and part.startswith(f"bytes {have}-"):
        return have, total
    if response.status == 404:
        raise DownloadError(f"There is no file at {url} (404): check the address.")
    if response.status in (401, 403):
        raise DownloadError(f"{url} is not public ({response.status}); download it with a browser.")
    raise DownloadError(
        f"{URL(url).host} answered {response.status} instead of the file: try again later."
    )


async def _receive(
    content: aiohttp.StreamReader, part: _Part, url: str, report: Callable[[], None]
) -> None:
    if part.size == 0:
        # Check the start of the file first, so that nobody waits for a wrong one.
        try:
            head = await content.readexactly(len(MAGIC))
        except asyncio.IncompleteReadError as error:
            head = error.partial
        if head != MAGIC:
            raise DownloadError(f"The file at {url} is not a GGUF file.")
        part.add(head)
    async for data in content.iter_chunked(_PART_BYTES):
        await asyncio.to_thread(part.add, data)
        report()


def _broken(url: str, reason: str) -> DownloadError:
    return DownloadError(
        f"The connection to {URL(url).host} failed ({reason}): run the command again to resume."
    )
