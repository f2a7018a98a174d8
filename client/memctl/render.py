"""Text output of `memctl`, from results. Pure."""

from datetime import date

import msgspec

from memoryd_client.schema.agents import (
    AddResult,
    AgentsResult,
    AgentSummary,
    DropResult,
    ReloadResult,
)
from memoryd_client.schema.facts import FactForgetResult, FactRecallResult, FactStoreResult
from memoryd_client.schema.memory import (
    Check,
    ConfigResult,
    GetResult,
    IndexResult,
    PingResult,
    ProbeResult,
    SyncResult,
)
from memoryd_client.schema.notes import NoteResult
from memoryd_client.schema.promotion import PromoteResult
from memoryd_client.schema.recall import ContextResult, RecallResult
from memoryd_client.schema.search import SearchResult
from memoryd_client.schema.stale import StaleResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared.humanize import counted, duration
from memoryd_client.shared.style import Style, one_line, printable, printable_name
from memoryd_client.wire.protocol import Body

Renderable = Body | list[StatusResult | AgentSummary]
"""One result, or the status of each agent: a summary if the agent can't answer."""


def answer(result: Renderable, style: Style, *, terminal: bool, full: bool = False) -> str:
    """Return the text of a result.

    `terminal`: the output goes to a terminal. `full`: a search shows whole snippets, and candidates
    for MEMORY.md the parts of their scores.
    """
    match result:
        case SearchResult():
            from memctl.render_search import search

            return search(result, style, full=full)
        case ContextResult() | RecallResult():
            return printable(result.text) if terminal else result.text
        case GetResult():
            return get(result, terminal=terminal)
        case list():
            from memctl.render_status import overview

            return overview(result, style)
        case IndexResult():
            return index(result)
        case SyncResult():
            return sync(result)
        case NoteResult():
            from memctl import note

            return note.text(result)
        case StaleResult():
            from memctl import promotion

            return promotion.stale(result, style)
        case PromoteResult():
            from memctl import promotion

            return promotion.text(result, style, explain=full)
        case FactStoreResult() | FactRecallResult() | FactForgetResult():
            from memctl import facts

            return facts.text(result)
        case ConfigResult():
            return config(result, style)
        case ProbeResult():
            return probe(result, style)
        case AgentsResult() | AddResult() | DropResult() | ReloadResult():
            from memctl import render_agents

            return render_agents.answer(result, style)
        case PingResult():
            return ping(result)
        case _:
            raise TypeError(f"no text for {type(result).__name__}")


def remarks(result: Renderable) -> list[str]:
    """Return the remarks for stderr, one per line."""
    match result:
        case SearchResult():
            lines = _warnings(result.warnings)
            if result.omitted:
                more = counted(result.omitted, "more result")
                lines.append(f"{more} did not fit into --max-chars")
            if result.pending_files:
                files = counted(result.pending_files, "changed file")
                lines.append(f"warning: {files} not searchable yet")
            return lines
        case ContextResult():
            lines = _warnings(result.warnings)
            if result.omitted:
                more = counted(len(result.omitted), "section")
                lines.append(f"{more} did not fit: {one_line(', '.join(result.omitted))}")
            return lines if result.text else ["nothing to begin with", *lines]
        case RecallResult():
            lines = _warnings(result.warnings)
            return lines if result.entries else ["nothing fits with high confidence", *lines]
        case NoteResult():
            lines = ["a secret in the text was masked"] if result.masked else []
            return lines + _warnings(result.warnings)
        case PromoteResult():
            from memctl import promotion

            return promotion.remarks(result) + _warnings(result.warnings)
        case StaleResult():
            lines = [f"entries compared: {result.compared}"]
            return lines + _warnings(result.warnings)
        case FactStoreResult() | FactRecallResult() | FactForgetResult():
            from memctl import facts

            return facts.remarks(result)
        case IndexResult() | SyncResult():
            return _warnings(result.warnings)
        case AgentsResult():
            # The row of a failed agent shows its reason.
            troubles = [(a, reason) for a in result.agents for reason in a.degraded]
            return _warnings([f"{a.agent}: {why}" for a, why in troubles if why != a.reason])
        case GetResult():
            return _rest(result)
        case _:
            return []


def _rest(result: GetResult) -> list[str]:
    lines = []
    if result.gone_at is not None:
        day = date.fromtimestamp(result.gone_at)
        lines.append(f"note: the file of this transcript is gone since {day}; memoryd has kept it")
    if result.next_from is not None:
        lines.append(f"more: memctl get {_shell_word(result.path)} --from {result.next_from}")
    return lines


def _shell_word(path: str) -> str:
    """Return a path quoted for a shell and safe for a terminal."""
    from shlex import quote

    return printable_name(quote(path))


def _warnings(warnings: list[str]) -> list[str]:
    return [f"warning: {one_line(warning)}" for warning in warnings]


def get(result: GetResult, *, terminal: bool) -> str:
    """Return the file's text unchanged; on a terminal, without control characters."""
    text = printable(result.text) if terminal else result.text
    return text if not text or text.endswith("\n") else text + "\n"


def index(result: IndexResult) -> str:
    """Return the outcome of an `index` run."""
    text = (
        f"Memory index {'rebuilt' if result.rebuilt else 'updated'}: "
        f"{counted(result.files, 'file')} · {counted(result.chunks, 'chunk')} · "
        f"{result.embedded} embedded, {result.reused} reused · {result.seconds:.1f} s\n"
    )
    return text + _pending(result.pending_vectors)


def sync(result: SyncResult) -> str:
    """Return the searchable amount."""
    text = f"In sync: {counted(result.files, 'file')} · {counted(result.chunks, 'chunk')}\n"
    return text + _pending(result.pending_vectors)


def _pending(vectors: int) -> str:
    return f"{counted(vectors, 'vector')} pending\n" if vectors else ""


def config(result: ConfigResult, style: Style) -> str:
    """Return the settings, one per line, with their origins."""
    from memoryd_client.shared.text_width import column_width, pad

    keys = [printable_name(setting.key) for setting in result.values]
    values = [one_line(msgspec.json.encode(setting.value).decode()) for setting in result.values]
    key_width, value_width = column_width(keys), column_width(values)
    lines = [
        style.bold(f"Configuration ({printable_name(result.agent)})"),
        f"Files: {printable_name(', '.join(result.files)) or 'none'}",
    ]
    for key, value, setting in zip(keys, values, result.values, strict=True):
        origin = style.dim(printable_name(setting.origin))
        lines.append(f"{pad(key, key_width)} = {pad(value, value_width)}  {origin}")
    return "\n".join(lines) + "\n"


def probe(result: ProbeResult, style: Style) -> str:
    """Return a line for each check, with its hint below, if any."""
    from memoryd_client.shared.text_width import table

    lines = [style.bold(f"Probe ({printable_name(result.agent)})")]
    shown = table([_check(check) for check in result.checks])
    for check, line in zip(result.checks, shown, strict=True):
        lines.append(line)
        if check.hint:
            lines.append(f"   hint: {one_line(check.hint)}")
    if result.chosen_because is not None:
        lines.append(f"{printable_name(result.provider)}: {one_line(result.chosen_because)}")
    if result.candidates:
        lines.append("a new index would get:")
        rows = [("   " + c.provider, c.passed_over or "chosen") for c in result.candidates]
        lines += table([(printable_name(name), one_line(why)) for name, why in rows])
    return "\n".join(lines) + "\n"


def _check(check: Check) -> tuple[str, str, str]:
    if check.ok:
        mark, text = "✓", check.detail
    else:
        # A part that the configuration disables is no fault.
        mark, text = "✗" if check.required else "–", check.reason or check.detail
    return mark, printable_name(check.name), one_line(text)


def ping(result: PingResult) -> str:
    """Return the version, pid and uptime of the daemon."""
    version, up = printable_name(result.version), duration(result.uptime_s)
    return f"memoryd {version} is up: pid {result.pid}, {up}\n"
