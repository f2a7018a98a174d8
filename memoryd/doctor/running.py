"""The daemon that answers at a socket, and its start options."""

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memoryd import __version__
from memoryd.doctor.finding import Topic
from memoryd.errors import SocketError
from memoryd.server.unix_socket import check_main_path
from memoryd_client import Client, MemorydError
from memoryd_client.errors import DaemonNotRunningError
from memoryd_client.schema.agents import AgentSummary
from memoryd_client.shared import lock_holder
from memoryd_client.shared.lock_holder import Holder
from memoryd_client.shared.paths import lock_path

ANSWER_S = 20.0
SYNC_S = 60.0
STARTING_S = 2.0


@dataclass(frozen=True, slots=True)
class RunningDaemon:
    """A daemon that answers, and the agents it serves. `holder` holds its lock."""

    client: Client
    pid: int
    holder: Holder | None
    agents: dict[str, AgentSummary]


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Command-line options of a daemon, and its working directory."""

    config_file: Path | None = None
    agent: str | None = None
    workspace: Path | None = None
    cwd: Path | None = None


@contextmanager
def found(path: Path, topic: Topic) -> Iterator[RunningDaemon | None]:
    """Yield the daemon that answers at a socket, None if none does. Starts nothing."""
    lock, client = lock_path(str(path)), None
    try:
        check_main_path(path)
        held, owner = lock_holder.is_held(lock), lock_holder.read(lock)
        there = check_socket_file(path, topic)
        if there or held:
            wait_s = STARTING_S if held else 0.0
            client = Client(str(path), autostart=False, timeout_s=ANSWER_S, wait_s=wait_s)
    except SocketError as error:
        topic.error(error.message, error.hint)
    except OSError as error:
        topic.error(f"the lock {lock} can't be read: {error.strerror}", "check its owner")
    if client is None:
        yield None
        return
    try:
        yield _greet(client, owner if held else None, path, topic)
    finally:
        client.close()


def _greet(client: Client, owner: Holder | None, path: Path, topic: Topic) -> RunningDaemon | None:
    """Ask the process that listens at a socket; `owner` holds its lock."""
    try:
        answer = client.ping()
        agents = {summary.agent: summary for summary in client.agents().agents}
    except DaemonNotRunningError:
        if owner is not None:
            message = f"process {owner.pid} holds the lock of {path} and does not answer"
            topic.error(message, "memctl restart")
        elif os.path.lexists(path):
            topic.warning(
                f"{path} is stale: the memoryd that created it was killed",
                "the next start removes it",
            )
        return None
    except MemorydError as error:
        topic.error(
            f"the process that listens on {path} does not answer: {error}", "memctl restart"
        )
        return None
    if owner is None:
        topic.error(
            f"process {answer.pid} answers on {path} without holding its lock",
            f"stop it: kill {answer.pid}",
        )
    elif answer.version != __version__:
        topic.warning(
            f"the running memoryd has version {answer.version}, not {__version__}",
            "memctl restart",
        )
    return RunningDaemon(client, answer.pid, owner, agents)


def last_holder(path: Path) -> Holder | None:
    """Return the last holder of a socket's lock, if known."""
    with suppress(OSError):
        return lock_holder.read(lock_path(str(path)))
    return None


def started(owner: Holder) -> StartOptions:
    """Return the command-line options of the process that holds a lock."""
    given = owner.options or {}
    config, workspace = given.get("config"), given.get("workspace")
    return StartOptions(
        None if config is None else Path(config),
        given.get("agent"),
        None if workspace is None else Path(workspace),
        Path(owner.cwd),
    )


def in_sync(running: RunningDaemon, agent: str) -> str | None:
    """Have the daemon read all changes. Returns the reason if it could not."""
    running.client.agent = agent
    try:
        running.client.sync(vectors=False, timeout_s=SYNC_S)
    except MemorydError as error:
        return error.message
    return None


def check_socket_file(path: Path, topic: Topic) -> bool:
    """Check a socket's file. Returns whether there is one."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        topic.error(f"{path} can't be checked: {error.strerror}", "check its owner")
        return False
    if not stat.S_ISSOCK(found.st_mode):
        topic.error(f"{path} is not a socket", "move it away")
        return False
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        topic.error(
            f"{path} belongs to the user {found.st_uid}, not to {os.geteuid()}",
            "choose another --socket",
        )
    elif mode & 0o077:
        topic.error(
            f"others can access {path}: its mode is {mode:04o}",
            f"chmod 600 {shlex.quote(str(path))}",
        )
    return True
