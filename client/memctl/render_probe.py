"""Text output of `memctl probe`. Pure."""

from memoryd_client.schema.memory import Check, ProbeResult
from memoryd_client.shared.style import Style, one_line, printable_name
from memoryd_client.shared.text_width import table


def probe(result: ProbeResult, style: Style) -> str:
    """Return a line for each check, with its hint below, if any."""
    lines = [style.bold(f"Probe ({printable_name(result.agent)})")]
    shown = table([_row(check) for check in result.checks])
    for check, line in zip(result.checks, shown, strict=True):
        lines.append(line)
        if check.hint:
            lines.append(f"   hint: {one_line(check.hint)}")
    if result.chosen_because is not None:
        lines.append(f"{printable_name(result.provider)}: {one_line(result.chosen_because)}")
    if result.candidates:
        lines.append("auto would choose now:")
        rows = [("   " + c.provider, c.passed_over or "chosen") for c in result.candidates]
        lines += table([(printable_name(name), one_line(why)) for name, why in rows])
    return "\n".join(lines) + "\n"


def _row(check: Check) -> tuple[str, str, str]:
    if check.ok:
        mark, text = "✓", check.detail
    else:
        # A part that the configuration disables is no fault.
        mark, text = "✗" if check.required else "–", check.reason or check.detail
    return mark, printable_name(check.name), one_line(text)
