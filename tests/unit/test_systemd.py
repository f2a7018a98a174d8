"""Notifications to a service manager over a real datagram socket, and its sockets."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import settle

from memoryd.server.systemd import Notifier, inherited_socket

HAND_OVER = """
import os, socket, sys
from memoryd.server.systemd import inherited_socket
os.dup2(int(sys.argv[1]), 3)
pid = {"own": str(os.getpid()), "other": "1"}[sys.argv[2]]
listener = inherited_socket({"LISTEN_PID": pid, "LISTEN_FDS": sys.argv[3]})
if listener is None:
    print("none")
else:
    print(listener.getsockname(), listener.getblocking(), listener.get_inheritable())
    listener.close()
"""


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """The receiving end of a service manager."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as name,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        manager.bind(str(Path(name) / "notify"))
        manager.setblocking(False)
        yield manager


def environ(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.getsockname(), **more}


def nothing_from(manager: socket.socket) -> bool:
    with pytest.raises(BlockingIOError):
        manager.recv(1000)
    return True


def test_assignments_are_lines_of_one_datagram(manager: socket.socket) -> None:
    Notifier(environ(manager)).send("READY=1", "STATUS=serving /home/änn")
    assert manager.recv(1000).decode() == "READY=1\nSTATUS=serving /home/änn"
    assert nothing_from(manager)


@pytest.mark.skipif(sys.platform == "darwin", reason="needs Linux: abstract sockets")
def test_an_abstract_address_is_understood() -> None:
    name = f"memoryd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).send("READY=1")
        assert manager.recv(1000) == b"READY=1"


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "relative", "/" + "x" * 200])
def test_a_manager_that_does_not_listen_is_no_fault(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address}).send("READY=1")


def test_without_a_manager_nothing_is_sent() -> None:
    Notifier({}).send("READY=1")


def test_a_manager_that_does_not_read_does_not_stop_us(manager: socket.socket) -> None:
    notifier = Notifier(environ(manager))
    for _ in range(10_000):
        notifier.send("STATUS=" + "x" * 1000)
    assert manager.recv(2000).startswith(b"STATUS=")


async def received(manager: socket.socket) -> str:
    return (await asyncio.get_running_loop().sock_recv(manager, 1000)).decode()


async def test_the_watchdog_is_fed_while_all_is_well(manager: socket.socket) -> None:
    healthy, asked = True, asyncio.Event()

    async def is_healthy() -> bool:
        asked.set()
        await asyncio.sleep(0)
        return healthy

    notifier = Notifier(environ(manager, WATCHDOG_USEC="2000", WATCHDOG_PID=str(os.getpid())))
    feeding = asyncio.create_task(notifier.run(is_healthy))
    assert [await received(manager) for _ in range(3)] == ["WATCHDOG=1"] * 3
    healthy = False
    for _ in range(2):
        asked.clear()
        await asked.wait()
    feeding.cancel()
    while True:
        try:
            assert manager.recv(1000) == b"WATCHDOG=1"
        except BlockingIOError:
            break
    assert feeding.cancelling()


@pytest.mark.parametrize(
    "variables",
    [{}, {"WATCHDOG_USEC": "2000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}],
)
async def test_without_a_watchdog_for_us_nobody_is_asked(
    manager: socket.socket, variables: dict[str, str]
) -> None:
    async def is_healthy() -> bool:
        pytest.fail("asked")

    running = asyncio.create_task(Notifier(environ(manager, **variables)).run(is_healthy))
    await settle()
    assert not running.done()
    assert nothing_from(manager)
    running.cancel()


def hand_over(descriptor: int, pid: str, number: str) -> subprocess.CompletedProcess[str]:
    """Pass a descriptor to another process as systemd does."""
    return subprocess.run(
        [sys.executable, "-c", HAND_OVER, str(descriptor), pid, number],
        pass_fds=[descriptor],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{name}/s")
        bound.listen()
        yield bound


def test_the_socket_that_systemd_has_bound_is_taken(listener: socket.socket) -> None:
    assert hand_over(listener.fileno(), "own", "1").stdout == (
        f"{listener.getsockname()} False False\n"
    )


@pytest.mark.parametrize(("pid", "number"), [("other", "1"), ("own", "0"), ("own", "2")])
def test_what_is_meant_for_another_is_left(listener: socket.socket, pid: str, number: str) -> None:
    assert hand_over(listener.fileno(), pid, number).stdout == "none\n"


def test_without_systemd_there_is_none() -> None:
    assert inherited_socket({}) is None


def test_what_is_no_socket_is_an_error_of_the_system() -> None:
    with tempfile.TemporaryFile() as file:
        assert "OSError" in hand_over(file.fileno(), "own", "1").stderr
