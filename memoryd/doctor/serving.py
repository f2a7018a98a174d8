"""The daemon's report on an agent, and checks that it serves the right index."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from memoryd.doctor.finding import Topic
from memoryd.doctor.reading import is_held, lock_of
from memoryd.doctor.running import RunningDaemon, in_sync
from memoryd.embed.route import Route
from memoryd.index.rebuild.leftovers import unfinished
from memoryd_client import MemorydError
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared import lock_holder
from memoryd_client.shared.file_locks import holds_lock
from memoryd_client.shared.humanize import counted

TRIES = 3
NAMED_FAILURES = 10
"""Maximum unreadable files and texts that can't be embedded to name."""
_PROCESSES = Path("/proc")


def check_serving(topic: Topic, daemon: RunningDaemon, agent: str, index: Path) -> None:
    """Turn the daemon's report on an agent into findings."""
    summary = daemon.agents.get(agent)
    if summary is None:
        topic.warning("the running memoryd does not serve this agent", "memctl reload")
        return
    if summary.db_path != str(index):
        topic.warning(
            f"memoryd has the index {summary.db_path} open, not {index}",
            "`memctl reload`, or run the doctor with the daemon's own XDG_STATE_HOME",
        )
    match summary.state:
        case "ready":
            _check_status(topic, daemon, agent)
        case "failed":
            topic.error(
                f"memoryd can't serve this agent: {summary.reason or 'unknown reason'}",
                "memoryd retries by itself; `memctl reload` retries now",
            )
        case state:
            topic.warning(f"memoryd is {state} this agent", "run the doctor again in a moment")


def route_of(daemon: RunningDaemon, agent: str) -> Route | None:
    """Return the way that the daemon's texts of an agent take, None if it does not say."""
    daemon.client.agent = agent
    try:
        embedding = daemon.client.status().embedding
    except MemorydError:
        return None
    if embedding is None:
        return None
    return Route(
        embedding.address, embedding.leaves_machine, embedding.proxy, embedding.unencrypted
    )


def check_open_file(topic: Topic, daemon: RunningDaemon, agent: str, index: Path) -> None:
    """Check that the daemon has the current file open, not one that was replaced."""
    for _ in range(TRIES):
        if _has_open(daemon.pid, index) is not False:
            return
        in_sync(daemon, agent)  # it may be about to swap a new index in
    topic.error(f"memoryd has a file open that is not {index}", "memctl restart")


def is_rebuilding(daemon: RunningDaemon, agent: str, index: Path) -> bool:
    """Return whether unfinished files may exist, as during a rebuild or at a start."""
    daemon.client.agent = agent
    for _ in range(TRIES):
        try:
            rebuild = daemon.client.status().rebuild
        except MemorydError:
            return True
        if rebuild is not None or not unfinished(index):
            return True
        in_sync(daemon, agent)
    return False


def check_others(topic: Topic, index: Path) -> None:
    """Check that no other process has an index open that this daemon does not serve."""
    if is_held(lock_of(index)):
        owner = lock_holder.read(str(lock_of(index)))
        process = "a process" if owner is None else f"process {owner.pid}"
        topic.warning(
            f"{process} has the index open but does not serve it at this socket",
            "run the doctor with the --socket of that memoryd",
        )


def _check_status(topic: Topic, daemon: RunningDaemon, agent: str) -> None:
    daemon.client.agent = agent
    try:
        status = daemon.client.status()
    except MemorydError as error:
        topic.error(f"memoryd does not report its status: {error.message}", "memctl logs")
        return
    for line in _complaints(status):
        topic.warning(line, "see `memctl status`; memoryd retries temporary failures by itself")


def _complaints(status: StatusResult) -> Iterator[str]:
    yield from status.degraded
    reported = "\n".join(status.degraded)
    for failure in status.errors:
        if failure.reason not in reported:
            yield f"{failure.what}: {failure.reason}"
    for failure in status.failures[:NAMED_FAILURES]:
        yield f"{failure.what}: {failure.reason}"
    if (rest := status.failure_count - NAMED_FAILURES) > 0:
        yield f"{counted(rest, 'more failure')}"


def _has_open(pid: int, path: Path) -> bool | None:
    """Return whether a process has a file open; None if unknown, as on macOS.

    Only root may see the open files of a daemon. Others see its locks: SQLite has one on an index
    as long as it is open.
    """
    try:
        wanted = path.stat()
        descriptors = list((_PROCESSES / str(pid) / "fd").iterdir())
    except PermissionError:
        return holds_lock(pid, str(path))
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile
            if os.path.samestat(descriptor.stat(), wanted):
                return True
    return False
