"""Start, stop and restart of memoryd in the background, without a service manager.

The lock file beside the socket names the running process while its lock is held; see
`lock_holder`. A process is signalled only if everything known about it agrees. Nothing that a file
names is run: the program is the one beside this one, and a restart only keeps known options.
"""

import os
import signal
import stat
import time
from contextlib import suppress

from msgspec import Struct

from memoryd_client.errors import DaemonNotRunningError
from memoryd_client.launcher import launch, logs
from memoryd_client.launcher.errors import (
    ManagedError,
    RestrictedSocketError,
    StartFailedError,
    StopFailedError,
    check_main_socket,
)
from memoryd_client.launcher.greet import greet
from memoryd_client.launcher.launch import Child
from memoryd_client.launcher.own import only_own
from memoryd_client.launcher.process import Process
from memoryd_client.shared import lock_holder as locks
from memoryd_client.shared import paths
from memoryd_client.shared.lock_holder import Holder

_PAUSE_S = 0.02
_GREETING_S = 0.5
"""Seconds for one greeting while a daemon starts."""
_ANSWER_S = 2.0
"""Seconds for a daemon to identify itself before it is stopped."""
_LINE_S = 1.0
"""Seconds between taking a lock and writing the process into its file."""


class Started(Struct, frozen=True):
    """A daemon that answers. `already`: it ran before. `log_path` None: no log file.

    `notices`: what it says about where texts go, if the caller has asked.
    """

    pid: int
    socket_path: str
    log_path: str | None
    already: bool = False
    notices: tuple[str, ...] = ()


class Stopped(Struct, frozen=True):
    """The stopped process (None: none ran), the removed files, and a remark."""

    pid: int | None
    removed: list[str]
    reason: str = ""


def start(socket_path: str, *, options: list[str], ready_s: float) -> Started:
    """Start a daemon that listens at `socket_path`, unless one does; wait until it answers.

    It runs in the current directory with `options` of `memoryd`. Raises `StartFailedError` if it
    exits, or does not answer within `ready_s` seconds (it is left running then), and
    `ProtocolMismatchError` or another `MemorydError` if an unusable process answers.
    """
    path = _checked(socket_path)
    with only_own(path, "start", StartFailedError):
        return _start(path, options, ready_s)


def stop(socket_path: str, *, timeout_s: float) -> Stopped:
    """Stop the daemon of this socket and wait until it exits; clean up after a killed one.

    Raises `ManagedError`, and `StopFailedError` if it has not exited after `timeout_s` seconds or
    if its process is uncertain: then nothing is signalled.
    """
    path = _checked(socket_path)
    lock = paths.lock_path(path)
    with only_own(path, "stop", StopFailedError):
        found = _holder(lock)
        if found is None:
            return _nobody(path, lock)
        if found.manager:
            raise ManagedError(found.manager, "stop")
        return _stop(path, lock, found, timeout_s)


def restart(socket_path: str, *, timeout_s: float, ready_s: float) -> Started:
    """Stop the daemon of this socket; start `memoryd` with its options in the same folder.

    It gets the caller's environment. If none runs, just start. Raises the errors of both.
    """
    path = _checked(socket_path)
    with only_own(path, "restart", StartFailedError):
        found = _holder(paths.lock_path(path))
        if found is None:
            return _start(path, [], ready_s)
        if found.manager:
            raise ManagedError(found.manager, "restart")
        # All that a start needs is checked before anything is stopped.
        command = [launch.program(), *launch.kept_options(found)]
        log = found.log_path or logs.log_path(path)
        os.close(launch.open_log(log))
        stop(path, timeout_s=timeout_s)
        return _launch(command, path, log, found.cwd, time.monotonic() + ready_s)


def _checked(socket_path: str) -> str:
    return check_main_socket(paths.check_socket_path(os.path.abspath(socket_path)))


def _start(path: str, options: list[str], ready_s: float) -> Started:
    end = time.monotonic() + ready_s
    if (running := _running(path, end)) is not None:
        return running
    return _launch([launch.program(), *options], path, logs.log_path(path), None, end)


def _running(path: str, end: float) -> Started | None:
    """Return the daemon that answers, waiting for one that only holds the lock so far.

    Raises `StartFailedError` when the time is up.
    """
    lock = paths.lock_path(path)
    while True:
        greeting = greet(path, limit_s=_left_s(end, _GREETING_S))
        if greeting is None:
            if not locks.is_held(lock):
                return None
        elif greeting.refusal is not None:
            raise greeting.refusal
        elif (pid := greeting.pid) is not None:
            found = locks.read(lock)
            log = found.log_path if found is not None and found.pid == pid else None
            return Started(pid, path, log, already=True)
        if time.monotonic() >= end:
            found = locks.read(lock)
            process = f" (process {found.pid})" if found is not None else ""
            raise StartFailedError(
                f"a memoryd{process} already runs at {path} but does not answer",
                hint="it may be starting or stuck: see `memctl logs`, or run `memctl stop`",
                retryable=True,
            )
        time.sleep(_PAUSE_S)


def _launch(argv: list[str], path: str, log: str, cwd: str | None, end: float) -> Started:
    child = Child(launch.placed(argv, socket_path=path, log_path=log), cwd=cwd, log_path=log)
    try:
        while True:
            code = child.exit_code()
            if code == launch.EXIT_LOCKED and (running := _running(path, end)) is not None:
                return running
            if code is not None:
                raise child.failure(code)
            greeting = greet(path, limit_s=_left_s(end, _GREETING_S))
            if greeting and greeting.pid is not None and child.is_it(greeting.pid):
                return Started(greeting.pid, path, log)
            if time.monotonic() >= end:
                raise StartFailedError(
                    f"memoryd (process {child.pid}) is still starting and does not answer yet",
                    hint=f"wait for it, or see its log, {log}",
                    retryable=True,
                )
            time.sleep(_PAUSE_S)
    finally:
        child.let_go()


def _left_s(end: float, most_s: float) -> float:
    return max(0.0, min(most_s, end - time.monotonic()))


def _holder(lock: str) -> Holder | None:
    """Return the holder of the lock, None if it is free.

    Raises `StopFailedError` if the file does not name the holder.
    """
    end = time.monotonic() + _LINE_S
    while locks.is_held(lock):
        if (found := locks.read(lock)) is not None:
            return found
        if time.monotonic() >= end:
            raise StopFailedError(f"{lock} is locked but does not name a process")
        time.sleep(_PAUSE_S)
    return None


def _stop(path: str, lock: str, found: Holder, timeout_s: float) -> Stopped:
    try:
        with Process(found.pid) as process:
            # From here on the pid can't be reused, so check the process now.
            remark = _identify(path, lock, process)
            process.send(signal.SIGTERM)
            if not process.wait(timeout_s, gone=lambda: not locks.is_held(lock)):
                log = f"; its log is {found.log_path}" if found.log_path else ""
                raise StopFailedError(
                    f"memoryd (process {process.pid}) still runs {timeout_s:g} s after SIGTERM",
                    hint=f"wait, or end it with `kill -KILL {process.pid}`{log}",
                    retryable=True,
                )
    except ProcessLookupError:
        remark = "it had already exited"
    return Stopped(found.pid, _remove_stale(path, lock), remark)


def _identify(path: str, lock: str, process: Process) -> str:
    """Verify that a process is the daemon of this socket; return a remark, or "".

    Raises `StopFailedError` if it may be another process.
    """
    try:
        greeting = greet(path, limit_s=_ANSWER_S)
    except DaemonNotRunningError:
        greeting = None
    for pid in () if greeting is None else (greeting.pid, greeting.peer_pid):
        if pid not in (None, process.pid):
            raise _unsure(
                f"{lock} names process {process.pid}, but process {pid or '(not visible)'} "
                f"answers at {path}"
            )
    now = locks.read(lock)
    if not locks.is_held(lock) or now is None or now.pid != process.pid:
        raise _unsure(f"another process has just taken {lock}")
    answered = greeting is not None and greeting.pid is not None
    has_open = process.has_open(lock)
    if has_open is False:
        raise _unsure(f"{lock} names process {process.pid}, which does not have it open")
    # Without /proc, a process that answers identifies itself; if none does, a lock that others can
    # open too may be held by any of them.
    if has_open is None and not answered and not locks.is_private(lock):
        raise _unsure(f"others can hold {lock}, and process {process.pid} does not answer")
    return "" if answered else "it held its lock but did not answer"


def _unsure(reason: str) -> StopFailedError:
    return StopFailedError(
        f"{reason}; nothing was signalled",
        hint="try again; stop a memoryd in a container inside that container",
        retryable=True,
    )


def _nobody(path: str, lock: str) -> Stopped:
    """Return that none runs, if that is certain.

    Raises `StopFailedError` otherwise, and `RestrictedSocketError` inside a sandbox.
    """
    if removed := _remove_stale(path, lock):
        reason = f"no memoryd runs at {path}; a killed one had left its socket"
        return Stopped(None, removed, reason)
    if not _was_managed(lock) and (greeting := greet(path, limit_s=_ANSWER_S)) is not None:
        if isinstance(greeting.refusal, RestrictedSocketError):
            raise greeting.refusal
        by = f"process {greeting.peer_pid}" if greeting.peer_pid else "a process"
        raise StopFailedError(
            f"{by} answers at {path} without holding its lock; nothing was signalled",
            hint="try again; if it is a memoryd whose lock file was removed, end it with `kill`",
            retryable=True,
        )
    return Stopped(None, [], f"no memoryd runs at {path}")


def _remove_stale(path: str, lock: str) -> list[str]:
    """Remove the socket of a daemon that has exited; return the removed paths.

    A shared lock keeps new daemons from listening meanwhile. The lock file stays: without it, two
    daemons could lock two files of one name.
    """
    with locks.free(lock) as is_free:
        if not is_free or _was_managed(lock) or not _is_socket(path) or greet(path, limit_s=0.0):
            return []
        with suppress(FileNotFoundError):
            os.unlink(path)
    return [path]


def _was_managed(lock: str) -> bool:
    """Return whether a manager may own the socket: connecting would start a daemon."""
    last = locks.read(lock)
    return last is not None and bool(last.manager)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
