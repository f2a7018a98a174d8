"""The daemon process: endpoint, agents, server and watchdog, from start to stop."""

import asyncio
import logging
import os
import secrets
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memoryd import __version__
from memoryd.api.status import Daemon
from memoryd.daemon.agents import EXPLAINED, STOP_S, AgentSupervisor
from memoryd.daemon.handlers import DaemonOperations
from memoryd.daemon.malloc import trim_heaps
from memoryd.daemon.reload import Reloader
from memoryd.daemon.restricted import RestrictedSocket
from memoryd.embed.pool_registry import SharedPools
from memoryd.events import EventBus
from memoryd.pipeline import make_pool, open_agent
from memoryd.server.endpoint import Endpoint
from memoryd.server.server import Server
from memoryd.server.systemd import Notifier
from memoryd.server.unix_socket import check_main_path
from memoryd.supervisor import Actor, done_before, supervise
from memoryd.text.date_words import date_words
from memoryd.text.language import load_function_words
from memoryd_client.shared import paths
from memoryd_client.shared.lock_holder import this_process
from memoryd_client.wire.protocol import CAPABILITIES, PROTOCOL_MAX, Welcome

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of the command line. `config_file` None: the file at the default path, if any."""

    socket_path: Path
    config_file: Path | None = None
    agent: str | None = None
    workspace: Path | None = None
    log_path: Path | None = None
    log_level: str | None = None

    def given(self) -> dict[str, str]:
        """Return the options that a restart keeps, with absolute paths."""
        workspace = None if self.workspace is None else self.workspace.expanduser()
        options = {
            "agent": self.agent,
            "config": None if self.config_file is None else self.config_file.absolute(),
            "log-level": self.log_level,
            "workspace": None if workspace is None else workspace.absolute(),
        }
        return {name: str(value) for name, value in options.items() if value is not None}


async def run(options: RunOptions, *, stop: asyncio.Event, hangup: asyncio.Event) -> None:
    """Serve until `stop` is set; reload the configuration on every `hangup`.

    Raises `ConfigError`, `AlreadyRunningError`, `SocketError`, `IndexRefusedError` or
    `ActorFailedError`.
    """
    socket_path = options.socket_path
    check_main_path(socket_path)
    notifier, events = Notifier(), EventBus()
    log_path = None if options.log_path is None else str(options.log_path)
    holder = this_process(version=__version__, log_path=log_path, options=options.given())
    async with AsyncExitStack() as stack:
        door = stack.enter_context(Endpoint(socket_path, holder))
        daemon = Daemon(holder, socket_path, time.monotonic())
        restricted = RestrictedSocket(socket_path, holder)
        stack.callback(restricted.close)
        host = AgentSupervisor(
            partial(
                open_agent, pools=SharedPools(make_pool), bus=events, daemon=daemon, findings={}
            ),
            explained=EXPLAINED,
        )
        suffix = paths.socket_suffix(str(socket_path))
        reloader = Reloader(
            host,
            hangup,
            config_file=options.config_file,
            agent=options.agent,
            workspace=options.workspace,
            added_path=Path(paths.state_dir()) / f"added{suffix}.json",
            restricted=restricted,
            on_reloading=notifier.reloading,
            on_reloaded=lambda: notifier.send("READY=1"),
        )
        welcome = Welcome(
            protocol=PROTOCOL_MAX,
            server=f"memoryd/{__version__}",
            pid=os.getpid(),
            boot_id=secrets.token_hex(8),
            capabilities=list(CAPABILITIES),
        )
        operations = DaemonOperations(daemon, host, reloader, events, restricted)
        handlers = operations.table()
        server = Server(door, handlers=handlers, welcome=welcome, greeted=operations.greeted)
        # A search may find no descriptor left to read them with.
        await asyncio.to_thread(load_function_words)
        await asyncio.to_thread(date_words)

        stack.push_async_callback(host.close)
        if not await done_before(stop, reloader.start()):
            return
        ids = ", ".join(hosted.config.agent for hosted in host.all())
        notifier.send("READY=1", f"STATUS=serving {ids}")
        log.info("ready: socket %s, agents: %s", socket_path, ids)
        await supervise(
            [
                Actor("server", server.run),
                Actor("restricted socket", partial(restricted.run, handlers, welcome)),
                Actor("reloader", reloader.run),
                Actor("agents", host.run, stop_s=STOP_S),
                Actor("heaps", partial(trim_heaps, host.release_pages)),
                Actor("watchdog", partial(notifier.run, host.healthy)),
            ],
            stop,
            on_stopping=lambda: notifier.send("STOPPING=1"),
            explained=EXPLAINED,
        )
    log.info("stopped")
