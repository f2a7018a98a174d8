"""The process whose forks are the tests' daemons: it has imported them and waits for requests.

`forks.py` starts it and describes how a fork differs from a process of its own.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

MODULES = (
    *("memoryd.app", "memoryd.doctor.examine", "memoryd.embed.vendors.remote", "pathspec"),
    *("re2", "sqlite_vec", "memctl.main", "memctl.commands", "memctl.render", "zstandard"),
)
OPTIONAL_MODULES = ("pysqlite3.dbapi2", "uvloop")
PROGRAMS = {"memoryd": "memoryd.__main__", "memctl": "memctl.entry"}
REQUEST_BYTES = 65_536
DESCRIPTORS = 3
"""Standard output, standard error, and the socket that receives the exit code."""


def next_fork(control: socket.socket) -> list[str]:
    """Fork for each request until the client has ended; return the command line in a fork."""
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker.fileno())
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        for readable in (control, woken):
            selector.register(readable, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(REQUEST_BYTES)
                    _report_ended(running)
                    continue
                request, descriptors = _receive(control)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for inherited in (control, woken, waker, *running.values()):
                        inherited.close()
                    _become(request, descriptors)
                    return list(request["command"])
                *streams, end_descriptor = descriptors
                for descriptor in streams:
                    os.close(descriptor)
                running[pid] = socket.socket(fileno=end_descriptor)
                control.sendall(f"{pid}\n".encode())


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the next request and its descriptors; exit if the client has ended."""
    data, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, DESCRIPTORS)
    while data and not data.endswith(b"\n"):
        data += control.recv(REQUEST_BYTES)
    if not data:
        os._exit(0)
    return json.loads(data), descriptors


def _report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        with running.pop(pid) as end, suppress(BrokenPipeError):  # nobody waits for it
            end.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Take on the streams, folder, variables and module path of a process of its own."""
    for stream, descriptor in enumerate(descriptors[:2], start=1):
        os.dup2(descriptor, stream)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(request["folder"])
    variables = request["variables"]
    if "LC_CTYPE" in os.environ:  # Python sets it where there is no locale
        variables.setdefault("LC_CTYPE", os.environ["LC_CTYPE"])
    own = os.environ["PYTHONPATH"].split(os.pathsep)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    sys.path[: 1 + len(own)] = [request["folder"], *variables["PYTHONPATH"].split(os.pathsep)]


def load() -> None:
    """Import all that a daemon or a doctor may import, and read its tables."""
    if os.geteuid() != 0:
        importlib.import_module("bench.inspectable")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as `serve` does before numpy is imported
    for module in MODULES:
        importlib.import_module(module)
    for module in OPTIONAL_MODULES:
        with suppress(ImportError):
            importlib.import_module(module)
    from memoryd.text.date_words import date_words
    from memoryd.text.language import load_function_words

    load_function_words()
    date_words()


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()  # otherwise every fork looks through these objects, and copies them, when it ends
    sys.argv = next_fork(socket.socket(fileno=int(sys.argv[1])))
    main = importlib.import_module(PROGRAMS[sys.argv[0]]).main
    sys.exit(main())
