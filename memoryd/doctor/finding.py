"""Findings by check and agent, and their output as text and JSON. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from memoryd.fs.directories import shown_path
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import one_line, printable_json, printable_name
from memoryd_client.shared.text_width import table

Level = Literal["ok", "warning", "error"]
_MARKS = {"ok": "✓", "warning": "!", "error": "✗"}
NAMED = 5
"""Maximum names in a message; the rest is counted."""


class Finding(msgspec.Struct, frozen=True):
    """The result of a check. `agent` None: it concerns all agents; `fix` is the next step."""

    check: str
    level: Level
    agent: str | None
    message: str
    fix: str | None = None


class Topic:
    """Collector for the findings of one check, of one agent or of none."""

    def __init__(self, check: str, agent: str | None = None) -> None:
        self.findings: list[Finding] = []
        self._check = check
        self._agent = agent

    @property
    def failed(self) -> bool:
        """True if there is an error."""
        return any(finding.level == "error" for finding in self.findings)

    def error(self, message: str, fix: str) -> None:
        """Add an error: something is broken, or others can access private files."""
        self._add("error", message, fix)

    def warning(self, message: str, fix: str) -> None:
        """Add a warning: a limitation, or a problem that memoryd fixes by itself."""
        self._add("warning", message, fix)

    def fine(self, message: str) -> list[Finding]:
        """Add an `ok` finding if there is no other; return all findings."""
        if not self.findings:
            self._add("ok", message, None)
        return self.findings

    def _add(self, level: Level, message: str, fix: str | None) -> None:
        fix = None if fix is None else shown_path(fix)
        self.findings.append(Finding(self._check, level, self._agent, shown_path(message), fix))


class Tally:
    """Counter of names that keeps the first few."""

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


@dataclass(frozen=True, slots=True)
class Examination:
    """All findings. `usable` is false if memoryd could not start with the configuration."""

    findings: list[Finding]
    usable: bool

    @property
    def ok(self) -> bool:
        """True without errors; there may be warnings."""
        return not any(finding.level == "error" for finding in self.findings)


def as_json(examination: Examination) -> str:
    """Return one document."""
    document = {"ok": examination.ok, "findings": examination.findings}
    formatted = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return printable_json(formatted) + "\n"


def as_text(examination: Examination) -> str:
    """Return a line for each finding with its fix below, and the counts."""
    findings = examination.findings
    rows = [
        (
            _MARKS[finding.level],
            finding.check,
            "" if finding.agent is None else printable_name(finding.agent),
            one_line(finding.message),
        )
        for finding in findings
    ]
    lines = []
    for finding, line in zip(findings, table(rows), strict=True):
        lines.append(line)
        if finding.fix is not None:
            lines.append(f"   fix: {one_line(finding.fix)}")
    errors, warnings = (
        sum(finding.level == level for finding in findings) for level in ("error", "warning")
    )
    lines.append(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}")
    return "\n".join(lines) + "\n"
