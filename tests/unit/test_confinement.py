"""A confined process: what it may still do, and what the kernel refuses."""

import json
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from memoryd.embed import confinement

linux_only = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="needs landlock and seccomp",
)

ATTEMPTS = """
import ctypes, json, os, resource, signal, socket, subprocess, sys, tempfile, threading
from pathlib import Path
from memoryd.embed.confinement import confine

note, listening, folder = sys.argv[1:]
early = threading.Event()
outcomes = {}

def attempt(name, call):
    try:
        call()
        outcomes[name] = "done"
    except OSError as error:
        outcomes[name] = type(error).__name__

def send():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"a note", listening + ".datagrams")

def connect():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listening)

def trace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, os.getppid(), None, None):
        raise OSError(ctypes.get_errno(), "ptrace")

def of_a_thread_that_was_there():
    early.wait()
    attempt("a socket of a thread that was there", socket.socket)

def serve():
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(folder, "s"))
        server.listen()
    os.unlink(os.path.join(folder, "s"))
    os.rmdir(folder)

thread = threading.Thread(target=of_a_thread_that_was_there)
thread.start()
problems = confine(sockets_in=Path(folder))
early.set()
thread.join()
attempt("internet", socket.socket)
attempt("internet, version 6", lambda: socket.socket(socket.AF_INET6))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("connect", connect)
attempt("datagram", send)
attempt("program", lambda: os.execv("/bin/true", ["true"]))
attempt("child's program", lambda: subprocess.run(["/bin/true"]))
attempt("trace", trace)
attempt("signal", lambda: os.kill(os.getppid(), signal.SIGCONT))
attempt("write", lambda: open(note, "a"))
attempt("truncate", lambda: os.truncate(note, 0))
attempt("create", lambda: open(note + ".new", "x"))
attempt("remove", lambda: os.unlink(note))
attempt("rename", lambda: os.rename(note, note + ".old"))
attempt("link", lambda: os.link(note, note + ".link"))
attempt("symlink", lambda: os.symlink(note, note + ".symlink"))
attempt("mkdir", lambda: os.mkdir(note + ".folder"))
attempt("read", lambda: open(note).read())
attempt("thread", threading.Thread(target=print).start)
attempt("server's socket", serve)
print(json.dumps([problems, outcomes, resource.getrlimit(resource.RLIMIT_CORE),
                  resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""
PERMITTED = {"read", "thread", "server's socket"}


@linux_only
def test_a_confined_process_reads_computes_and_does_nothing_else(tmp_path: Path) -> None:
    note, folder = tmp_path / "note.md", tmp_path / "private"
    note.write_text("a walrus")
    folder.mkdir()
    with (
        socket.socket(socket.AF_UNIX) as server,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        server.bind(str(tmp_path / "s"))
        server.listen()
        datagrams.bind(str(tmp_path / "s.datagrams"))
        done = subprocess.run(
            [sys.executable, "-c", ATTEMPTS, str(note), str(tmp_path / "s"), str(folder)],
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    problems, outcomes, cores, files = json.loads(done.stdout.splitlines()[-1])
    if problems:
        pytest.skip(f"this kernel refuses: {problems}")
    assert {name for name, outcome in outcomes.items() if outcome == "done"} == PERMITTED
    assert {outcomes[name] for name in outcomes.keys() - PERMITTED} == {"PermissionError"}
    assert (cores, files) == ([0, 0], [64, 64])
    assert note.read_text() == "a walrus"
    assert not folder.exists()


@linux_only
def test_what_the_kernel_refuses_is_told_and_the_rest_is_done() -> None:
    """The process is in a container whose filter refuses Landlock."""
    program = """
import ctypes, platform
from memoryd.embed import confinement

machine = platform.machine()
usual = confinement._MACHINES[machine]
confinement._MACHINES[machine] = usual._replace(refused=(confinement._LANDLOCK_CREATE_RULESET,))
libc = ctypes.CDLL(None, use_errno=True)
confinement._keep_privileges(libc)
confinement._restrict_calls(libc)
confinement._MACHINES[machine] = usual
print(confinement.confine())
print(open("/proc/self/status").read())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    problems, _, status = done.stdout.partition("\n")
    assert problems == "files: Operation not permitted"
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert fields["Seccomp_filters"].strip() == "2"


def test_both_machines_refuse_the_same_calls() -> None:
    x86, arm = confinement._MACHINES["x86_64"], confinement._MACHINES["aarch64"]
    assert len(x86.refused) == len(arm.refused) == len({*x86.refused}) == len({*arm.refused})
