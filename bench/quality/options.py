"""Settings to try, by dotted key, from a configuration file and the command line."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memoryd.config.validate import ConfigError

Options = dict[str, Any]
SEARCH_ONLY = "query."
"""Prefix of the settings that don't affect an index."""
QUIET: Options = {
    "provider": "local",
    "sync.watch": False,
    "sync.interval_minutes": 0,
    "sync.on_search": False,
}
"""The bundled model, and no scans, because no file changes during the questions."""


def read(config: Path | None, assignments: Sequence[str]) -> Options:
    """Return `[defaults]` of a configuration file, overridden by `key=value` assignments.

    A value is TOML, or else a string. Raises `ConfigError`.
    """
    options: Options = {}
    if config is not None:
        try:
            document = tomllib.loads(config.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{config}: can't be read: {error}") from error
        options |= _flat(document.get("defaults", {}))
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"{assignment}: write it as key=value")
        options[key.strip()] = _value(value.strip())
    return options


def to_toml(options: Mapping[str, Any]) -> str:
    """Return options as lines of a TOML table. JSON values, except tables, are TOML values."""
    return "".join(f"{key} = {json.dumps(v, ensure_ascii=False)}\n" for key, v in options.items())


def of_the_index(options: Mapping[str, Any]) -> Options:
    """Return the options that an index depends on, in order of their keys."""
    return {key: options[key] for key in sorted(options) if not key.startswith(SEARCH_ONLY)}


def _flat(table: Mapping[str, Any], at: str = "") -> Options:
    flat: Options = {}
    for key, value in table.items():
        flat |= _flat(value, f"{at}{key}.") if isinstance(value, dict) else {f"{at}{key}": value}
    return flat


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
