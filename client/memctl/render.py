"""Text output of `memctl`, from results. Pure."""

import msgspec

from memoryd_client.schema.agents import (
    AddResult,
    AgentsResult,
    AgentSummary,
    DropResult,
    ReloadResult,
)
from memoryd_client.schema.memory import (
    Check,
    ConfigResult,
    Explanation,
    GetResult,
    Hit,
    IndexResult,
    PingResult,
    ProbeResult,
    SearchResult,
    SyncResult,
)
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared.humanize import counted, duration
from memoryd_client.shared.style import Style, one_line, printable, printable_name
from memoryd_client.wire.protocol import Body

Renderable = Body | list[StatusResult | AgentSummary]
"""One result, or the status of each agent: a summary if the agent can't answer."""

_INDENT = "   "
_NARROWEST_COLUMNS = 20
"""Minimum columns for wrapping a snippet."""
_OWN = ("owner", "agent", "system", "")
"""Origins that are not mentioned; "": the daemon does not know them."""
_TAB_COLUMNS = 4
"""Tab width in a wrapped snippet."""


def answer(result: Renderable, style: Style, *, terminal: bool) -> str:
    """Return the text of a result. `terminal`: the output goes to a terminal."""
    match result:
        case SearchResult():
            return search(result, style)
        case GetResult():
            return get(result, terminal=terminal)
        case list():
            from memctl.render_status import overview

            return overview(result, style)
        case IndexResult():
            return index(result)
        case SyncResult():
            return sync(result)
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
        case IndexResult() | SyncResult():
            return _warnings(result.warnings)
        case AgentsResult():
            # The row of a failed agent shows its reason.
            troubles = [(a, reason) for a in result.agents for reason in a.degraded]
            return _warnings([f"{a.agent}: {why}" for a, why in troubles if why != a.reason])
        case GetResult() if result.next_from is not None:
            return [f"more: memctl get {_shell_word(result.path)} --from {result.next_from}"]
        case _:
            return []


def _shell_word(path: str) -> str:
    """Return a path quoted for a shell and safe for a terminal."""
    from shlex import quote

    return printable_name(quote(path))


def _warnings(warnings: list[str]) -> list[str]:
    return [f"warning: {one_line(warning)}" for warning in warnings]


def search(result: SearchResult, style: Style) -> str:
    """Return the results, best first, each with its citation, scores and numbered snippet."""
    if not result.results:
        return "No match fits into --max-chars.\n" if result.omitted else "No matches.\n"
    hits = [_hit(number, hit, style) for number, hit in enumerate(result.results, start=1)]
    return "\n".join(hits)


def _hit(number: int, hit: Hit, style: Style) -> str:
    place = printable_name(hit.path) + f":{_span(hit.snippet_start_line, hit.snippet_end_line)}"
    scores = [
        f"{name} {score:.2f}"
        for name, score in (("vector", hit.vector_score), ("text", hit.text_score))
        if score is not None
    ]
    head = f"{number}. {style.bold(place)}  {hit.score:.2f}"
    if scores:
        head += "  " + style.dim(f"({', '.join(scores)})")
    whose = [] if hit.origin in _OWN else [_INDENT + style.bold(_whose(hit))]
    why = [] if hit.explanation is None else _why(hit.explanation, style)
    return "\n".join([head, *whose, *why, *_snippet(hit, style)]) + "\n"


def _whose(hit: Hit) -> str:
    """Return the origin of a stranger's words, with his name and the chat, or the sender."""
    names = " in ".join(printable_name(name) for name in (hit.speaker, hit.channel) if name)
    return f"{printable_name(hit.origin)} · {names}" if names else printable_name(hit.origin)


def _why(explanation: Explanation, style: Style) -> list[str]:
    """Return the parts of a result's score for `memctl search --explain`."""
    e = explanation
    words = (
        f"keywords: bm25 {e.bm25:.2f}, coverage {e.coverage:.2f}, adjacency {e.adjacency:.2f},"
        f" verbatim {e.verbatim:.2f}" + (f", title {e.title:.2f}" if e.title else "")
    ) + _rank(e.text_rank)
    meaning = "vector: none"
    if e.cosine is not None:
        meaning = f"vector: cosine {e.cosine:.2f}" + _rank(e.vector_rank)
    sum_ = f"strength {e.strength:.2f}, age factor {e.decay:.0%}"
    return [f"{_INDENT}{style.dim(line)}" for line in (words, meaning, sum_)]


def _rank(rank: int | None) -> str:
    return "" if rank is None else f" (rank {rank})"


def _snippet(hit: Hit, style: Style) -> list[str]:
    """Return the lines of a snippet behind a gutter with line numbers."""
    lines = printable(hit.snippet.removesuffix("\n")).split("\n")
    numbers: list[str] = [str(hit.snippet_start_line + offset) for offset in range(len(lines))]
    # A transcript line can span several snippet lines; no number is better than a wrong one.
    if len(lines) != hit.snippet_end_line - hit.snippet_start_line + 1:
        numbers = [""] * len(lines)
    width = max(len(number) for number in numbers)
    room = None if style.columns is None else style.columns - len(_INDENT) - width - len(" │ ")
    return [
        f"{_INDENT}{style.dim(f'{gutter:>{width}} │')} {part}".rstrip()
        for number, line in zip(numbers, lines, strict=True)
        for gutter, part in _parts(number, line, room)
    ]


def _parts(number: str, line: str, room: int | None) -> list[tuple[str, str]]:
    """Return a line in parts of at most `room` columns; only the first has the number."""
    if room is None or room < _NARROWEST_COLUMNS:
        return [(number, line)]
    from memoryd_client.shared.text_width import wrap

    first, *others = wrap(line.expandtabs(_TAB_COLUMNS), room)
    return [(number, first), *(("", part) for part in others)]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


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
