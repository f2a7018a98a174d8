"""Download of a model file from a server that resumes, breaks off, and sends wrong content."""

import asyncio
import fcntl
import hashlib
import re
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from memoryd.embed.download import MODEL_PAGE, MODEL_URL, DownloadError, DownloadProgress, download
from memoryd.embed.provider import prefixes

TLS = Path(__file__).parents[1] / "fixtures/tls"
CONTENT = b"GGUF" + bytes(range(256)) * 12_000
"""A content that arrives in three or four pieces."""


@dataclass
class Model:
    """A server with one file. It breaks off after `cut` bytes, once they have arrived."""

    content: bytes = CONTENT
    etag: str | None = '"v1"'
    cut: int | None = None
    status: int | None = None
    ranges: bool = True
    announced: bool = True
    location: str = "/models/tiny.gguf"
    seen: list[dict[str, str]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(dict(request.headers))
        if self.status is not None:
            return web.Response(status=self.status, text="<html>sorry</html>")
        start, total = 0, len(self.content)
        response = web.StreamResponse()
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if self.ranges and asked and request.headers.get("If-Range") == self.etag:
            start = int(asked[1])
            if start >= total:
                return web.Response(status=416, headers={"Content-Range": f"bytes */{total}"})
            response.set_status(206)
            response.headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        if self.etag is not None:
            response.headers["ETag"] = self.etag
        if self.announced:
            response.content_length = total - start
        await response.prepare(request)
        body = self.content[start:]
        if self.cut is None:
            await response.write(body)
            return response
        await response.write(body[: self.cut])
        await self.arrived.wait()
        assert request.transport is not None
        request.transport.close()
        return response


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Model]:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "certificate.pem"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    served = Model()
    app = web.Application()
    app.router.add_get("/models/tiny.gguf", served.answer)

    async def elsewhere(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": served.location})

    app.router.add_get("/moved/tiny.gguf", elsewhere)
    server = TestServer(app)
    await server.start_server(ssl=tls)
    try:
        served.url = str(server.make_url("/models/tiny.gguf"))
        yield served
    finally:
        await server.close()


def ignore(have: int, total: int | None) -> None:
    assert total is None or have <= total


async def fetch(
    model: Model, folder: Path, *, url: str = "", progress: DownloadProgress = ignore
) -> Path:
    """Download the file that the server has now."""
    digest = hashlib.sha256(model.content).hexdigest()
    return await download(url or model.url, folder, sha256=digest, progress=progress)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def broken_off(model: Model, folder: Path, *, after: int) -> None:
    """Fetch `cut` bytes, then lose the connection."""
    model.cut = after

    def watch(have: int, total: int | None) -> None:
        if have == after:
            model.arrived.set()

    with pytest.raises(DownloadError, match="run the command again to resume"):
        await fetch(model, folder, progress=watch)
    model.cut = None
    assert (folder / "tiny.gguf.part").read_bytes() == model.content[:after]
    assert not (folder / "tiny.gguf").exists()


async def test_a_file_is_fetched_and_nothing_else_is_left(model: Model, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    folder = tmp_path / "state/models"
    path = await fetch(model, folder, progress=lambda *state: told.append(state))
    assert path == folder / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert names(folder) == ["tiny.gguf"]
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert told == sorted(told)
    assert len(told) > 2


async def test_what_is_there_is_not_fetched_again(model: Model, tmp_path: Path) -> None:
    await fetch(model, tmp_path)
    await fetch(model, tmp_path)
    assert len(model.seen) == 1


async def test_a_redirect_is_followed(model: Model, tmp_path: Path) -> None:
    url = model.url.replace("/models/", "/moved/")
    assert (await fetch(model, tmp_path, url=url)).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:1/tiny.gguf", "file:///tiny.gguf", "http://[", "mailto:a"]
)
async def test_a_redirect_to_an_address_without_tls_is_refused(
    model: Model, tmp_path: Path, location: str
) -> None:
    model.location = location
    url = model.url.replace("/models/", "/moved/")
    with pytest.raises(DownloadError, match="does not start with https"):
        await fetch(model, tmp_path, url=url)
    assert names(tmp_path) == []


async def test_redirects_end(model: Model, tmp_path: Path) -> None:
    model.location = "/moved/tiny.gguf"
    url = model.url.replace("/models/", "/moved/")
    with pytest.raises(DownloadError, match="redirects more than 5 times"):
        await fetch(model, tmp_path, url=url)


async def test_a_server_whose_certificate_is_unknown_is_not_asked(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(DownloadError, match="ClientConnectorCertificateError"):
        await fetch(model, tmp_path)
    assert model.seen == []


async def test_a_file_with_another_hash_is_not_kept(model: Model, tmp_path: Path) -> None:
    expected, found = "0" * 64, hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(DownloadError, match=f"{found}, not {expected}, and was removed"):
        await download(model.url, tmp_path, sha256=expected, progress=ignore)
    assert names(tmp_path) == []
    assert (await fetch(model, tmp_path)).read_bytes() == CONTENT


async def test_a_part_that_somebody_changed_is_not_used(model: Model, tmp_path: Path) -> None:
    await broken_off(model, tmp_path, after=1_000_000)
    part = tmp_path / "tiny.gguf.part"
    part.write_bytes(b"GGUF" + bytes(999_996))
    with pytest.raises(DownloadError, match="was removed"):
        await fetch(model, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("sha256", ["", "0" * 63, "0" * 65, "g" * 64, "sha256:" + "0" * 57])
async def test_what_is_no_hash_is_refused(model: Model, tmp_path: Path, sha256: str) -> None:
    with pytest.raises(DownloadError, match="64 hexadecimal digits"):
        await download(model.url, tmp_path, sha256=sha256, progress=ignore)
    assert model.seen == []


async def test_a_hash_in_capital_letters_is_the_same(model: Model, tmp_path: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest().upper()
    await download(model.url, tmp_path, sha256=digest, progress=ignore)
    assert names(tmp_path) == ["tiny.gguf"]


async def test_the_file_is_for_its_owner_alone_whatever_was_there(
    model: Model, tmp_path: Path
) -> None:
    (tmp_path / "tiny.gguf.part").touch(0o666)
    path = await fetch(model, tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_part_that_is_a_link_is_not_written_through(model: Model, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("a note")
    (tmp_path / "tiny.gguf.part").symlink_to(tmp_path / "note")
    with pytest.raises(DownloadError, match="can't be written"):
        await fetch(model, tmp_path)
    assert (tmp_path / "note").read_text() == "a note"


async def test_a_dropped_connection_is_resumed_where_it_broke(model: Model, tmp_path: Path) -> None:
    await broken_off(model, tmp_path, after=1_000_000)
    told: list[tuple[int, int | None]] = []
    path = await fetch(model, tmp_path, progress=lambda *state: told.append(state))
    assert path.read_bytes() == CONTENT
    assert model.seen[1]["Range"] == "bytes=1000000-"
    assert told[0] == (1_000_000, len(CONTENT))
    assert names(tmp_path) == ["tiny.gguf"]


async def test_a_part_of_another_version_is_not_continued(model: Model, tmp_path: Path) -> None:
    await broken_off(model, tmp_path, after=1_000_000)
    model.content, model.etag = b"GGUF" + b"second version" * 1_000, '"v2"'
    path = await fetch(model, tmp_path)
    assert path.read_bytes() == model.content


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
async def test_without_a_version_that_can_be_trusted_it_starts_over(
    model: Model, tmp_path: Path, etag: str | None
) -> None:
    model.etag = etag
    await broken_off(model, tmp_path, after=1_000_000)
    assert (await fetch(model, tmp_path)).read_bytes() == CONTENT
    assert "Range" not in model.seen[1]


async def test_a_server_that_knows_no_ranges_is_fine(model: Model, tmp_path: Path) -> None:
    model.ranges = False
    await broken_off(model, tmp_path, after=1_000_000)
    assert (await fetch(model, tmp_path)).read_bytes() == CONTENT


async def test_a_part_that_is_whole_is_taken(model: Model, tmp_path: Path) -> None:
    model.announced = False
    await broken_off(model, tmp_path, after=len(CONTENT))
    assert (await fetch(model, tmp_path)).read_bytes() == CONTENT
    assert names(tmp_path) == ["tiny.gguf"]


async def test_a_file_of_unknown_length_is_fetched(model: Model, tmp_path: Path) -> None:
    model.announced = False
    told: list[tuple[int, int | None]] = []
    path = await fetch(model, tmp_path, progress=lambda *state: told.append(state))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), None)


@pytest.mark.parametrize("content", [b"<html>Log in first</html>", b"GG", b""])
async def test_what_is_no_model_is_not_kept(model: Model, tmp_path: Path, content: bytes) -> None:
    model.content = content
    with pytest.raises(DownloadError, match="is not a GGUF file"):
        await fetch(model, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, r"no file at https://.*tiny\.gguf \(404\)"),
        (401, "is not public"),
        (403, "is not public"),
        (416, "answered 416"),
        (503, "answered 503"),
    ],
)
async def test_a_refusal_says_why_and_leaves_nothing(
    model: Model, tmp_path: Path, status: int, reason: str
) -> None:
    model.status = status
    with pytest.raises(DownloadError, match=reason):
        await fetch(model, tmp_path)
    assert names(tmp_path) == []


async def test_a_refusal_keeps_what_has_come(model: Model, tmp_path: Path) -> None:
    await broken_off(model, tmp_path, after=1_000_000)
    model.status = 503
    with pytest.raises(DownloadError, match="try again later"):
        await fetch(model, tmp_path)
    model.status = None
    assert (await fetch(model, tmp_path)).read_bytes() == CONTENT
    assert model.seen[2]["Range"] == "bytes=1000000-"


async def test_a_server_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:  # a reserved port on which nothing listens
        taken.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{taken.getsockname()[1]}/tiny.gguf"
        with pytest.raises(DownloadError, match=r"connection to 127\.0\.0\.1 failed"):
            await fetch(Model(), tmp_path, url=url)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tiny.gguf",
        "file:///tiny.gguf",
        "https:///tiny.gguf",
        "https://host/",
        "https://host/tiny.bin",
        "https://host/..%2Ftiny.gguf",
        "http://host/tiny.gguf",
        "https://[::1/tiny.gguf",
    ],
)
async def test_an_address_of_no_model_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="address"):
        await fetch(Model(), tmp_path, url=url)


async def test_another_file_of_that_name_is_left_alone(model: Model, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_text("my notes")
    with pytest.raises(DownloadError, match="remove it first"):
        await fetch(model, tmp_path)
    assert (tmp_path / "tiny.gguf").read_text() == "my notes"


async def test_two_at_the_same_time_do_not_write_into_one_file(
    model: Model, tmp_path: Path
) -> None:
    with (tmp_path / "tiny.gguf.part").open("ab") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(DownloadError, match="Another process"):
            await fetch(model, tmp_path)
    assert model.seen == []


async def test_a_folder_that_can_not_be_made_is_named(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DownloadError, match="can't be written"):
        await fetch(model, tmp_path / "file/models")


def test_the_model_that_is_offered_is_known() -> None:
    assert prefixes(MODEL_URL).document
    assert MODEL_URL.replace("/resolve/", "/blob/") == MODEL_PAGE
