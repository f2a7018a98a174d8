import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import msgspec
import pytest
from fake_daemon import STUCK_TIMEOUT_S, FakeDaemon, Peer, answering
from waiting import cancelled_while, happened

from memoryd_client import AsyncClient, errors
from memoryd_client.schema.memory import GetBody, GetResult, IndexResult, PingResult
from memoryd_client.wire.protocol import Error, Hello, Request, Result, raw

PONG = PingResult(pid=4242, version="9.9", uptime_s=1.5)
INDEXED = IndexResult(files=1, chunks=2, embedded=2, reused=0, seconds=0.5)
PATHS = [f"memory/{number}.md" for number in range(20)]


def echo(request: Request) -> Result:
    """Return the answer to a `get`, with the requested path."""
    path = msgspec.msgpack.decode(request.body, type=GetBody).path
    return Result(request.id, raw(GetResult(path, "", 1, 0, 0)))


async def test_answers_may_come_in_any_order() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        requests = [peer.request() for _ in PATHS]
        peer.send(*(echo(request) for request in reversed(requests)))

    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path) as client:
            results = await asyncio.gather(*(client.get(path) for path in PATHS))
    assert [result.path for result in results] == PATHS


async def test_progress_goes_to_its_own_call() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        one, other = peer.request(), peer.request()
        for number, request in enumerate((one, other, one), start=1):
            peer.progress(request, number, 3, "")
        peer.answer(other, INDEXED)
        peer.answer(one, INDEXED)

    seen: dict[str, list[int]] = {"one": [], "other": []}
    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path) as client:
            await asyncio.gather(
                *(
                    client.index(on_progress=lambda done, *_, name=name: seen[name].append(done))
                    for name in seen
                )
            )
    assert seen == {"one": [1, 3], "other": [2]}


async def test_calls_that_start_together_share_one_connection() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        for _ in range(3):
            peer.answer(peer.request(), PONG)

    with FakeDaemon(script) as daemon:
        client = AsyncClient(daemon.path)
        assert await asyncio.gather(*(client.ping() for _ in range(3))) == [PONG] * 3
        await client.close()


async def test_cancelling_a_call_cancels_its_request_and_no_other() -> None:
    asked, cancelled = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        doomed, other = peer.request(), peer.request()
        asked.set()
        assert peer.cancel().id == doomed.id
        cancelled.set()
        late = Error("cancelled", "cancelled", doomed.id)
        peer.send(late, echo(other), echo(peer.request()))

    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path) as client:
            doomed = asyncio.create_task(client.search("tea"))
            other = asyncio.create_task(client.get("other.md"))
            await happened(asked)
            doomed.cancel()
            with pytest.raises(asyncio.CancelledError):
                await doomed
            await happened(cancelled)
            assert (await client.get("later.md")).path == "later.md"
            assert (await other).path == "other.md"


@pytest.mark.parametrize(
    ("last_words", "kind"),
    [
        (lambda peer: None, errors.ConnectionLostError),
        (lambda peer: peer.connection.sendall(b"\xff" * 8), errors.ProtocolMismatchError),
        (lambda peer: peer.send(Error("shutting_down", "bye")), errors.ShuttingDownError),
    ],
)
async def test_the_end_of_the_connection_wakes_every_waiter(
    last_words: Callable[[Peer], None], kind: type[errors.MemorydError]
) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        for _ in PATHS:
            peer.request()
        last_words(peer)

    with FakeDaemon(script, answering(PONG)) as daemon:
        async with AsyncClient(daemon.path) as client:
            calls = (client.index(force=True) for _ in PATHS)
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results] == [kind] * len(PATHS)
            assert len({id(result) for result in results}) == len(PATHS)
            assert await client.ping() == PONG


@pytest.mark.parametrize(
    "last_words",
    [
        lambda peer, requests: None,
        lambda peer, requests: peer.send(Error("shutting_down", "bye")),
        lambda peer, requests: [peer.refuse(each, "shutting_down") for each in requests],
    ],
)
async def test_all_that_waited_ask_again_on_one_new_connection(
    last_words: Callable[[Peer, list[Request]], None],
) -> None:
    def ending(peer: Peer) -> None:
        peer.greet()
        last_words(peer, [peer.request() for _ in PATHS])

    def script(peer: Peer) -> None:
        peer.greet()
        for _ in PATHS:
            peer.send(echo(peer.request()))

    with FakeDaemon(ending, script) as daemon:
        async with AsyncClient(daemon.path) as client:
            results = await asyncio.gather(*(client.get(path) for path in PATHS))
    assert [result.path for result in results] == PATHS


async def test_a_daemon_that_stops_may_answer_the_others_first() -> None:
    """The task that first notices the stop must not discard the pending answers of the others."""

    def script(peer: Peer) -> None:
        peer.greet()
        one, other = peer.request(), peer.request()
        peer.refuse(one, "shutting_down")
        peer.answer(other, INDEXED)

    with FakeDaemon(script, answering(PONG)) as daemon:
        async with AsyncClient(daemon.path) as client:
            one = asyncio.create_task(client.ping())
            other = asyncio.create_task(client.index(force=True))
            assert await one == PONG
            assert await other == INDEXED


async def test_all_that_wait_for_a_daemon_give_up_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The calls share one wait of `wait_s` seconds instead of waiting one after the other."""
    now_s = 0.0
    pause = asyncio.sleep

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        await pause(0)
        now_s += seconds

    for module in ("transport.async_turns", "transport.dial"):
        clock = SimpleNamespace(monotonic=lambda: now_s)
        monkeypatch.setattr(f"memoryd_client.{module}.time", clock)
    monkeypatch.setattr("memoryd_client.transport.async_link.asyncio.sleep", sleep)
    daemon = FakeDaemon()
    client = AsyncClient(daemon.path, wait_s=4.0)
    results = await asyncio.gather(*(client.ping() for _ in PATHS), return_exceptions=True)
    assert [type(result) for result in results] == [errors.DaemonNotRunningError] * len(PATHS)
    assert now_s == pytest.approx(4.0)
    daemon.close()


async def test_closing_wakes_every_waiter_and_nobody_connects_again() -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        peer.request()
        asked.set()
        assert peer.hung_up()

    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path) as client:
            call = asyncio.create_task(client.search("tea"))
            await happened(asked)
        with pytest.raises(errors.ConnectionLostError):
            await call


async def test_cancelling_a_call_that_connects_again_ends_it() -> None:
    dead = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        peer.request()

    def silent(peer: Peer) -> None:
        peer.next(Hello)
        dead.set()
        assert peer.hung_up()

    with FakeDaemon(script, silent, answering(PONG)) as daemon:
        async with AsyncClient(daemon.path) as client:
            await cancelled_while(lambda: client.search("tea"), dead)
            assert await client.ping() == PONG


async def test_a_failing_call_of_one_task_does_not_disturb_the_others() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        requests = [peer.request() for _ in PATHS]
        doomed = requests[3]
        peer.progress(doomed, 1, 3, "")
        assert peer.cancel().id == doomed.id
        peer.send(*(echo(request) for request in requests if request is not doomed))

    def fail(completed: int, total: int, label: str) -> None:
        raise ValueError(label)

    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path) as client:
            calls: list[Awaitable[object]] = [
                client.index(on_progress=fail) if number == 3 else client.get(path)
                for number, path in enumerate(PATHS)
            ]
            results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [
        ValueError if number == 3 else GetResult for number in range(len(PATHS))
    ]


async def test_closing_before_the_reader_has_begun() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        assert peer.hung_up()

    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path):
            pass
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_no_task_is_left_behind() -> None:
    def script(peer: Peer) -> None:
        answering(PONG)(peer)
        assert peer.hung_up()

    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path) as client:
            await client.ping()
            assert len(asyncio.all_tasks()) == 2
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_while_greeting_closes_the_connection() -> None:
    greeting = threading.Event()

    def script(peer: Peer) -> None:
        peer.next(Hello)
        greeting.set()
        assert peer.hung_up()

    with FakeDaemon(script, answering(PONG)) as daemon:
        client = AsyncClient(daemon.path)
        await cancelled_while(client.ping, greeting)
        assert await client.ping() == PONG
        await client.close()


async def test_a_daemon_that_went_between_two_calls_is_not_noticed() -> None:
    def script(peer: Peer) -> None:
        answering(PONG)(peer)

    with FakeDaemon(script, answering(PONG)) as daemon:
        async with AsyncClient(daemon.path) as client:
            (reader,) = asyncio.all_tasks() - {asyncio.current_task()}
            await client.ping()
            await asyncio.wait([reader])
            assert await client.ping() == PONG


async def test_a_daemon_that_does_not_read_costs_the_call_its_time_only() -> None:
    stuck = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        assert stuck.wait(STUCK_TIMEOUT_S)
        big = peer.request()
        assert peer.cancel().id == big.id
        peer.answer(peer.request(), PONG)

    with FakeDaemon(script) as daemon:
        async with AsyncClient(daemon.path) as client:
            with pytest.raises(errors.RequestTimeoutError):
                await client.search("x" * 10_000_000, timeout_s=0.02)
            stuck.set()
            assert await client.ping() == PONG
