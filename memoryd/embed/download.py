"""Download of a model file, only on request."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import aiohttp
from yarl import URL

from memoryd.embed.gguf_file import MAGIC, is_gguf
from memoryd_client.shared.safe_open import open_regular

MODEL_URL = (
    "https://huggingface.co/ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/resolve/main/"
    "embeddinggemma-300m-qat-Q8_0.gguf"
)

_PART_BYTES = 2**20
_CONNECT_S = 15.0
_SILENCE_S = 60.0

DownloadProgress = Callable[[int, int | None], None]
"""(bytes downloaded, bytes of the whole file if known)"""


class DownloadError(Exception):
    """The download failed. The message names the problem and the fix, for people."""


async def download(url: str, folder: Path, *, progress: DownloadProgress) -> Path:
    """Download a GGUF file into a folder. Returns its path, at once if the file exists already.

    If the connection ends, the data stay in `<name>.part`, and the next call resumes there if the
    server still has the same file. Raises `DownloadError`.
    """
    target = folder / _name(url)
    try:
        if _is_there(target):
            return target
        with _opened(target) as part:
            await _fetch(url, part, progress)
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
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise DownloadError(f"{url} is not an address that starts with https:// or http://.")
    if Path(name).name != name or not name.endswith(".gguf") or "\0" in name:
        raise DownloadError(f"{url} is not the address of a .gguf file.")
    return name


def _is_there(target: Path) -> bool:
    """Return whether the file exists; create its folder. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        return False
    if not is_gguf(target):
        raise DownloadError(f"{target} exists and is not a GGUF file; remove it first.")
    return True


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
    with path.open("a+b") as file:
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
                timeout=timeout, trust_env=True, auto_decompress=False
            ) as session,
            session.get(url, headers=headers) as response,
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
