"""Reads the configuration file and says where each effective value comes from.

`[agents.<id>]` is laid over `[defaults]` key by key, nested tables included; `settings` has the
types and defaults. Every mistake is a `ConfigError` that names the file, the key and the nearest
right key.
"""

import difflib
import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from memoryd.settings import Section, Settings
from memoryd_client import paths

Table = dict[str, Any]
DEFAULT_AGENT = "main"


class ConfigError(Exception):
    """The configuration can't be used; the message says where and what to change."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One agent, ready to run: `workspace` and `db_path` are absolute, links resolved."""

    agent: str
    workspace: Path
    db_path: Path
    settings: Settings
    origins: dict[str, str]
    files: tuple[Path, ...]
    others: tuple[str, ...] = ()

    def values(self) -> list[tuple[str, Any, str]]:
        """Return every effective setting as (dotted key, value, origin), in table order."""
        resolved = {"workspace": str(self.workspace), "store.path": str(self.db_path)}
        return [
            (key, resolved.get(key, value), self.origins.get(key, "default"))
            for key, value in _leaves(self.settings)
        ]


def load(
    config_file: Path | None = None, *, agent: str | None = None, workspace: Path | None = None
) -> AgentConfig:
    """Load one agent's configuration.

    `config_file` None means the default location, where it may be missing; a file that is named
    must exist. `workspace` (`--workspace`) wins over the file: the agent is then the one configured
    for that folder, else a nameless one with the `[defaults]`. Raises `ConfigError`.
    """
    file = config_file or Path(paths.config_path())
    if config_file is not None and not file.is_file():
        raise ConfigError(f"{file}: no such configuration file")
    document = _read(file) if file.is_file() else {}
    _check_top_level(document, file)
    defaults: Table = document.get("defaults", {})
    agents: dict[str, Table] = document.get("agents", {})

    name = _choose(agents, agent, workspace, file)
    merged: Table = {}
    origins: dict[str, str] = {}
    _merge(merged, defaults, f"{file} [defaults]", origins)
    if name is not None:
        _merge(merged, agents[name], f"{file} [agents.{name}]", origins)
    if workspace is not None:
        _merge(merged, {"workspace": str(workspace)}, "--workspace", origins)
    settings = _convert(merged, origins, file)
    _check_homes(settings, origins, file)

    root = Path(settings.workspace or ".").expanduser()
    if "workspace" not in origins:
        origins["workspace"] = "current directory"
    if not root.is_dir():
        raise ConfigError(
            f"workspace {root} ({origins['workspace']}) is not a folder; create it or name another"
        )
    root = root.resolve()
    return AgentConfig(
        agent=name or DEFAULT_AGENT,
        workspace=root,
        db_path=_db_path(settings, name, root),
        settings=settings,
        origins=origins,
        files=(file,) if document else (),
        others=tuple(sorted(set(agents) - {name})),
    )


def _read(file: Path) -> Table:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}") from error


def _check_top_level(document: Table, file: Path) -> None:
    for key, value in document.items():
        if key not in ("defaults", "agents"):
            raise ConfigError(f"{file}: unknown table [{key}]; use [defaults] or [agents.<id>]")
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {key} must be a table: [{key}]")
    for name, table in document.get("agents", {}).items():
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: agents.{name} must be a table: [agents.{name}]")
        if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
            raise ConfigError(
                f"{file}: agent id {name!r} must be made of letters, digits, '-', '_' and '.'"
            )


def _choose(
    agents: dict[str, Table], agent: str | None, workspace: Path | None, file: Path
) -> str | None:
    if agent is not None:
        if agent in agents:
            return agent
        known = ", ".join(sorted(agents)) or "none"
        raise ConfigError(f"no agent {agent!r} in {file} (configured: {known})")
    if workspace is not None:
        wanted = workspace.expanduser().resolve()
        for name, table in agents.items():
            root = table.get("workspace")
            if isinstance(root, str) and Path(root).expanduser().resolve() == wanted:
                return name
        return None
    if DEFAULT_AGENT in agents:
        return DEFAULT_AGENT
    if len(agents) > 1:
        raise ConfigError(
            f"{file} has several agents and none is called {DEFAULT_AGENT}; choose one with"
            f" --agent: {', '.join(sorted(agents))}"
        )
    return next(iter(agents), None)


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


def _convert(merged: Table, origins: dict[str, str], file: Path) -> Settings:
    _check_keys(merged, Settings, origins, file)
    try:
        return msgspec.convert(merged, Settings, strict=True)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$.")
        key = where.rstrip("`")
        raise ConfigError(f"{origins.get(key, file)}: {key or 'settings'}: {reason}") from error


def _check_homes(settings: Settings, origins: dict[str, str], file: Path) -> None:
    named = [
        ("workspace", settings.workspace),
        ("store.path", settings.store.path or ""),
        *(("extra_paths", path) for path in settings.extra_paths),
    ]
    for key, path in named:
        try:
            Path(path).expanduser()
        except RuntimeError:
            raise ConfigError(
                f"{origins.get(key, file)}: {key}: {path}: there is no such user"
            ) from None


def _check_keys(
    table: Table, section: type[Section], origins: dict[str, str], file: Path, at: str = ""
) -> None:
    fields = {f.name: f.type for f in msgspec.structs.fields(section)}
    for key, value in table.items():
        dotted = f"{at}{key}"
        if key not in fields:
            origin = next((o for k, o in origins.items() if f"{k}.".startswith(f"{dotted}.")), file)
            near = difflib.get_close_matches(dotted, _all_keys(Settings), n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"{origin}: unknown key {dotted}{hint}")
        if isinstance(fields[key], type) and issubclass(fields[key], Section):
            if not isinstance(value, dict):
                raise ConfigError(f"{origins.get(dotted, file)}: {dotted} must be a table")
            _check_keys(value, fields[key], origins, file, f"{dotted}.")


def _all_keys(section: type[Section], at: str = "") -> list[str]:
    keys: list[str] = []
    for f in msgspec.structs.fields(section):
        keys.append(f"{at}{f.name}")
        if isinstance(f.type, type) and issubclass(f.type, Section):
            keys += _all_keys(f.type, f"{at}{f.name}.")
    return keys


def _leaves(section: Section, at: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, Section):
            leaves += _leaves(value, f"{at}{name}.")
        else:
            leaves.append((f"{at}{name}", value))
    return leaves


def _db_path(settings: Settings, name: str | None, workspace: Path) -> Path:
    if settings.store.path is not None:
        return Path(settings.store.path).expanduser().absolute()
    if name is None:
        digest = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()
        safe = "".join(
            c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in workspace.name
        )
        name = f"{safe or 'root'}-{digest[:8]}"
    return Path(paths.state_dir()) / f"{name}.sqlite"
