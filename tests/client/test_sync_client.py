import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from fake_daemon import STUCK_TIMEOUT_S, FakeDaemon, Peer, answering

from memoryd_client import Client, errors
from memoryd_client.schema.memory import GetBody, GetResult, PingResult
from memoryd_client.wire.framing import pack
from memoryd_client.wire.protocol import Error, Request, Result, raw

PONG = PingResult(pid=4242, version="9.9", uptime_s=1.5)
SHORT_S = 0.02


def echo(peer: Peer, request: Request) -> None:
    """Answer a `get` with the requested path."""
    path = msgspec.msgpack.decode(request.body, type=GetBody).path
    peer.answer(request, GetResult(path, "", 1, 0, 0))


def test_calls_of_several_threads_take_turns() -> None:
    paths = [f"memory/{number}.md" for number in range(20)]

    def script(peer: Peer) -> None:
        peer.greet()
        for _ in paths:
            request = peer.request()
            assert not peer.has_more(), "two requests at once"
            echo(peer, request)

    with (
        FakeDaemon(script) as daemon,
        Client(daemon.path) as client,
        ThreadPoolExecutor(max_workers=5) as threads,
    ):
        results = list(threads.map(client.get, paths))
    assert [result.path for result in results] == paths


def test_waiting_for_ones_turn_counts_as_waiting() -> None:
    started, given_up = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        started.set()
        assert given_up.wait(STUCK_TIMEOUT_S)
        echo(peer, request)

    with (
        FakeDaemon(script) as daemon,
        Client(daemon.path) as client,
        ThreadPoolExecutor(max_workers=1) as threads,
    ):
        first = threads.submit(client.get, "first.md")
        assert started.wait(STUCK_TIMEOUT_S)
        with pytest.raises(errors.RequestTimeoutError):
            client.get("second.md", timeout_s=SHORT_S)
        given_up.set()
        assert first.result().path == "first.md"


class Clock:
    """A clock that advances only in `sleep`, and only after a number of threads have read it."""

    def __init__(self, threads: int) -> None:
        self.now_s = 0.0
        self._threads = threads
        self._seen: set[int] = set()
        self._all_seen = threading.Event()

    def monotonic(self) -> float:
        self._seen.add(threading.get_ident())
        if len(self._seen) == self._threads:
            self._all_seen.set()
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert self._all_seen.wait(STUCK_TIMEOUT_S)
        self.now_s += seconds


def test_all_that_wait_for_a_daemon_give_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls share one wait of `wait_s` seconds instead of waiting one after the other."""
    clock = Clock(threads=5)
    for module in ("transport.turns", "transport.blocking_link", "transport.dial"):
        monkeypatch.setattr(f"memoryd_client.{module}.time", clock)
    daemon = FakeDaemon()
    client = Client(daemon.path, wait_s=4.0, timeout_s=None)
    with ThreadPoolExecutor(max_workers=5) as threads:
        calls = [threads.submit(client.ping) for _ in range(5)]
    assert {type(call.exception()) for call in calls} == {errors.DaemonNotRunningError}
    assert clock.now_s == pytest.approx(4.0)
    with pytest.raises(errors.DaemonNotRunningError):
        client.ping()
    assert clock.now_s == pytest.approx(8.0), "a later call waits again"
    daemon.close()


def test_threads_ask_again_after_a_restart() -> None:
    paths = [f"memory/{number}.md" for number in range(20)]

    def until_it_dies(peer: Peer) -> None:
        peer.greet()
        for _ in range(3):
            echo(peer, peer.request())
        peer.request()

    def script(peer: Peer) -> None:
        peer.greet()
        for _ in range(len(paths) - 6):
            echo(peer, peer.request())

    with (
        FakeDaemon(until_it_dies, until_it_dies, script) as daemon,
        Client(daemon.path) as client,
        ThreadPoolExecutor(max_workers=5) as threads,
    ):
        results = list(threads.map(client.get, paths))
    assert [result.path for result in results] == paths


def test_what_the_callback_raises_cancels_the_request() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        assert peer.cancel().id == request.id
        peer.refuse(request, "cancelled")
        peer.answer(peer.request(), PONG)

    def fail(completed: int, total: int, label: str) -> None:
        raise LookupError(label)

    with FakeDaemon(script) as daemon, Client(daemon.path) as client:
        with pytest.raises(LookupError, match="reading"):
            client.sync(on_progress=fail)
        assert client.ping() == PONG


def test_an_interrupt_cancels_and_gives_the_connection_up() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        assert peer.cancel().id == request.id
        assert peer.hung_up()

    def interrupt(completed: int, total: int, label: str) -> None:
        raise KeyboardInterrupt

    with FakeDaemon(script, answering(PONG)) as daemon, Client(daemon.path) as client:
        with pytest.raises(KeyboardInterrupt):
            client.index(on_progress=interrupt)
        assert client.ping() == PONG


def test_a_daemon_that_went_between_two_calls_is_not_noticed() -> None:
    gone = threading.Event()

    def script(peer: Peer) -> None:
        answering(PONG)(peer)
        peer.close()
        gone.set()

    with FakeDaemon(script, answering(PONG)) as daemon, Client(daemon.path) as client:
        client.ping()
        assert gone.wait(STUCK_TIMEOUT_S)
        assert client.ping() == PONG


def test_a_farewell_between_two_calls_is_not_noticed_either() -> None:
    gone = threading.Event()

    def script(peer: Peer) -> None:
        answering(PONG)(peer)
        peer.send(Error("shutting_down", "memoryd is stopping"))
        gone.set()
        assert peer.hung_up()

    with FakeDaemon(script, answering(PONG)) as daemon, Client(daemon.path) as client:
        client.ping()
        assert gone.wait(STUCK_TIMEOUT_S)
        assert client.ping() == PONG


def test_a_late_answer_is_taken_in_before_the_next_call() -> None:
    answered = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        slow = peer.request()
        peer.cancel()
        # The first half of a frame stays in the buffer until the next call.
        late = pack(Result(slow.id, raw(PONG)))
        peer.connection.sendall(late[:10])
        answered.set()
        request = peer.request()
        peer.connection.sendall(late[10:])
        echo(peer, request)

    with FakeDaemon(script) as daemon, Client(daemon.path) as client:
        with pytest.raises(errors.RequestTimeoutError):
            client.ping(timeout_s=SHORT_S)
        assert answered.wait(STUCK_TIMEOUT_S)
        assert client.get("MEMORY.md").path == "MEMORY.md"


def test_a_daemon_that_does_not_read_costs_the_connection_not_the_caller() -> None:
    stuck = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        assert stuck.wait(STUCK_TIMEOUT_S)

    with FakeDaemon(script, answering(PONG)) as daemon, Client(daemon.path) as client:
        with pytest.raises(errors.RequestTimeoutError):
            client.search("x" * 10_000_000, timeout_s=SHORT_S)
        stuck.set()
        assert client.ping() == PONG


def test_a_closed_client_connects_again_when_used() -> None:
    with FakeDaemon(answering(PONG), answering(PONG)) as daemon, Client(daemon.path) as client:
        client.ping()
        client.close()
        assert client.ping() == PONG
