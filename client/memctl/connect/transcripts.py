"""The configuration of memoryd, and the transcripts of agents in it. Pure."""

import json
import re
from typing import Any

from msgspec import Struct

from memctl.connect import toml_text
from memctl.connect.toml_text import MARK, TomlTable
from memoryd_client.shared import toml

_TABLE = ("defaults", "sessions")
_LIST = re.compile(r"(?m)^formats = \[[^\]\r\n]*\]")


class SessionsFile(Struct, frozen=True):
    """`config.toml` of memoryd, which shall read the transcripts of one format."""

    path: str
    format: str

    def connected(self, text: str) -> str:
        """Return the text with this format, or unchanged if `remark` says why.

        Raises `ValueError`.
        """
        if self._is_read(text):
            return text
        if (own := _own(text)) is not None:
            return self._listed(text, own, [*_formats(text), self.format])
        if isinstance(_defaults(text).get("sessions"), dict):
            return text
        return toml_text.add(
            text, f"[{'.'.join(_TABLE)}]\nenabled = true\nformats = {json.dumps([self.format])}"
        )

    def disconnected(self, text: str, original: str | None) -> str:
        """Return the text without this format in the table of memoryd. Raises `ValueError`."""
        own = _own(text)
        if own is None or self.format not in _formats(text):
            return text
        rest = [name for name in _formats(text) if name != self.format]
        return self._listed(text, own, rest) if rest else toml_text.cut(text, own)

    def missing(self, text: str) -> list[str]:
        """Return the setting that is missing. Raises `ValueError`."""
        return [] if self._is_read(text) else ["sessions"]

    def present(self, text: str) -> list[str]:
        """Return a line for the setting, if memoryd has added it. Raises `ValueError`."""
        if _own(text) is None or self.format not in _formats(text):
            return []
        return [f"defaults.sessions.formats: {json.dumps(self.format)}"]

    def remark(self, text: str) -> str | None:
        """Return why memoryd does not read these transcripts, None if it does.

        Raises `ValueError`.
        """
        if self._is_read(text):
            return None
        return (
            f"memoryd does not read the transcripts: {self.path} has a table sessions of yours;"
            f" set `enabled = true` there, and {self.format!r} in `formats`"
        )

    def _is_read(self, text: str) -> bool:
        """Return whether any agent of memoryd reads the format."""
        defaults = _defaults(text).get("sessions")
        agents = _read(text).get("agents")
        tables = agents.values() if isinstance(agents, dict) else ()
        own = [table.get("sessions") for table in tables if isinstance(table, dict)]
        merged = [{**_table(defaults), **_table(one)} for one in own or [None]]
        return any(
            one.get("enabled") is True and self.format in one.get("formats", [self.format])
            for one in merged
        )

    @staticmethod
    def _listed(text: str, own: TomlTable, formats: list[str]) -> str:
        table = text[own.start : own.end]
        table = _LIST.sub(lambda _: f"formats = {json.dumps(formats)}", table)
        return text[: own.start] + table + text[own.end :]


def _own(text: str) -> TomlTable | None:
    """Return the table that memoryd has added, if its list of formats can be changed."""
    for found in toml_text.tables(text):
        table = text[found.start : found.end]
        if found.name == _TABLE and table.startswith(MARK) and _LIST.search(table):
            return found
    return None


def _formats(text: str) -> list[str]:
    formats = _table(_defaults(text).get("sessions")).get("formats")
    return [name for name in formats if isinstance(name, str)] if isinstance(formats, list) else []


def _defaults(text: str) -> dict[str, Any]:
    return _table(_read(text).get("defaults"))


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _read(text: str) -> dict[str, Any]:
    return toml.loads(text.encode())
