"""The commands `memctl promote` and `memctl stale`."""

from memctl.arguments import Arguments
from memoryd_client.client import Client
from memoryd_client.schema.promotion import PromoteResult, PromotionCandidate
from memoryd_client.schema.stale import StaleResult
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import Style, one_line, printable_name

_ID_CHARS = 12
"""Length of an id; a shorter number is no id but a number of candidates."""


def ask(client: Client, arguments: Arguments) -> PromoteResult:
    """Ask for the candidates, the first N or that with an id, or have them added."""
    word = arguments.words[0] if arguments.words else None
    is_number = word is not None and word.isdecimal() and len(word) < _ID_CHARS
    return client.promote(
        apply=arguments.apply,
        candidate=None if is_number else word,
        limit=int(word) if word is not None and is_number else None,
        timeout_s=arguments.timeout_s,
    )


def text(result: PromoteResult, style: Style, *, explain: bool) -> str:
    """Return the candidates, with `explain` all entries, or the citations of what was added."""
    if result.applied:
        return "".join(
            f"{printable_name(each.citation)}  from {printable_name(each.source)}\n"
            for each in result.applied
        )
    shown = [each for each in result.candidates if explain or not each.missed]
    return "".join(_candidate(each, style, explain=explain) for each in shown)


def remarks(result: PromoteResult) -> list[str]:
    """Return the lines for standard error."""
    lines = [
        f"not added: {printable_name(each.source)}: {one_line(each.reason)}"
        for each in result.refused
    ]
    ready = sum(not each.missed for each in result.candidates)
    if not (ready or result.applied or result.refused):
        lines.append("no candidates")
    if others := len(result.candidates) - ready:
        lines.append(f"recalled, but no candidates: {others}; --explain shows why")
    if result.omitted:
        lines.append(f"{result.omitted} more: name a larger number")
    if not result.tracking:
        lines.append("recalls are not counted: promotion.tracking is off")
    return lines


def stale(result: StaleResult, style: Style) -> str:
    """Return the entries, each with the newer lines that contradict it below."""
    blocks: list[str] = []
    for entry in result.entries:
        lines = _cited(style.bold(printable_name(entry.citation)), entry.date, entry.text, "")
        for newer in entry.newer:
            lines += _cited(printable_name(newer.citation), newer.date, newer.text, "  ")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _cited(citation: str, date: str, text: str, indent: str) -> list[str]:
    shown = [f"{indent}    {one_line(line)}" for line in text.split("\n")]
    return [f"{indent}{citation}  {printable_name(date) or 'without a date'}", *shown]


def _candidate(candidate: PromotionCandidate, style: Style, *, explain: bool) -> str:
    title = style.bold(printable_name(candidate.citation))
    lines = [f"{candidate.id}  {candidate.score:.2f}  {title}"]
    if candidate.text:
        lines += [f"    {one_line(line)}" for line in candidate.text.split("\n")]
    if explain:
        parts = candidate.parts
        named = {name: getattr(parts, name) for name in parts.__struct_fields__}
        numbers = (
            counted(candidate.recalls, "recall"),
            counted(candidate.questions, "question"),
            counted(candidate.days, "day"),
        )
        lines.append("    " + " · ".join(f"{name} {value:.2f}" for name, value in named.items()))
        lines.append(f"    {', '.join(numbers)}")
        if candidate.missed:
            lines.append(f"    no candidate: {one_line('; '.join(candidate.missed))}")
    return "\n".join(lines) + "\n"
