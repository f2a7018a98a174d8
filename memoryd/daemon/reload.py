"""Reloader that makes the running agents match the configuration.

Workspaces added by clients are stored beside the indexes, in one file per socket, so that the next
start serves them too.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from memoryd.agent.factories import check_workspace
from memoryd.api.health import exposed_hint
from memoryd.config.load import AgentConfig, load, load_added, real_path, usable
from memoryd.config.registered import AddedError, read_added, unfinished, write_added
from memoryd.config.settings import SocketSettings
from memoryd.config.validate import ConfigError
from memoryd.daemon.agents import AgentSlot, AgentSupervisor
from memoryd.daemon.restricted import RestrictedSocket
from memoryd.errors import AlreadyRunningError, RequestFailedError, SocketError
from memoryd_client.schema.agents import ReloadResult
from memoryd_client.shared import paths
from memoryd_client.wire.protocol import ErrorCode

log = logging.getLogger(__name__)

MAX_ADDED = 100
"""Maximum number of added workspaces, because each has its own threads and connections."""


@dataclass(eq=False)
class Reloader:
    """Actor that starts, stops and restarts agents when their configuration changes.

    In: `hangup`, set by SIGHUP. `config_file`, `agent` and `workspace` come from the command line;
    `added_path` is the file of added workspaces.
    """

    host: AgentSupervisor
    hangup: asyncio.Event
    _: KW_ONLY
    config_file: Path | None
    agent: str | None
    workspace: Path | None
    added_path: Path
    restricted: RestrictedSocket
    on_reloading: Callable[[], None]
    on_reloaded: Callable[[], None]
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _socket: SocketSettings = field(default=SocketSettings(), init=False)

    async def run(self) -> None:
        """Reload on every `hangup` until cancelled."""
        while True:
            await self.hangup.wait()
            self.hangup.clear()
            try:
                await self.reload()
            except ConfigError as error:
                log.error("reload failed, the old configuration stays active: %s", error)

    async def start(self) -> None:
        """Start the restricted socket and every agent.

        Raises `ConfigError`, `SocketError` or `AlreadyRunningError`, or the first agent's error if
        every agent failed.
        """
        with suppress(OSError):
            # An interrupted write left it; the file itself is complete.
            unfinished(self.added_path).unlink(missing_ok=True)
        try:
            configs = await asyncio.to_thread(self._load)
        except AddedError as error:
            self.host.problem = str(error)
            log.error("added workspaces are not served: %s", error)
            configs = await asyncio.to_thread(self._load, with_added=False)
        await self._apply_socket(configs[0].socket)
        await asyncio.gather(*(self.host.start(config) for config in configs))
        errors = [hosted.error for hosted in self.host.all() if hosted.error is not None]
        if len(errors) == len(self.host.all()):
            raise errors[0]

    async def reload(self) -> ReloadResult:
        """Read the configuration and apply it, one agent after the other.

        Raises `ConfigError`, and then changes nothing.
        """
        async with self._lock:
            self.on_reloading()
            try:
                wanted = await asyncio.to_thread(self._load)
                for config in wanted:
                    if config.origin != "added":
                        with suppress(TimeoutError):  # the start of the agent waits for the disk
                            await check_workspace(config)
                changed = await self._reload_socket(wanted[0].socket)
            except ConfigError as error:
                self.host.problem = f"the configuration can't be reloaded: {error}"
                raise
            else:
                self.host.problem = None
                return await self._apply(wanted, changed)
            finally:
                self.on_reloaded()

    async def add(self, workspace: Path) -> tuple[AgentSlot, bool]:
        """Serve one more workspace; return its agent and whether it is new.

        Raises `ConfigError` or `RequestFailedError`.
        """
        async with self._lock:
            await self._check_added()
            config = await asyncio.to_thread(load_added, self.config_file, workspace)
            if all(h.config.workspace != config.workspace for h in self.host.all()):
                await self._check_below(config.workspace)
            usable(config)
            for hosted in self.host.all():
                if hosted.config.workspace == config.workspace:
                    return hosted, False
                if hosted.config.db_path == config.db_path:
                    raise ConfigError(
                        f"agent {hosted.config.agent} already uses the index {config.db_path}",
                        "set store.path for each agent, not in [defaults]",
                    )
            if sum(h.config.origin == "added" for h in self.host.all()) >= MAX_ADDED:
                raise RequestFailedError(
                    ErrorCode.BUSY,
                    f"the limit of {MAX_ADDED} added workspaces is reached",
                    "drop one, or add it to the configuration instead",
                )
            hosted = await self.host.start(config)
            if hosted.reason is not None:
                await self.host.stop(config.agent)
                raise RequestFailedError(ErrorCode.UNAVAILABLE, hosted.reason)
            try:
                await self._write_added(effect="the workspace is not served")
            except RequestFailedError:
                await self.host.stop(config.agent)
                raise
            return hosted, True

    async def drop(self, config: AgentConfig) -> AgentConfig:
        """Stop serving a workspace that was added. Raises `RequestFailedError` for any other."""
        if config.origin != "added":
            where = f"in {config.files[0]}" if config.files else "on the command line of memoryd"
            raise RequestFailedError(
                ErrorCode.DENIED,
                f"agent {config.agent} was not added by a client; it is configured {where}",
                hint="change it there, then run `memctl reload` or restart memoryd",
            )
        async with self._lock:
            await self._check_added()
            await self.host.stop(config.agent)
            await self._write_added(effect="the workspace is dropped until the next start")
        return config

    async def _apply_socket(self, socket: SocketSettings) -> None:
        await self.restricted.apply(socket)
        self._socket = socket

    async def _reload_socket(self, socket: SocketSettings) -> list[str]:
        """Apply the table `[socket]`; return the changed keys. Raises `ConfigError`."""
        before = self._socket
        try:
            await self._apply_socket(socket)
        except (SocketError, AlreadyRunningError) as error:
            raise ConfigError(error.message, error.hint) from error
        keys = SocketSettings.__struct_fields__
        return [f"socket.{key}" for key in keys if getattr(before, key) != getattr(socket, key)]

    async def _apply(self, wanted: list[AgentConfig], changed: list[str]) -> ReloadResult:
        files = [str(file) for config in wanted[:1] for file in config.files]
        result = ReloadResult(files, [], [], [], [], [], changed)
        ids = {config.agent for config in wanted}
        for hosted in self.host.all():
            if hosted.config.agent not in ids:
                await self.host.stop(hosted.config.agent)
                result.stopped.append(hosted.config.agent)
        there = {hosted.config.agent: hosted.config for hosted in self.host.all()}
        for config in wanted:
            if there.get(config.agent) == config:
                result.unchanged.append(config.agent)
                self.host.keep(config)
                continue
            if config.agent in there:
                await self.host.stop(config.agent)
            hosted = await self.host.start(config)
            kind = result.restarted if config.agent in there else result.started
            (result.failed if hosted.reason is not None else kind).append(config.agent)
        self.host.retry()
        log.info("configuration reloaded, %s", _changes(result))
        return result

    def _load(self, *, with_added: bool = True) -> list[AgentConfig]:
        """Return the agents to serve: those of the configuration, then added workspaces."""
        configs = load(self.config_file, agent=self.agent, workspace=self.workspace)
        served = {config.workspace for config in configs}
        roots = configs[0].socket.add_below
        for workspace in read_added(self.added_path) if with_added else ():
            config = load_added(self.config_file, Path(workspace))
            # It was added with its real path. A link in its place now would lead around the roots.
            if str(config.workspace) != workspace and not is_below(config.workspace, roots):
                log.warning(
                    "%s is not served any more: it leads to %s now", workspace, config.workspace
                )
                continue
            if config.workspace not in served:
                served.add(config.workspace)
                configs.append(config)
        for file in {c.exposed for c in configs if c.exposed is not None}:
            log.warning("%s", exposed_hint(file))
        return configs

    async def _check_below(self, workspace: Path) -> None:
        """Raise `RequestFailedError` if clients may not add this workspace."""
        roots = self._socket.add_below
        if await asyncio.to_thread(is_below, workspace, roots):
            return
        file = self.config_file or paths.config_path()
        permitted = f"is not at or below {' or '.join(roots)}, where clients may add workspaces"
        raise RequestFailedError(
            ErrorCode.DENIED,
            f"{workspace} {permitted if roots else 'is refused: clients may add no workspaces'}",
            f"name it in socket.add_below, or as the workspace of an agent, in {file};"
            " then run `memctl reload`",
        )

    async def _check_added(self) -> None:
        """Raise `RequestFailedError` if an unreadable list would be overwritten."""
        try:
            await asyncio.to_thread(read_added, self.added_path)
        except AddedError as error:
            raise RequestFailedError(ErrorCode.UNAVAILABLE, str(error)) from error

    async def _write_added(self, *, effect: str) -> None:
        """Store the list of added workspaces. Raises `RequestFailedError` with the `effect`."""
        added = [str(h.config.workspace) for h in self.host.all() if h.config.origin == "added"]
        try:
            await asyncio.to_thread(write_added, self.added_path, added)
        except OSError as error:
            raise RequestFailedError(
                ErrorCode.UNAVAILABLE,
                f"can't write {self.added_path}: {error.strerror}; {effect}",
                "free disk space or make it writable, then retry",
            ) from error


def _changes(result: ReloadResult) -> str:
    parts = {
        "settings": result.changed,
        "started": result.started,
        "stopped": result.stopped,
        "restarted": result.restarted,
        "failed": result.failed,
    }
    told = [f"{change}: {', '.join(names)}" for change, names in parts.items() if names]
    return "; ".join(told) or "no changes"


def is_below(workspace: Path, roots: Iterable[str]) -> bool:
    """Return whether a real path is one of these folders or inside one. Blocking."""
    found = (real_path(Path(root)) for root in roots)
    return any(root is not None and workspace.is_relative_to(root) for root in found)
