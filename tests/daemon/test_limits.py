"""Each client stays within its limits, and other clients are not affected."""

import os
import re
import resource
import select
import struct
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from harness import Daemon
from peers import Peer
from waiting import eventually

from memoryd_client.schema.memory import EventsBody, FilesBody
from memoryd_client.schema.search import SearchBody
from memoryd_client.wire.protocol import Cancel, Error, Hello, Request, Result, Welcome, raw

pytestmark = pytest.mark.own_process

MEBIBYTE = 1024 * 1024
CONNECTIONS = 256
LISTENERS = 64
SHARE_MIB = 64
SLACK_MIB = 64
"""Allowance for the allocator, one read, one answer and one search."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def pid(daemon: Daemon) -> int:
    assert daemon.process is not None
    return daemon.process.pid


def memory_mib(daemon: Daemon, name: str) -> int:
    """Return the kernel's memory figures of a process: `VmRSS` now, `VmHWM` at most."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid(daemon)}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def descriptors(daemon: Daemon) -> int:
    return len(os.listdir(f"/proc/{pid(daemon)}/fd"))


@pytest.fixture
def started(daemon: Daemon) -> Daemon:
    for number in range(20):
        daemon.write(f"memory/{number}.md", f"a common word and number{number}")
    daemon.start().sync()
    return daemon


@linux
def test_a_thousand_connections_are_too_many_and_hurt_nobody(started: Daemon) -> None:
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2_000:
        pytest.skip("needs 2,000 descriptors in one process")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, 2_000), hard))
    before = descriptors(started)
    with started.client() as client:
        client.ping()
        crowd = [Peer(str(started.socket)) for _ in range(1_000)]
        for peer in crowd:
            with suppress(ConnectionError):
                peer.send(Hello(1, 1))
        answers = [peer.receive() for peer in crowd]
        # Existing clients go on.
        assert client.search("number7").results[0].path == "memory/7.md"
        served = [frame for frame in answers if isinstance(frame, Welcome)]
        refused = [frame.code for frame in answers if isinstance(frame, Error)]
        assert (len(served), len(refused)) == (CONNECTIONS - 1, 1_000 - CONNECTIONS + 1)
        assert set(refused) == {"busy"}
        for peer in crowd:
            peer.close()
        eventually(lambda: descriptors(started) <= before + 1)
    with started.client() as client:
        client.ping()


@linux
def test_without_descriptors_it_waits_for_some_and_says_so_once(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "still here")
    daemon.start().sync()
    client = daemon.client()
    client.ping()
    used = descriptors(daemon)
    resource.prlimit(pid(daemon), resource.RLIMIT_NOFILE, (used + 3, used + 3))
    crowd = []
    for _ in range(20):
        crowd.append(Peer(str(daemon.socket)))
        crowd[-1].send(Hello(1, 1))
    for peer in crowd[:3]:
        assert isinstance(peer.receive(), Welcome)
    assert client.search("still").results
    eventually(lambda: "can't accept a client: " in daemon.log())
    for peer in crowd[:3]:
        peer.close()
    # The waiting clients are served one after the other.
    for peer in crowd[3:]:
        assert isinstance(peer.receive(), Welcome)
        peer.close()
    client.close()
    eventually(lambda: descriptors(daemon) <= used)
    assert daemon.log().count("can't accept a client: ") == 1


def test_silent_and_half_spoken_connections_leave_room_for_others(started: Daemon) -> None:
    # One connection less than the limit: half of them greet, half send the beginning of a frame.
    silent = [Peer(str(started.socket)) for _ in range(CONNECTIONS - 1)]
    for number, peer in enumerate(silent):
        if number % 2:
            peer.greet()
        peer.socket.sendall(struct.pack(">I", MEBIBYTE)[: 1 + number % 4])
    with started.client() as client:
        assert len(client.search("number7").results) == 1
    for peer in silent:
        peer.close()


@linux
def test_frames_that_never_come_whole_take_no_more_than_their_share(started: Daemon) -> None:
    before = memory_mib(started, "VmRSS")
    half = struct.pack(">I", 16 * MEBIBYTE) + bytes(15 * MEBIBYTE)
    greedy = [Peer(str(started.socket)).greet() for _ in range(12)]
    with started.client() as client:
        client.ping()
        for peer in greedy:
            with suppress(ConnectionError):
                peer.socket.sendall(half)
        # Small requests are answered meanwhile, on old and new connections.
        assert len(client.search("number7").results) == 1
        assert len(started.search("number8").results) == 1
    refused = [code for peer in greedy if (code := refusal(peer)) is not None]
    assert set(refused) == {"busy"}
    assert len(refused) >= 12 - SHARE_MIB // 15
    assert memory_mib(started, "VmHWM") - before < SHARE_MIB + SLACK_MIB
    for peer in greedy:
        peer.close()
    large = Peer(str(started.socket)).greet()
    large.send(Request(1, "search", raw(SearchBody("number7 " + "x" * 15_000_000))))
    assert isinstance(large.answer(), Result)
    large.close()


def refusal(peer: Peer) -> str | None:
    """Return the code that ends a connection; None if it is still open."""
    peer.socket.setblocking(False)
    try:
        frame = peer.receive()
    except BlockingIOError:
        return None
    except ConnectionError:
        return "busy"  # the connection was closed during the write, so the error was lost
    assert isinstance(frame, Error)
    return frame.code


@linux
def test_answers_that_nobody_reads_take_no_more_than_their_share(daemon: Daemon) -> None:
    for number in range(1_000):
        daemon.write(f"memory/{number:0200}.md", "short")
    daemon.start().sync()
    before = memory_mib(daemon, "VmRSS")
    deaf = [Peer(str(daemon.socket)).greet() for _ in range(20)]
    # The answers have 130 MiB in total.
    for peer in deaf:
        peer.send(*(Request(n, "files", raw(FilesBody(limit=1_000))) for n in range(30)))
    eventually(lambda: any(is_hung_up(peer) for peer in deaf))
    with daemon.client() as client:
        assert client.files_page(limit=1_000).total == 1_000
    assert memory_mib(daemon, "VmHWM") - before < SHARE_MIB + SLACK_MIB // 2
    for peer in deaf:
        peer.close()


def is_hung_up(peer: Peer) -> bool:
    poll = select.poll()
    poll.register(peer.socket, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


@linux
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_requests_that_are_cancelled_at_once_leave_nothing(started: Daemon, count: int) -> None:
    peer = Peer(str(started.socket)).greet()

    def hurry() -> None:
        for begin in range(0, count // 2, 10):
            for number in range(begin, begin + 10):
                peer.send(Request(number, "search", raw(SearchBody("common"))), Cancel(number))
            for _ in range(10):
                peer.answer()

    hurry()
    before = memory_mib(started, "VmRSS"), descriptors(started)
    hurry()
    assert memory_mib(started, "VmRSS") - before[0] < 8
    eventually(lambda: descriptors(started) <= before[1])
    peer.close()
    assert len(started.search("number7").results) == 1


def test_floods_from_many_sides_do_not_keep_others_from_an_answer(started: Daemon) -> None:
    crowd = [Peer(str(started.socket)).greet() for _ in range(10)]
    for peer in crowd:
        peer.send(*(Request(n, "search", raw(SearchBody("common"))) for n in range(40)))
    with started.client() as client:
        client.ping()
        assert len(client.search("number7").results) == 1
    for peer in crowd:
        assert {peer.answer().id for _ in range(40)} == set(range(40))
        peer.close()


def test_more_listeners_than_there_is_room_for_are_told(started: Daemon) -> None:
    peer = Peer(str(started.socket)).greet()
    others = [Peer(str(started.socket)).greet() for _ in range(2)]
    for each in (peer, *others[:1]):
        each.send(*(Request(n, "events", raw(EventsBody())) for n in range(LISTENERS // 2)))
        for _ in range(LISTENERS // 2):
            each.receive()
    others[1].send(Request(1, "events", raw(EventsBody())))
    refused = others[1].answer()
    assert isinstance(refused, Error)
    assert refused.code == "busy"
    peer.close()
    with started.client() as client:
        client.ping()

    def has_room() -> bool:
        others[1].send(Request(1, "events", raw(EventsBody())))
        return not isinstance(others[1].receive(), Error)

    eventually(has_room)
    for each in others:
        each.close()
