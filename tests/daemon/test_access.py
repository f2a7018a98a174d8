"""Access of other users to the daemon, and of clients to foreign daemons, with real processes."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import REPOSITORY, Daemon
from users import A_THIRD, NEEDS_ROOT, THEM, become, output, python
from waiting import PATIENCE_S, eventually

from memoryd_client import Client, errors

pytestmark = NEEDS_ROOT

CALL = """
import asyncio, sys
from memoryd_client import AsyncClient, Client, errors

async def call():
    async with AsyncClient(sys.argv[1], autostart=False) as client:
        await client.status()

def call_blocking():
    with Client(sys.argv[1], autostart=False) as client:
        client.status()

for one in (call_blocking, lambda: asyncio.run(call())):
    try:
        one()
    except errors.MemorydError as error:
        print(error.code, error)
    else:
        print("served")
"""
SPEAK = """
import socket, sys
from contextlib import suppress
from memoryd_client.wire.framing import FrameBuffer, pack
from memoryd_client.wire.protocol import Hello, Request, decode_server_frame
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    buffer, received = FrameBuffer(), []
    with suppress(BrokenPipeError):  # it may have been refused already
        connection.sendall(pack(Hello(1, 1)) + pack(Request(1, "status")))
    with suppress(ConnectionResetError):  # what it sent was not read, which comes after the answer
        while data := connection.recv(65536):
            received += map(decode_server_frame, buffer.feed(data))
for frame in received:
    print(type(frame).__name__, frame.code, frame.id)
"""
LISTEN = """
import socket, sys
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("listening", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            print(connection.recv(65536), flush=True)
"""


def open_to_all(daemon: Daemon) -> None:
    """Make the socket reachable for everybody, like a careless administrator."""
    daemon.folder.chmod(0o755)
    daemon.socket.chmod(0o666)


def test_another_user_is_denied_whatever_the_socket_s_mode(
    daemon: Daemon, environment: dict[str, str]
) -> None:
    daemon.start()
    open_to_all(daemon)
    path = str(daemon.socket)
    assert output(python(THEM, "-c", SPEAK, path), environment) == "Error denied None"
    for line in output(python(THEM, "-c", CALL, path), environment).splitlines():
        assert line == "denied this memoryd serves another user"
    assert f"refused a client of user {THEM}" in daemon.log()
    with daemon.client() as client:
        assert client.status().files == 0


def test_another_user_can_not_even_connect_by_default(
    daemon: Daemon, environment: dict[str, str]
) -> None:
    daemon.start()
    # In the second case the folder lets them through, and only the socket's mode protects it.
    for mode in (0o700, 0o755):
        daemon.folder.chmod(mode)
        said = output(python(THEM, "-c", CALL, str(daemon.socket)), environment)
        assert len(said.splitlines()) == 2
        for line in said.splitlines():
            assert line.startswith("not_running cannot connect to memoryd at")
            assert "Permission denied" in line
    assert "refused a client" not in daemon.log()


def test_a_client_says_nothing_to_a_socket_of_another_user(
    environment: dict[str, str], shared: Path
) -> None:
    path = f"{shared}/s"
    with theirs(path, environment) as listener:
        said = output(python(A_THIRD, "-c", CALL, path), environment)
        assert len(said.splitlines()) == 2
        for line in said.splitlines():
            assert line.startswith(f"denied the process at {path} belongs to user {THEM}, not to")
            assert "MEMORYD_SOCKET" in line
        memctl = python(A_THIRD, "-m", "memctl", "--socket", path)
        for command in ("status", "start", "stop"):
            said = output([*memctl, command], environment, code=1)
            assert f"belongs to user {THEM}" in said or f"(uid {THEM})" in said, said
            assert "Traceback" not in said
        listener.kill()
        assert listener.stdout is not None
        assert set(listener.stdout.read().split()) <= {"b''"}


def test_a_client_of_root_talks_to_the_socket_of_any_user(
    environment: dict[str, str], shared: Path
) -> None:
    path = f"{shared}/s"
    with theirs(path, environment) as listener:
        with pytest.raises(errors.MemorydError), Client(path, wait_s=0.0) as client:
            client.ping()
        assert listener.stdout is not None
        assert "hello" in listener.stdout.readline()


def test_root_is_served_by_the_daemon_of_a_user(environment: dict[str, str], shared: Path) -> None:
    os.chown(shared, THEM, THEM)
    (shared / "config.toml").write_text(
        f'defaults.provider = "none"\nsocket.restricted = true\nagents.main.workspace = "{shared}"'
    )
    (shared / "config.toml").chmod(0o644)
    path = f"{shared}/s"
    paths = [environment["PYTHONPATH"], str(REPOSITORY)]
    variables = {
        **environment,
        "PYTHONPATH": os.pathsep.join(paths),
        "XDG_STATE_HOME": str(shared),
        "XDG_CONFIG_HOME": str(shared),
    }
    config = str(shared / "config.toml")
    command = python(THEM, "-m", "memoryd", "--config", config, "--socket", path)
    with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as process:
        try:
            with Client(path, wait_s=PATIENCE_S, timeout_s=PATIENCE_S) as client:
                assert client.status().pid == process.pid
            with Client(f"{shared}/s-agent/memoryd.sock", timeout_s=PATIENCE_S) as client:
                assert client.status().pid == process.pid
                with pytest.raises(errors.DeniedError, match="not permitted"):
                    client.reload()
        finally:
            process.terminate()


def test_an_ignore_file_without_permission_hides_its_folder(
    daemon: Daemon, environment: dict[str, str]
) -> None:
    """As another user, because root may read everything."""
    daemon.write("memory/a.md", "olives\n")
    daemon.write("memory/private/b.md", "olives\n")
    ignore = daemon.write("memory/private/.memoryignore", "")
    subprocess.run(["chown", "-R", f"{THEM}:{THEM}", str(daemon.folder)], check=True)
    daemon.start(before=become(THEM)).sync()
    assert len(daemon.paths("olives")) == 2
    for attempt in range(2):
        ignore.chmod(0)
        eventually(lambda: daemon.paths("olives") == ["memory/a.md"])
        with daemon.client() as client:
            eventually(lambda: client.status().files == 1)
            assert (
                "memory/private/.memoryignore can't be used (Permission denied);"
                " memoryd leaves out memory/private until it can"
            ) in client.status().degraded
        if attempt == 0:
            ignore.chmod(0o600)
            eventually(lambda: len(daemon.paths("olives")) == 2)
    daemon.stop()
    daemon.start(before=become(THEM))
    assert daemon.paths("olives") == ["memory/a.md"]


@pytest.mark.parametrize("watch", ["true", "false"])
def test_an_indexed_note_that_becomes_unreadable_is_told_and_kept(
    daemon: Daemon, environment: dict[str, str], watch: str
) -> None:
    """As another user, because root may read everything."""
    daemon.settings = f"sync = {{ watch = {watch}, watch_debounce_ms = 20, interval_minutes = 0 }}"
    note = daemon.write("memory/a.md", "olives\n")
    subprocess.run(["chown", "-R", f"{THEM}:{THEM}", str(daemon.folder)], check=True)
    daemon.start(before=become(THEM)).sync()
    for _ in range(2):
        assert daemon.memctl("files", "--failed").stdout == "No failed files.\n"
        note.chmod(0)
        if watch == "false":
            daemon.sync()
        with daemon.client() as client:
            eventually(lambda: client.files_page("failed").total == 1)
            assert client.why("memory/a.md").state == "failed"
        shown = daemon.memctl("files", "--failed").stdout
        assert shown.splitlines()[1].split(maxsplit=1)[1] == "memory/a.md  (Permission denied)"
        assert daemon.paths("olives") == ["memory/a.md"], "what was indexed stays"
        note.chmod(0o600)
        daemon.sync()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may enter, and where another user may create a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        os.chown(folder, THEM, THEM)
        folder.chmod(0o755)
        yield folder


@contextmanager
def theirs(path: str, environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A process of another user that listens for everybody, and prints the first bytes it gets."""
    with subprocess.Popen(
        python(THEM, "-c", LISTEN, path), env=environment, stdout=subprocess.PIPE, text=True
    ) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listening\n"
        os.chmod(path, 0o666)
        try:
            yield listener
        finally:
            listener.kill()
