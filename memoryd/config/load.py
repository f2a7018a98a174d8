"""Reader of the configuration file, which keeps the origin of each effective value.

`[agents.<id>]` overrides `[defaults]` key by key, nested tables included; `settings` has the types
and defaults. Every mistake raises a `ConfigError` that names the file, the key and the nearest
valid key.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from memoryd.config.reference_keys import reference_hint
from memoryd.config.settings import Section, Settings, SocketSettings
from memoryd.config.validate import AGENT_ID, ConfigError, choices, mistakes, socket_mistakes
from memoryd.fs.directories import shown_path
from memoryd.fs.hang import DISK_LIMIT_S, within
from memoryd_client.shared import ownership, paths, toml
from memoryd_client.shared.safe_open import open_regular

HIDDEN = "…"
"""Replacement for the values of headers and of query parameters in addresses."""
_QUERY_VALUE = re.compile(r"(^|&)([^=&]*=)?[^&]+")

Table = dict[str, Any]
SectionT = TypeVar("SectionT", bound=Section)
Origin = Literal["configuration", "command line", "added"]
DEFAULT_AGENT = "main"


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One agent, ready to run: `workspace` and `db_path` are absolute, links resolved.

    `problem` is the reason why it can't run at present: its workspace is not a folder. `exposed` is
    the configuration file if other users can read it and it has headers, which may be secret.
    `socket` is the same for all agents; a change of it restarts none.
    """

    agent: str
    workspace: Path
    db_path: Path
    settings: Settings
    origins: dict[str, str]
    files: tuple[Path, ...]
    origin: Origin
    problem: str | None = field(default=None, compare=False)
    exposed: Path | None = field(default=None, compare=False)
    socket: SocketSettings = field(default=SocketSettings(), compare=False)
    socket_origins: dict[str, str] = field(default_factory=dict, compare=False)

    def values(self) -> list[tuple[str, Any, str]]:
        """Return every effective setting as (dotted key, value, origin), in table order."""
        remote = self.settings.remote
        shown: Table = {"workspace": str(self.workspace), "store.path": str(self.db_path)}
        shown["remote.headers"] = dict.fromkeys(remote.headers, HIDDEN)
        if remote.base_url is not None:
            address, mark, query = remote.base_url.partition("?")
            shown["remote.base_url"] = address + mark + _QUERY_VALUE.sub(rf"\1\2{HIDDEN}", query)
        own = [
            (key, shown.get(key, value), self._origin(key)) for key, value in _leaves(self.settings)
        ]
        return own + [
            (f"socket.{key}", value, self.socket_origins.get(key, "default"))
            for key, value in _leaves(self.socket)
        ]

    def _origin(self, key: str) -> str:
        inside = next((o for k, o in self.origins.items() if k.startswith(f"{key}.")), "default")
        return self.origins.get(key, inside)


def _leaves(section: Section, at: str = "") -> Iterator[tuple[str, Any]]:
    for f in msgspec.structs.fields(section):
        key, value = f"{at}{f.encode_name}", getattr(section, f.name)
        if isinstance(value, Section):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def load(
    config_file: Path | None = None, *, agent: str | None = None, workspace: Path | None = None
) -> list[AgentConfig]:
    """Load the agents to serve, at least one, in the order of the file.

    `config_file` None means the default location, where the file may be missing. `agent`
    (`--agent`) selects one agent of the file. `workspace` (`--workspace`) overrides the file: it
    selects the agent configured for that folder, else an unnamed one with the `[defaults]`, which
    is also the result for a file without agents. Raises `ConfigError`.
    """
    source = _Source.read(config_file)
    if agent is not None:
        if agent not in source.agents:
            known = ", ".join(sorted(source.agents)) or "none"
            raise ConfigError(f"no agent {agent!r} in {source.file} (configured: {known})")
        return [source.agent(agent, workspace)]
    if workspace is not None:
        return [source.agent(source.owner_of(workspace), workspace)]
    configs = [source.agent(name) for name in source.agents] or [source.agent(None)]
    indexes: dict[Path, str] = {}
    for config in configs:
        other = indexes.setdefault(config.db_path, config.agent)
        if other != config.agent:
            raise ConfigError(
                f"{source.file}: agents {other} and {config.agent} have the same index"
                f" {config.db_path}",
                f"set store.path of one of them, or use {AGENT_ID} in it",
            )
    return configs


def load_added(config_file: Path | None, workspace: Path) -> AgentConfig:
    """Load the agent for a workspace that is added to a running daemon. Raises `ConfigError`.

    It is the one configured for that directory, else one named after the directory.
    """
    source = _Source.read(config_file)
    name = source.owner_of(workspace)
    config = source.agent(name, workspace)
    agent = config.agent if name is not None else added_name(config.workspace)
    return replace(config, agent=agent, origin="added")


def default_agent(configs: list[AgentConfig], folder: Path) -> AgentConfig | None:
    """Return the agent of a client in `folder` that names none.

    That is the agent whose workspace contains the folder, the innermost if there are several; else
    `main`; else the only one; None if there are several.
    """
    if len(configs) == 1:  # most daemons have one agent, and look at no path
        return configs[0]
    around = [c for c in configs if folder.is_relative_to(c.workspace)]
    if around:
        return max(around, key=lambda config: len(config.workspace.parts))
    return next((c for c in configs if c.agent == DEFAULT_AGENT), None)


def usable(config: AgentConfig) -> AgentConfig:
    """Return the configuration. Raises `ConfigError` if its workspace is unusable."""
    if config.problem is not None:
        raise ConfigError(config.problem)
    return config


def index_name(workspace: Path) -> str:
    """Return the name of a workspace's index: its directory name and 8 hex digits of its path."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in workspace.name)
    return f"{safe or 'root'}-{_path_digits(workspace)}"


def added_name(workspace: Path) -> str:
    """Return the agent id for an added workspace: like `index_name`, but any letters."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in workspace.name).split()
    return f"{'-'.join(words) or 'root'}-{_path_digits(workspace)}"


def _path_digits(workspace: Path) -> str:
    return hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class _Source:
    """A configuration file whose top-level tables are valid."""

    file: Path
    exists: bool
    defaults: Table
    agents: dict[str, Table]
    socket: SocketSettings
    socket_origins: dict[str, str]

    @classmethod
    def read(cls, config_file: Path | None) -> "_Source":
        file = config_file or Path(paths.config_path())
        document = _read(file)
        if config_file is not None and document is None:
            raise ConfigError(f"no such configuration file: {file}")
        if config_file is None and document is not None:
            _check_ours(file)
        exists, document = document is not None, document or {}
        _check_top_level(document, file)
        table: Table = document.get("socket", {})
        origins = dict.fromkeys(table, f"{file} [socket]")
        socket = _convert(table, SocketSettings, origins, file)
        for key, mistake in socket_mistakes(socket):
            raise ConfigError(f"{file} [socket]: {key}: {mistake}")
        return cls(
            file,
            exists,
            document.get("defaults", {}),
            document.get("agents", {}),
            socket,
            origins,
        )

    def owner_of(self, workspace: Path) -> str | None:
        """Return the agent configured for a directory."""
        real = real_path(workspace)
        for name, table in self.agents.items():
            root = table.get("workspace")
            if isinstance(root, str) and real_path(Path(root)) == real is not None:
                return name
        return None

    def agent(self, name: str | None, workspace: Path | None = None) -> AgentConfig:
        """Merge the settings of one agent, an unnamed one if `name` is None."""
        merged: Table = {}
        origins: dict[str, str] = {}
        _merge(merged, self.defaults, f"{self.file} [defaults]", origins)
        if name is not None:
            _merge(merged, self.agents[name], f"{self.file} [agents.{name}]", origins)
        if workspace is not None:
            _merge(merged, {"workspace": str(workspace)}, "--workspace", origins)
        settings = _convert(merged, Settings, origins, self.file)
        for key, mistake in mistakes(settings):
            raise ConfigError(f"{origins.get(key, self.file)}: {key}: {mistake}")
        origins.setdefault("workspace", "current directory")
        given = Path(settings.workspace or ".").expanduser()
        root, problem = _seen(given)
        if problem is not None:
            named = f"workspace {given} ({origins['workspace']})"
            problem = f"{named} {problem}; create it or name another"
        if (shown := shown_path(root)) != str(root):  # no index or answer can hold it
            raise ConfigError(
                f"the path of the workspace {shown} is not UTF-8", "rename the folder"
            )
        return AgentConfig(
            agent=name or DEFAULT_AGENT,
            workspace=root,
            db_path=_db_path(settings, name or index_name(root)),
            settings=settings,
            origins=origins,
            files=(self.file,) if self.exists else (),
            origin="configuration" if name is not None else "command line",
            problem=problem,
            exposed=self.file if settings.remote.headers and self._is_exposed() else None,
            socket=self.socket,
            socket_origins=self.socket_origins,
        )

    def _is_exposed(self) -> bool:
        with suppress(OSError):
            return bool(stat.S_IMODE(self.file.stat().st_mode) & 0o077)
        return False


def real_path(path: Path) -> Path | None:
    """Return a path with links resolved if its disk answers; None if it is not a valid path."""
    try:
        expanded = path.expanduser()
        return Path(within(DISK_LIMIT_S, partial(os.path.realpath, expanded)))
    except TimeoutError:
        return Path(os.path.abspath(expanded))
    except (RuntimeError, ValueError):  # unknown user, or NUL
        return None


def _seen(path: Path) -> tuple[Path, str | None]:
    """Return a workspace with links resolved, and the reason if it can't be used, else None."""

    def check() -> tuple[Path, str | None]:
        real = Path(os.path.realpath(path))
        try:
            return real, None if path.is_dir() else "is not a folder"
        except OSError as error:
            return real, f"can't be checked ({error.strerror})"

    try:
        return within(DISK_LIMIT_S, check)
    except TimeoutError as error:
        return Path(os.path.abspath(path)), f"can't be checked ({error.strerror})"


def _read(file: Path) -> Table | None:
    """Return the parsed file, None if it does not exist. Raises `ConfigError`."""
    try:
        with open_regular(file) as opened:
            return toml.loads(opened.read(toml.MAX_BYTES + 1))
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from error
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"can't read {file}: {error.strerror}") from error


def _check_ours(file: Path) -> None:
    """Raise `ConfigError` if somebody else could have written a file that nobody named."""
    try:
        ownership.check_file(str(file))
    except OSError as error:
        fix = getattr(error, "hint", "")
        raise ConfigError(
            f"the configuration is not yours alone: {error.strerror}",
            f"{fix or 'set XDG_CONFIG_HOME'}, or name it with --config if you trust it",
        ) from error


def _check_top_level(document: Table, file: Path) -> None:
    for key, value in document.items():
        if key == "autostart":
            if not isinstance(value, bool):
                raise ConfigError(f"{file}: autostart must be true or false")
            continue
        if key not in ("defaults", "agents", "socket"):
            valid = "use [defaults], [agents.<id>] or [socket]"
            raise ConfigError(f"{file}: unknown table [{key}]", valid)
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {key} must be a table: [{key}]")
    for name, table in document.get("agents", {}).items():
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: agents.{name} must be a table: [agents.{name}]")
        if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
            raise ConfigError(
                f"{file}: agent id {name!r} must consist of letters, digits, '-', '_' and '.'"
            )


def _merge(target: Table, table: Table, origin: str, origins: dict[str, str], at: str = "") -> None:
    for key, value in table.items():
        dotted = f"{at}{key}"
        if isinstance(value, dict):
            below = target.setdefault(key, {})
            if not isinstance(below, dict):
                below = target[key] = {}
            _merge(below, value, origin, origins, f"{dotted}.")
        else:
            target[key] = value
            origins[dotted] = origin


def _convert(merged: Table, kind: type[SectionT], origins: dict[str, str], file: Path) -> SectionT:
    _check_keys(merged, kind, _all_keys(kind), origins, file)
    try:
        return msgspec.convert(merged, kind, strict=True)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$.")
        key, hint = where.rstrip("`"), ""
        if reason.startswith("Invalid enum value"):
            hint = f"valid values: {', '.join(choices(key))}"
        message = f"{origins.get(key, file)}: {key or 'settings'}: {reason}"
        raise ConfigError(message, hint) from error


def _check_keys(
    table: Table,
    section: type[Section],
    known: list[str],
    origins: dict[str, str],
    file: Path,
    at: str = "",
) -> None:
    fields = _fields(section)
    for key, value in table.items():
        dotted = f"{at}{key}"
        if key not in fields:
            origin = next((o for k, o in origins.items() if f"{k}.".startswith(f"{dotted}.")), file)
            from difflib import get_close_matches  # 0.2 MiB, for an error alone

            near = get_close_matches(dotted, known, n=1, cutoff=0.6)
            hint = reference_hint(dotted, known)
            hint = hint or (f"did you mean {near[0]}?" if near else "")
            raise ConfigError(f"{origin}: unknown key {dotted}", hint)
        if isinstance(fields[key], type) and issubclass(fields[key], Section):
            if not isinstance(value, dict):
                raise ConfigError(f"{origins.get(dotted, file)}: {dotted} must be a table")
            _check_keys(value, fields[key], known, origins, file, f"{dotted}.")


@cache
def _fields(section: type[Section]) -> dict[str, Any]:
    return {f.encode_name: f.type for f in msgspec.structs.fields(section)}


@cache
def _all_keys(section: type[Section]) -> list[str]:
    keys = []
    for name, kind in _fields(section).items():
        keys.append(name)
        if isinstance(kind, type) and issubclass(kind, Section):
            keys += [f"{name}.{key}" for key in _all_keys(kind)]
    return keys


def _db_path(settings: Settings, name: str) -> Path:
    if settings.store.path is not None:
        path = Path(settings.store.path.replace(AGENT_ID, name)).expanduser()
    else:
        path = Path(paths.state_dir()) / f"{name}.sqlite"
    # An index needs one name: the lock is beside it, and a rebuild replaces the file itself.
    return real_path(path) or path
