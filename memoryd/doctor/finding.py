"""What the doctor has to say: findings, gathered by check and agent. Pure."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from memoryd.text.display import shown_path

Level = Literal["ok", "warning", "error"]
NAMED = 5
"""Of many names, as many are given; all are counted."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `agent` None: it concerns all; `fix` says what to do."""

    check: str
    level: Level
    agent: str | None
    message: str
    fix: str | None = None


class Topic:
    """Gathers the findings of one check, of one agent or of none."""

    def __init__(self, check: str, agent: str | None = None) -> None:
        self.findings: list[Finding] = []
        self._check = check
        self._agent = agent

    def error(self, message: str, fix: str) -> None:
        """Something is broken, or others get at what they must not."""
        self._add("error", message, fix)

    def warning(self, message: str, fix: str) -> None:
        """Something is less than it should be, or will be put right by itself."""
        self._add("warning", message, fix)

    def fine(self, message: str) -> list[Finding]:
        """Say what is in order if nothing else was found; return all findings."""
        if not self.findings:
            self._add("ok", message, None)
        return self.findings

    def _add(self, level: Level, message: str, fix: str | None) -> None:
        fix = None if fix is None else shown_path(fix)
        self.findings.append(Finding(self._check, level, self._agent, shown_path(message), fix))


class Tally:
    """Counts names and keeps the first few."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.count = 0
        self._first: list[str] = []
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self._first) < NAMED:
            self._first.append(name)

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        rest = self.count - len(self._first)
        return ", ".join(self._first) + (f" and {rest} more" if rest else "")
