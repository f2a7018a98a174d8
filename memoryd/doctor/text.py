"""The findings as people and programs read them."""

import msgspec

from memoryd.doctor.examine import Examination
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import one_line, printable_name
from memoryd_client.shared.text_width import table

_MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


def as_json(examination: Examination) -> str:
    """Return one document."""
    document = {"ok": examination.ok, "findings": examination.findings}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def as_text(examination: Examination) -> str:
    """Return a line for each finding, what to do below it, and the counts."""
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
