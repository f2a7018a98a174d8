"""The restricted socket for agents: its operations, its folder, and its life."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from harness import REPOSITORY, Daemon
from peers import Peer
from restricting import agent_of, body_of, code_of, configure, restricted_of, start
from waiting import PATIENCE_S, eventually

from memoryd.config.operations import EFFECTS, READING
from memoryd_client.errors import BadRequestError, DeniedError, MemorydError
from memoryd_client.wire.protocol import Error, Hello, Op, Request, Welcome

SEARCHES = frozenset({"search", "get", "status", "ping"})
EVERYTHING = f"restricted = true\nallow = {[op.value for op in READING]}"


@pytest.fixture
def guarded(daemon: Daemon) -> Daemon:
    """A daemon with one note and a restricted socket at the default place."""
    daemon.write("MEMORY.md", "a word of main\n")
    start(daemon)
    daemon.sync()
    return daemon


def test_without_a_request_there_is_no_restricted_socket(daemon: Daemon) -> None:
    daemon.start()
    with daemon.client() as client:
        status = client.status()
    assert (status.restricted, status.restricted_socket, status.allowed) == (False, None, [])
    assert not restricted_of(daemon).parent.exists()


@pytest.mark.parametrize("op", Op)
def test_each_operation_is_permitted_or_denied(guarded: Daemon, op: Op) -> None:
    expected = "result" if op in SEARCHES else "denied"
    assert code_of(restricted_of(guarded), op, body_of(op)) == expected
    if expected == "denied":  # before its arguments are read
        assert code_of(restricted_of(guarded), op) == "denied"
    with guarded.client() as client:
        assert [agent.agent for agent in client.agents().agents] == ["main"]
        assert len(client.search("word").results) == 1


@pytest.mark.parametrize("op", Op)
def test_no_configuration_permits_a_change(daemon: Daemon, op: Op) -> None:
    daemon.write("MEMORY.md", "a word of main\n")
    path = start(daemon, EVERYTHING)
    daemon.sync()
    if op is Op.EVENTS:
        with agent_of(daemon, path) as client, closing(client.events()) as events:
            assert next(iter(events)).kind == "listening"
        return
    denied = EFFECTS[op] == "changes"
    assert code_of(path, op, body_of(op)) == ("denied" if denied else "result")


@pytest.mark.parametrize("op", [op for op, effect in EFFECTS.items() if effect != "reads"])
def test_a_configuration_that_permits_a_change_is_refused(daemon: Daemon, op: Op) -> None:
    configure(daemon, f"restricted = true\nallow = ['search', '{op}']")
    daemon.start(config=daemon.config.read_text(), wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=PATIENCE_S) == 78
    never = "is always permitted" if op is Op.PING else "is never permitted at the restricted"
    assert f"[socket]: allow: {op} {never}" in daemon.log()
    assert not restricted_of(daemon).exists()


def test_the_main_socket_takes_everything(guarded: Daemon) -> None:
    for op in Op:
        if op not in (Op.EVENTS, Op.FORGET):
            assert code_of(guarded.socket, op) != "denied"


def test_a_denial_tells_what_is_permitted_and_is_logged(guarded: Daemon) -> None:
    with agent_of(guarded, restricted_of(guarded)) as client:
        with pytest.raises(DeniedError, match="only search, get, status") as denied:
            client.reload()
        assert denied.value.hint == "only the main socket takes it"
        with pytest.raises(DeniedError) as denied:
            client.agents()
        assert "socket.allow" in denied.value.hint
    # A thread writes the log.
    eventually(lambda: "denied reload to a client of the restricted socket" in guarded.log())


def test_an_agent_never_gets_raw_records(guarded: Daemon) -> None:
    with agent_of(guarded, restricted_of(guarded)) as client:
        assert client.get("MEMORY.md").text == "a word of main"
        with pytest.raises(DeniedError, match="raw records are not permitted"):
            client.get("MEMORY.md", raw=True)
    with guarded.client() as client:
        assert client.get("MEMORY.md", raw=True).text == "a word of main"


def test_forged_requests_change_nothing(guarded: Daemon) -> None:
    path = str(restricted_of(guarded))
    for op in ("ADD", " add", "add\0", "ad", "__class__", "", "status\n"):
        assert code_of(Path(path), op) == "unknown_op"
    peer = Peer(path).greet()
    # Pipelined behind a permitted request, and with its id in flight or reused.
    peer.send(*(Request(n, op) for n, op in enumerate(("search", "reload", "forget", "add"))))
    answers = [peer.answer() for _ in range(4)]
    assert {a.id: a.code for a in answers if isinstance(a, Error) and a.code == "denied"} == {
        1: "denied",
        2: "denied",
        3: "denied",
    }
    peer.send(Hello(1, 1))  # a second greeting does not change the socket's kind
    refused = peer.receive()
    assert isinstance(refused, Error)
    assert refused.code == "bad_frame"
    peer.close()


def test_the_welcome_and_the_status_tell_which_socket_it_is(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    welcomes = {}
    for one in (path, guarded.socket):
        peer = Peer(str(one))
        peer.send(Hello(1, 1))
        welcomes[one] = peer.receive()
        peer.close()
    of_agents, of_owner = welcomes[path], welcomes[guarded.socket]
    assert isinstance(of_agents, Welcome)
    assert isinstance(of_owner, Welcome)
    assert of_agents.restricted
    assert of_agents.capabilities == ["search", "get", "status", "cancel", "progress"]
    assert not of_owner.restricted
    assert {"index", "forget"} <= set(of_owner.capabilities)
    with guarded.client() as client, agent_of(guarded, path) as agent:
        theirs, ours = agent.status(), client.status()
    allowed = ["search", "get", "status"]
    assert (theirs.restricted, theirs.socket_path, theirs.allowed) == (True, str(path), allowed)
    assert (ours.restricted, ours.socket_path) == (False, str(guarded.socket))
    assert (ours.restricted_socket, ours.allowed) == (str(path), allowed)


def test_memctl_works_with_nothing_but_the_socket(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    assert f"{path} (search, get, status)\n" in guarded.memctl("status").stdout
    guarded.variables["MEMORYD_SOCKET"] = str(path)
    assert "a word of main" in guarded.memctl("search", "word").stdout
    assert guarded.memctl("get", "MEMORY.md").stdout == "a word of main\n"
    assert " to search, get, status\n" in guarded.memctl("status").stdout
    said = guarded.memctl("index", "--force", code=1).stderr
    assert "index is not permitted at this restricted socket" in said


def test_every_agent_is_within_reach(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "a word of main\n")
    daemon.add_agent("bee")
    path = start(daemon)
    for name in ("main", "bee"):
        with daemon.client(name) as client:
            client.sync()
        with agent_of(daemon, path, name) as client:
            assert client.search(name).results[0].snippet.endswith(f"of {name}")
    daemon.variables["MEMORYD_SOCKET"] = str(path)
    said = daemon.memctl("status").stdout
    assert "Memory Search (main)" in said
    assert "Memory Search (bee)" in said


@pytest.mark.parametrize("command", ["start", "stop", "restart", "logs"])
def test_no_daemon_is_started_or_stopped_there(guarded: Daemon, command: str) -> None:
    path = restricted_of(guarded)
    guarded.variables["MEMORYD_SOCKET"] = str(path)
    assert guarded.process is not None
    for state in ("runs", "was killed", "was stopped"):
        if state == "was killed":
            guarded.kill()
        elif state == "was stopped":
            path.unlink()
        said = guarded.memctl_json(command, code=1)["error"]
        assert said["code"] == "restricted_socket", (state, said)
        assert "MEMORYD_SOCKET" in said["hint"]
        assert sorted(os.listdir(path.parent)) == ([] if state == "was stopped" else [path.name])


@pytest.mark.parametrize("command", ["start", "stop"])
def test_a_sandbox_without_the_state_folder_is_told_by_the_daemon(
    guarded: Daemon, command: str
) -> None:
    path = restricted_of(guarded)
    guarded.variables = {"MEMORYD_SOCKET": str(path), "XDG_STATE_HOME": str(guarded.folder / "x")}
    assert guarded.memctl_json(command, code=1)["error"]["code"] == "restricted_socket"
    with guarded.client() as client:
        client.ping()


def test_autostart_never_makes_a_second_daemon_there(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    guarded.kill()
    config = guarded.folder / "none" / "memoryd" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("autostart = true\n")
    guarded.variables["MEMORYD_SOCKET"] = str(path)
    assert "no memoryd is running" in guarded.memctl("search", "word", "--wait", "0", code=3).stderr
    assert os.listdir(path.parent) == [path.name]


def test_no_daemon_takes_it_as_its_main_socket(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    guarded.stop()
    ended = subprocess.run(
        guarded.command("--socket", str(path), "--config", str(guarded.config)),
        env=guarded.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 78
    assert f"{path} is a restricted socket, which is for agents" in ended.stderr
    assert os.listdir(path.parent) == []


# Its folder


def test_only_its_owner_reaches_it(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == [path.name]
    (lock,) = (guarded.folder / "state/memoryd").glob("restricted-*.lock")
    assert lock.stat().st_mode & 0o777 == 0o600


def test_a_restart_keeps_its_folder(guarded: Daemon) -> None:
    folder = restricted_of(guarded).parent
    before = folder.stat().st_ino
    for end in (guarded.stop, guarded.kill):
        end()
        guarded.start(config=guarded.config.read_text())
        assert folder.stat().st_ino == before
        with agent_of(guarded, restricted_of(guarded)) as client:
            assert len(client.search("word").results) == 1
    assert guarded.stop() == 0
    assert os.listdir(folder) == []


def test_it_is_restored_when_it_is_removed(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    path.unlink()
    eventually(path.exists)
    with agent_of(guarded, path) as client:
        assert len(client.search("word").results) == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("agent.sock", "contains the main socket"),
        ("state/agent.sock", "contains the indexes"),
        ("x" * 120, "bytes long"),
        ("file", "is not a socket"),
    ],
)
def test_a_place_that_would_give_more_away_is_refused(daemon: Daemon, name: str, told: str) -> None:
    (daemon.folder / "apart").mkdir()
    path = daemon.folder / name if "agent" in name else daemon.folder / "apart" / name
    if name == "file":
        path.touch()
    configure(daemon, f"restricted = '{path}'")
    daemon.start(config=daemon.config.read_text(), wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=PATIENCE_S) == 78
    assert told in daemon.log()
    assert "set socket.restricted to another path" in daemon.log()


def test_two_daemons_never_share_one(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    guarded.config.write_text(
        f'[socket]\nrestricted = "{path}"\n'
        f'[agents.other]\nprovider = "none"\nworkspace = "{guarded.new_folder("other")}"\n'
    )
    ended = subprocess.run(
        guarded.command("--socket", f"{guarded.folder}/t/s", "--config", str(guarded.config)),
        env=guarded.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 3
    assert "in use by another memoryd" in ended.stderr
    with agent_of(guarded, path) as client:
        client.ping()


IN_A_SANDBOX = """
set -e
mount --make-rprivate /
mkdir -p "$1" && mount --bind "$2" "$1" && mount -o remount,bind,ro "$1"
mount -t tmpfs none "$3"
exec "$4" -c '
import os, sys
from memoryd_client import Client, errors
print(os.listdir(sys.argv[1]), flush=True)
with Client(sys.argv[1] + "/memoryd.sock", autostart=False) as client:
    for _ in sys.stdin:
        print([hit.snippet for hit in client.search("word").results])
        try:
            client.add("/etc")
        except errors.DeniedError:
            print("denied")
        try:
            os.unlink(sys.argv[1] + "/memoryd.sock")
        except OSError as error:
            print(error.strerror)
        sys.stdout.flush()
' "$1"
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None or sys.platform == "darwin",
    reason="needs root and unshare: makes a mount namespace",
)
def test_a_sandbox_with_its_folder_alone_searches_across_restarts(
    guarded: Daemon, tmp_path: Path
) -> None:
    can = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True)
    if can.returncode != 0:
        pytest.skip(f"no mount namespaces here: {can.stderr.strip()}")
    folder = restricted_of(guarded).parent
    inside = tmp_path / "run"
    # The daemon's own folder, with the main socket and the index, is covered.
    command = ["unshare", "-m", "sh", "-c", IN_A_SANDBOX, "sh"]
    command += [str(inside), str(folder), str(guarded.folder), sys.executable]
    paths = [str(REPOSITORY / "client"), *(p for p in sys.path if p.endswith("site-packages"))]
    with subprocess.Popen(
        command,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as sandbox:
        assert sandbox.stdin is not None
        assert sandbox.stdout is not None
        try:
            assert sandbox.stdout.readline() == "['memoryd.sock']\n"
            for restart in (False, True, True):
                if restart:
                    guarded.kill()
                    guarded.start(config=guarded.config.read_text())
                sandbox.stdin.write("\n")
                sandbox.stdin.flush()
                assert sandbox.stdout.readline() == "['a word of main']\n"
                assert sandbox.stdout.readline() == "denied\n"
                assert sandbox.stdout.readline() == "Read-only file system\n"
        finally:
            sandbox.kill()


# Reload


def test_a_reload_makes_moves_and_removes_it(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "a word of main\n")
    daemon.start().sync()
    first, other = restricted_of(daemon), daemon.folder / "apart" / "a.sock"
    for table, there, gone in (
        ("restricted = true", first, other),
        (f"restricted = '{other}'", other, first),
        ("restricted = true", first, other),
        ("", None, first),
    ):
        configure(daemon, table)
        with daemon.client() as client:
            assert client.reload().changed == ["socket.restricted"]
            shown = client.status().restricted_socket
        assert shown == (None if there is None else str(there))
        assert not gone.exists()
        if there is not None:
            with agent_of(daemon, there) as client:
                assert len(client.search("word").results) == 1
    daemon.assert_healthy()


def test_a_reload_changes_the_operations_of_connected_agents(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    with agent_of(guarded, path) as agent, guarded.client() as client:
        assert len(agent.search("word").results) == 1
        configure(guarded, "restricted = true\nallow = ['status', 'events']")
        result = client.reload()
        assert (result.changed, result.unchanged) == (["socket.allow"], ["main"])
        with pytest.raises(DeniedError):
            agent.search("word")
        assert agent.status().allowed == ["status", "events"]
        with closing(agent.events()) as events:
            assert next(iter(events)).kind == "listening"
            configure(guarded, "restricted = true\nallow = []")
            client.reload()
            with pytest.raises(MemorydError):
                for _ in events:  # a stream that is permitted no more ends
                    pass
        with pytest.raises(DeniedError, match="only nothing"):
            agent.status()
        assert agent.ping().pid == client.ping().pid


@pytest.mark.parametrize("table", ["restricted = '/proc/x/a.sock'", "allow = ['add']"])
def test_a_reload_that_fails_changes_nothing(guarded: Daemon, table: str) -> None:
    configure(guarded, table)
    with guarded.client() as client:
        with pytest.raises(BadRequestError) as refused:
            client.reload()
        assert "stays active" in refused.value.hint
        assert client.status().degraded
    with agent_of(guarded, restricted_of(guarded)) as agent:
        assert len(agent.search("word").results) == 1


# Doctor


def findings(daemon: Daemon) -> list[tuple[str, str]]:
    return [
        (finding["level"], finding["message"])
        for finding in daemon.doctor()["findings"]
        if finding["check"] == "restricted socket"
    ]


def test_the_doctor_examines_it(guarded: Daemon) -> None:
    path = restricted_of(guarded)
    (good,) = findings(guarded)
    assert good == ("ok", f"agents may use {path} for: search, get, status")
    path.chmod(0o666)
    path.parent.chmod(0o777)
    (path.parent / "id_rsa").touch()
    levels = sorted(level for level, _ in findings(guarded))
    assert levels == ["error", "error", "warning"]
    said = str(findings(guarded))
    assert f"others can access {path}" in said
    assert f"others can replace the files in {path.parent}" in said
    assert f"a sandbox with {path.parent} also has id_rsa" in said
    (path.parent / "id_rsa").unlink()
    path.parent.chmod(0o700)
    guarded.kill()
    path.chmod(0o600)
    assert findings(guarded) == [("warning", f"{path} is stale: its memoryd was killed")]
    path.unlink()
    assert findings(guarded)[0][0] == "ok"


def test_the_doctor_of_a_restricted_socket_tells_so(guarded: Daemon) -> None:
    found = guarded.doctor("--socket", str(restricted_of(guarded)), code=1)["findings"]
    assert any("is a restricted socket" in finding["message"] for finding in found)


# Other users


def test_a_client_of_another_user_is_denied_there_too(guarded: Daemon) -> None:
    if os.geteuid() != 0 or sys.platform == "darwin":
        pytest.skip("needs root: starts a process of another user")
    path = restricted_of(guarded)
    for folder in (guarded.folder, path.parent):
        folder.chmod(0o755)
    path.chmod(0o666)
    code = (
        "import socket, sys\n"
        "with socket.socket(socket.AF_UNIX) as s:\n"
        "    s.connect(sys.argv[1])\n"
        "    print(s.recv(1000))\n"
    )
    become = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    done = subprocess.run(
        [*become.split(), "/usr/bin/env", "python3", "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "this memoryd serves another user" in done.stdout, done.stderr
