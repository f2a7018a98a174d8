"""memoryd in the background, without a service manager: start, stop, restart.

Who runs is what the lock file beside the socket says, while its lock is held; see `holder`. A
process is signalled only if all that can be known about it agrees.
"""

import os
import signal
import stat
import time
from contextlib import suppress

from msgspec import Struct

from memoryd_client.errors import DaemonNotRunningError
from memoryd_client.launcher import launch, logs
from memoryd_client.launcher.errors import ManagedError, StartFailedError, StopFailedError
from memoryd_client.launcher.greet import Greeting, greet
from memoryd_client.launcher.launch import Child
from memoryd_client.launcher.process import Process
from memoryd_client.shared import lock_holder as locks
from memoryd_client.shared import paths
from memoryd_client.shared.lock_holder import Holder

_PAUSE_S = 0.02
_GREETING_S = 0.5
"""One try of many while a daemon comes up."""
_ANSWER_S = 2.0
"""How long a daemon that is to be stopped may take to say who it is."""
_LINE_S = 1.0
"""How long a daemon may hold a lock before it has written its name into the file."""


class Started(Struct, frozen=True):
    """A daemon that answers. `already`: it ran before. `log_path` `None`: it has no log file."""

    pid: int
    socket_path: str
    log_path: str | None
    already: bool = False


class Stopped(Struct, frozen=True):
    """Who was stopped (`None`: nobody ran), which files were cleaned up, and what to know of it."""

    pid: int | None
    removed: list[str]
    reason: str = ""


def start(socket_path: str, *, options: list[str], ready_s: float) -> Started:
    """Start a daemon that listens at `socket_path`, unless one does; wait until it answers.

    It runs in the current directory. `options` are those of `memoryd`. Raises `StartFailedError`
    if it ends, or does not answer within `ready_s` seconds (it is left running then), and
    `ProtocolMismatchError` or another `MemorydError` when somebody who answers is of no use.
    """
    path = _checked(socket_path)
    end = time.monotonic() + ready_s
    try:
        running = _running(path, end)
    except PermissionError as error:
        raise StartFailedError(
            f"the lock of {path} is not yours: {error.strerror}", hint="choose another --socket"
        ) from error
    if running is not None:
        return running
    return _launch([launch.program(), *options], path, logs.log_path(path), None, end)


def stop(socket_path: str, *, timeout_s: float) -> Stopped:
    """Stop the daemon of this socket and wait until it is gone; clean up after a killed one.

    Raises `StopFailedError` when it is not gone after `timeout_s` seconds, or when it is not
    certain which process it is: then nothing is signalled. Raises `ManagedError`.
    """
    path = _checked(socket_path)
    lock = paths.lock_path(path)
    try:
        found = _holder(lock)
        if found is None:
            return _nobody(path, lock)
        if found.manager:
            raise ManagedError(found.manager, "stop")
        return _stop(path, lock, found, timeout_s)
    except PermissionError as error:
        raise StopFailedError(
            f"the memoryd at {path} is not yours: {error.strerror}", hint="ask whose it is"
        ) from error


def restart(socket_path: str, *, timeout_s: float, ready_s: float) -> Started:
    """Stop the daemon of this socket and start it as it was started: same command, same folder.

    The environment is the caller's. If none runs, just `start`. Raises what both raise.
    """
    path = _checked(socket_path)
    try:
        found = _holder(paths.lock_path(path))
    except PermissionError:
        found = None  # `start` tells.
    if found is None:
        return start(path, options=[], ready_s=ready_s)
    if found.manager:
        raise ManagedError(found.manager, "restart")
    # Looked at before anything is stopped.
    if not (found.argv and os.access(found.argv[0], os.X_OK) and os.path.isdir(found.cwd)):
        raise StartFailedError(
            f"memoryd (process {found.pid}) can't be started again as it was: "
            "its program or its folder is not there any more, or not known",
            hint="`memctl stop`, then `memctl start`",
        )
    stop(path, timeout_s=timeout_s)
    log = found.log_path or logs.log_path(path)
    return _launch(found.argv, path, log, found.cwd, time.monotonic() + ready_s)


def _checked(socket_path: str) -> str:
    return paths.check_socket_path(os.path.abspath(socket_path))


def _running(path: str, end: float) -> Started | None:
    """Return the daemon that answers, waiting for one that holds the lock but doesn't yet.

    Raises `StartFailedError` when the time is over.
    """
    lock = paths.lock_path(path)
    while True:
        greeting = greet(path, limit_s=_left_s(end, _GREETING_S))
        if greeting is not None and greeting.refusal is not None:
            raise greeting.refusal
        if greeting is not None and greeting.pid is not None:
            found = locks.read(lock)
            known = found is not None and found.pid == greeting.pid
            return Started(
                greeting.pid, path, found.log_path if found and known else None, already=True
            )
        if greeting is None and not locks.is_held(lock):
            return None
        if time.monotonic() >= end:
            found = locks.read(lock)
            process = f" (process {found.pid})" if found is not None else ""
            raise StartFailedError(
                f"a memoryd{process} is there already, but does not answer, at {path}",
                hint="it may be starting or stuck: look at its log, or `memctl stop` it",
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
                    f"memoryd (process {child.pid}) does not answer yet; it goes on starting",
                    hint=f"wait for it, or look at its log, {log}",
                    retryable=True,
                )
            time.sleep(_PAUSE_S)
    finally:
        child.let_go()


def _left_s(end: float, most_s: float) -> float:
    return max(0.0, min(most_s, end - time.monotonic()))


def _holder(lock: str) -> Holder | None:
    """Return who holds the lock, `None` if nobody does. Raises `StopFailedError` if unsaid."""
    end = time.monotonic() + _LINE_S
    while locks.is_held(lock):
        if (found := locks.read(lock)) is not None:
            return found
        if time.monotonic() >= end:
            raise StopFailedError(f"{lock} is locked, but does not say by which process")
        time.sleep(_PAUSE_S)
    return None


def _stop(path: str, lock: str, found: Holder, timeout_s: float) -> Stopped:
    try:
        with Process(found.pid) as process:
            # From here on the number can't come to mean another process: so check it now.
            remark = _identify(path, lock, process)
            process.send(signal.SIGTERM)
            if not process.wait(timeout_s, gone=lambda: not locks.is_held(lock)):
                log = f"; its log is {found.log_path}" if found.log_path else ""
                raise StopFailedError(
                    f"memoryd (process {process.pid}) was asked to stop, "
                    f"but still runs after {timeout_s:g} s",
                    hint=f"wait, or end it with `kill -KILL {process.pid}`{log}",
                    retryable=True,
                )
    except ProcessLookupError:
        remark = "it went by itself"
    return Stopped(found.pid, _remove_stale(path, lock), remark)


def _identify(path: str, lock: str, process: Process) -> str:
    """Make sure that a process is the daemon of this socket, and return what is odd about it.

    Raises `StopFailedError` when it may be another one.
    """
    try:
        greeting = greet(path, limit_s=_ANSWER_S)
    except DaemonNotRunningError:
        greeting = None
    for pid in _pids(greeting):
        if pid != process.pid:
            raise _unsure(
                f"{lock} names process {process.pid}, but process {pid or '(out of sight)'} "
                f"answers at {path}"
            )
    now = locks.read(lock)
    if not locks.is_held(lock) or now is None or now.pid != process.pid:
        raise _unsure(f"{lock} changed hands just now")
    if process.has_open(lock) is False:
        raise _unsure(f"{lock} names process {process.pid}, which does not have it open")
    answered = greeting is not None and greeting.pid is not None
    return "" if answered else "it held its lock but did not answer"


def _pids(greeting: Greeting | None) -> list[int]:
    found = () if greeting is None else (greeting.pid, greeting.peer_pid)
    return [pid for pid in found if pid is not None]


def _unsure(what: str) -> StopFailedError:
    return StopFailedError(
        f"{what}: nothing was signalled",
        hint="try again; a memoryd in a container has to be stopped there",
        retryable=True,
    )


def _nobody(path: str, lock: str) -> Stopped:
    """Say that nobody runs, once that is certain. Raises `StopFailedError` if it is not so."""
    if removed := _remove_stale(path, lock):
        reason = f"no memoryd runs at {path}; one that was killed had left the socket"
        return Stopped(None, removed, reason)
    if not _was_managed(lock) and (greeting := greet(path, limit_s=0.0)) is not None:
        by = f"process {greeting.peer_pid}" if greeting.peer_pid else "somebody"
        raise StopFailedError(
            f"{by} answers at {path} without holding its lock: nothing was signalled",
            hint="try again; if it is a memoryd whose lock file was removed, end it with `kill`",
            retryable=True,
        )
    return Stopped(None, [], f"no memoryd runs at {path}")


def _remove_stale(path: str, lock: str) -> list[str]:
    """Remove the socket of a daemon that is gone; return what was removed.

    The lock is shared meanwhile, so that no daemon can come to listen. The lock file stays: without
    it two daemons could lock two files of one name.
    """
    with locks.free(lock) as is_free:
        if not is_free or _was_managed(lock) or not _is_socket(path):
            return []
        if greet(path, limit_s=0.0) is not None:
            return []
        with suppress(FileNotFoundError):
            os.unlink(path)
    return [path]


def _was_managed(lock: str) -> bool:
    """Tell whether a manager may hold the socket: connecting would start a daemon."""
    last = locks.read(lock)
    return last is not None and bool(last.manager)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
