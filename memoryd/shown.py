"""How settings and paths are shown: without what may be a secret, or is no text. Pure."""

import os
import re
from typing import Any

import msgspec

from memoryd.settings import Section, Settings

HIDDEN = "…"
"""In place of the value of a header, or of one in an address's query."""
_QUERY_VALUE = re.compile(r"(^|&)([^=&]*=)?[^&]+")


def shown_settings(settings: Settings) -> list[tuple[str, Any]]:
    """Return every setting as (dotted key, value), in table order."""
    remote = settings.remote
    hidden: dict[str, Any] = {"remote.headers": dict.fromkeys(remote.headers, HIDDEN)}
    if remote.base_url is not None:
        hidden["remote.base_url"] = _address(remote.base_url)
    return [(key, hidden.get(key, value)) for key, value in _leaves(settings)]


def shown_path(path: str | os.PathLike[str]) -> str:
    r"""Return a path, or a text with one in it: bytes that are not UTF-8 as `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _address(url: str) -> str:
    address, mark, query = url.partition("?")
    return address + mark + _QUERY_VALUE.sub(rf"\1\2{HIDDEN}", query)


def _leaves(section: Section, at: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for f in msgspec.structs.fields(section):
        name, value = f.encode_name, getattr(section, f.name)
        if isinstance(value, Section):
            leaves += _leaves(value, f"{at}{name}.")
        else:
            leaves.append((f"{at}{name}", value))
    return leaves
