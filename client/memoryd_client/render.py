"""What `memctl` prints for people. Pure: results in, text out."""

import msgspec

from memoryd_client.bodies import (
    ConfigResult,
    GetResult,
    Hit,
    IndexResult,
    PingResult,
    SearchResult,
    SyncResult,
)
from memoryd_client.protocol import Body
from memoryd_client.status import StatusResult
from memoryd_client.style import Style, printable
from memoryd_client.units import duration

_INDENT = "   "


def answer(result: Body, style: Style, *, terminal: bool) -> str:
    """Return the text for an operation's result. `terminal`: a person reads it right away."""
    match result:
        case SearchResult():
            return search(result, style)
        case GetResult():
            return get(result, terminal=terminal)
        case StatusResult():
            from memoryd_client.status_text import status

            return status(result, style)
        case IndexResult():
            return index(result)
        case SyncResult():
            return sync(result)
        case ConfigResult():
            return config(result, style)
        case PingResult():
            return ping(result)
        case _:
            raise TypeError(f"no text for {type(result).__name__}")


def remarks(result: Body) -> list[str]:
    """Return what is to be said beside the result, a line each."""
    match result:
        case SearchResult():
            lines = _warnings(result.warnings)
            if result.stale:
                files = _count(result.pending_files, "changed file")
                lines.append(f"warning: {files} not searchable yet")
            return lines
        case IndexResult() | SyncResult():
            return _warnings(result.warnings)
        case GetResult() if result.next_from is not None:
            return [f"more: memctl get {printable(result.path)} --from {result.next_from}"]
        case _:
            return []


def _warnings(warnings: list[str]) -> list[str]:
    return [f"warning: {printable(warning)}" for warning in warnings]


def search(result: SearchResult, style: Style) -> str:
    """Return the hits, best first, each with its place, scores and numbered snippet."""
    if not result.results:
        return "No matches.\n"
    hits = [_hit(number, hit, style) for number, hit in enumerate(result.results, start=1)]
    return "\n".join(hits)


def _hit(number: int, hit: Hit, style: Style) -> str:
    place = printable(f"{hit.path}:{_span(hit.snippet_start_line, hit.snippet_end_line)}")
    legs = [
        f"{name} {score:.2f}"
        for name, score in (("vector", hit.vector_score), ("text", hit.text_score))
        if score is not None
    ]
    head = f"{number}. {style.bold(place)}  {hit.score:.2f}"
    if legs:
        head += "  " + style.dim(f"({', '.join(legs)})")
    return "\n".join([head, *_gutter(hit, style)]) + "\n"


def _gutter(hit: Hit, style: Style) -> list[str]:
    lines = printable(hit.snippet.removesuffix("\n")).split("\n")
    numbers: list[str] = [str(hit.snippet_start_line + offset) for offset in range(len(lines))]
    # A line of a transcript can span several lines of a snippet: no number is better than a
    # wrong one.
    if len(lines) != hit.snippet_end_line - hit.snippet_start_line + 1:
        numbers = [""] * len(lines)
    width = max(len(number) for number in numbers)
    return [
        f"{_INDENT}{style.dim(f'{number:>{width}} │')} {line}".rstrip()
        for number, line in zip(numbers, lines, strict=True)
    ]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def get(result: GetResult, *, terminal: bool) -> str:
    """Return the file's text as it is; on a terminal, without control characters."""
    text = printable(result.text) if terminal else result.text
    return text if not text or text.endswith("\n") else text + "\n"


def index(result: IndexResult) -> str:
    """Return what an `index` run did."""
    text = (
        f"Memory index {'rebuilt' if result.rebuilt else 'updated'}: "
        f"{_count(result.files, 'file')} · {_count(result.chunks, 'chunk')} · "
        f"{result.embedded} embedded, {result.reused} reused · {result.seconds:.1f} s\n"
    )
    return text + _pending(result.pending_vectors)


def sync(result: SyncResult) -> str:
    """Return what is searchable now."""
    text = f"In sync: {_count(result.files, 'file')} · {_count(result.chunks, 'chunk')}\n"
    return text + _pending(result.pending_vectors)


def _pending(vectors: int) -> str:
    return f"{_count(vectors, 'vector')} still to come\n" if vectors else ""


def config(result: ConfigResult, style: Style) -> str:
    """Return the settings, one a line, with where each comes from."""
    rows = [
        (v.key, printable(msgspec.json.encode(v.value).decode()), printable(v.origin))
        for v in result.values
    ]
    keys = max((len(key) for key, _, _ in rows), default=0)
    values = max((len(value) for _, value, _ in rows), default=0)
    lines = [
        style.bold(f"Configuration ({result.agent})"),
        f"Files: {printable(', '.join(result.files)) or 'none'}",
        *(f"{key:<{keys}} = {value:<{values}}  {style.dim(origin)}" for key, value, origin in rows),
    ]
    return "\n".join(lines) + "\n"


def ping(result: PingResult) -> str:
    """Return who answered."""
    return f"memoryd {result.version} is up: pid {result.pid}, {duration(result.uptime_s)}\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
