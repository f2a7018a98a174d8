"""GGUF models in a worker process with llama.cpp: tiny models, and all failures."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("xllamacpp")

from gguf_models import CONTEXT_TOKENS, DIMS, write_bert, write_llama
from model_process import (
    KEYS,
    ODD_TEXTS,
    assert_confined,
    ended,
    ends_with_its_daemon,
    pid_of,
    pids_of_starts,
)

from memoryd.embed.gguf import gguf_engine
from memoryd.embed.gguf_worker import shortened
from memoryd.embed.local import LocalProvider, LocalStats
from memoryd.embed.provider import RetryableError

pytestmark = pytest.mark.long

WRITERS = {"bert": write_bert, "llama": write_llama}
TEXTS = {
    **ODD_TEXTS,
    "special tokens": "[CLS] </s> <s> [SEP]",
    "no letters": "🙂" * 2_000,
    "one word of 50 kB": "x" * 50_000,
    "many words": "a b c " * 5_000,
    "sparse, then dense": " " * 500 + "x.y" * 2_000,
}


@pytest.fixture(params=sorted(WRITERS))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name: str = request.param
    return WRITERS[name](tmp_path / f"{name}.gguf")


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return write_bert(tmp_path / "bert.gguf")


@contextlib.asynccontextmanager
async def opened(path: Path, **options: float) -> AsyncIterator[LocalProvider]:
    provider = LocalProvider(gguf_engine(path), **options)  # type: ignore[arg-type]
    try:
        yield provider
    finally:
        await provider.close()


async def test_vectors_are_the_models_and_have_length_1(model: Path) -> None:
    async with opened(model) as provider:
        assert provider.dims is None
        query = await provider.embed_query("abc")
        assert provider.dims == DIMS[model.stem]
        assert query.shape == (1, provider.dims)
        assert query.dtype == np.float32
        rows = await provider.embed_documents(["abc", "xyz", "abc"])
        assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(3), abs=1e-6)
        assert np.array_equal(rows[0], query[0])
        assert np.array_equal(rows[2], rows[0])
        assert not np.allclose(rows[1], rows[0], atol=0.01)


async def test_a_vector_does_not_depend_on_what_was_embedded_before(model: Path) -> None:
    async with opened(model) as provider:
        first = await provider.embed_documents(["a b c d", "a b c e", "a b"])
        again = await provider.embed_documents(["a b", "a b c e", "a b c d"])
    assert np.array_equal(first, again[::-1])
    async with opened(model) as provider:
        assert np.array_equal(await provider.embed_documents(["a b"]), first[2:])


async def test_any_text_has_a_vector(model: Path) -> None:
    async with opened(model) as provider:
        rows = await provider.embed_documents(list(TEXTS.values()))
        assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(len(rows)), abs=1e-6)
        for (name, text), row in zip(TEXTS.items(), rows, strict=True):
            assert np.allclose((await provider.embed_query(text))[0], row, atol=1e-6), name
        assert provider.stats().restarts == 0


async def test_of_a_text_that_is_too_long_the_start_counts(bert: Path) -> None:
    fits = "a " * (CONTEXT_TOKENS - 2)
    async with opened(bert) as provider:
        whole, longer, other = await provider.embed_documents(
            [fits, fits + "b " * 100, "b " * 100 + fits]
        )
    assert whole @ longer > 0.99
    assert whole @ other < 0.98


@pytest.mark.parametrize("context_tokens", [16, 1_000_000])
async def test_the_context_is_what_is_set_and_no_more_than_the_models(
    bert: Path, context_tokens: int
) -> None:
    texts = ["a b c " * 20, "a b c " * 20 + "x " * 100]
    provider = LocalProvider(gguf_engine(bert, context_tokens=context_tokens))
    try:
        rows = await provider.embed_documents(texts)
        assert provider.stats().restarts == 0
    finally:
        await provider.close()
    async with opened(bert) as usual:
        same = np.allclose(rows, await usual.embed_documents(texts), atol=1e-6)
    assert same == (context_tokens > CONTEXT_TOKENS)


async def test_a_query_differs_from_a_document_by_its_prefix(tmp_path: Path) -> None:
    async with opened(write_bert(tmp_path / "embeddinggemma-tiny.gguf")) as provider:
        query = (await provider.embed_query("abc"))[0]
        document = (await provider.embed_documents(["abc"]))[0]
    async with opened(write_bert(tmp_path / "plain.gguf")) as provider:
        plain = await provider.embed_documents(
            ["task: search result | query: abc", "title: none | text: abc"]
        )
    assert not np.allclose(query, document, atol=0.01)
    assert np.array_equal(np.stack([query, document]), plain)


async def test_a_query_overtakes_bulk_work(bert: Path) -> None:
    order: list[str] = []

    async def run(name: str, call: Callable[[], asyncio.Future[object]]) -> None:
        await call()
        order.append(name)

    async with opened(bert) as provider:
        await provider.embed_query("load")
        async with asyncio.TaskGroup() as group:
            bulk = asyncio.ensure_future(provider.embed_documents(["abc " * 15] * 50))
            group.create_task(run("bulk", lambda: bulk))  # type: ignore[arg-type, return-value]
            await asyncio.sleep(0)
            query = asyncio.ensure_future(provider.embed_query("me first"))
            group.create_task(run("query", lambda: query))  # type: ignore[arg-type, return-value]
    assert order == ["query", "bulk"]


async def test_killing_the_worker_in_the_middle_of_its_work_loses_nothing(bert: Path) -> None:
    texts = [f"{number}: some words" for number in range(200)]
    async with opened(bert) as provider:
        expected = await provider.embed_documents(texts)
        first_pid = pid_of(provider)
        bulk = asyncio.create_task(provider.embed_documents(texts))
        await provider.embed_query("now bulk work is under way")
        os.kill(first_pid, signal.SIGKILL)
        assert np.allclose(await bulk, expected, atol=1e-6)
        assert provider.stats().restarts == 1
        assert pid_of(provider) != first_pid


async def test_ctrl_c_and_sigterm_are_the_daemons_business(bert: Path) -> None:
    async with opened(bert) as provider:
        await provider.embed_query("load")
        pid = pid_of(provider)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        await provider.embed_query("still there")
        assert pid_of(provider) == pid


async def test_an_idle_model_is_unloaded_and_loaded_again(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = pids_of_starts(monkeypatch)
    async with opened(bert, idle_unload_s=0.01) as provider:
        before = await provider.embed_query("hello")
        await ended(pids[0])
        assert provider.stats() == LocalStats("unloaded", restarts=0, pid=None)
        assert np.array_equal(await provider.embed_query("hello"), before)
        assert provider.stats().restarts == 0


async def test_the_worker_ends_with_a_daemon_that_is_killed(bert: Path) -> None:
    await ends_with_its_daemon(str(bert))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_the_worker_can_not_be_reached_by_others(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    async with opened(bert) as provider:
        await provider.embed_query("load")
        assert list(folder.iterdir()) == []
        assert_confined(pid_of(provider))
        process = Path(f"/proc/{pid_of(provider)}")
        sockets = {
            link.removeprefix("socket:[").rstrip("]")
            for link in (os.readlink(fd) for fd in (process / "fd").iterdir())
            if link.startswith("socket:")
        }
        tcp = [
            line.split()[9]
            for table in ("tcp", "tcp6")
            for line in (process / "net" / table).read_text().splitlines()[1:]
        ]
        assert sockets.isdisjoint(tcp)


async def test_a_damaged_file_is_named_with_the_reason(tmp_path: Path) -> None:
    path = write_bert(tmp_path / "cut.gguf")
    path.write_bytes(path.read_bytes()[:-5_000])
    async with opened(path) as provider:
        with pytest.raises(RetryableError, match="corrupted or incomplete"):
            await provider.embed_query("hello")
        assert provider.stats() == LocalStats("failed", restarts=0, pid=None)


async def test_a_model_that_ranks_is_refused(tmp_path: Path) -> None:
    async with opened(write_bert(tmp_path / "reranker.gguf", pooling=4)) as provider:
        with pytest.raises(RetryableError, match="ranks documents"):
            await provider.embed_query("hello")


@pytest.mark.parametrize(("tokens", "limit"), [(65, 64), (64, 64), (10_000, 64)])
def test_a_text_is_cut_to_about_its_share_and_always_shorter(tokens: int, limit: int) -> None:
    cut = shortened("x" * 10_000, tokens, limit)
    assert len(cut) <= min(9_999, 10_000 * limit // tokens)
    assert len(cut) > 0.98 * 10_000 * limit / tokens


def test_a_text_that_can_not_be_cut_is_an_error() -> None:
    with pytest.raises(ValueError, match="can't be cut"):
        shortened("x", 65, 64)
