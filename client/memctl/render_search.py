"""Search results for people, best first: where, which note, and the lines that answer. Pure."""

import datetime as dt
import math
from collections.abc import Sequence
from typing import NamedTuple

from memoryd_client.schema.search import Explanation, Hit, SearchResult
from memoryd_client.shared.style import Style, printable, printable_name

NO_CLEAR_MATCH = "No clear match; nearest:"
MOST_MATCHES = 3
"""Lines of a snippet that are shown for their words; each has its neighbours around it."""
MOST_OF_WEAK = 3
"""Lines that are shown of a result without words of the query, if nothing matches clearly."""
_WEAK = ("none", "low")
_INDENT = "   "
_NARROWEST_COLUMNS = 20
"""Minimum columns for wrapping a snippet."""
_OWN = ("owner", "agent", "system", "")
"""Origins that are not mentioned; "": the daemon does not know them."""
_TAB_COLUMNS = 4
"""Tab width in a wrapped snippet."""
_Spans = Sequence[tuple[int, int]]
"""Positions of words of the query in a line, as (start, end) in characters."""


class _Line(NamedTuple):
    number: str
    text: str
    spans: _Spans


def search(result: SearchResult, style: Style, *, full: bool = False) -> str:
    """Return the results, each with its citation, scores and matching lines.

    `full` shows whole snippets instead of the lines that have the words of the query.
    """
    if not result.results:
        none = f"No matches yet: {result.first_index}." if result.first_index else "No matches."
        return "No match fits into --max-chars.\n" if result.omitted else f"{none}\n"
    weak = result.confidence in _WEAK
    most = None if full else MOST_OF_WEAK if weak else math.inf
    hits = [_hit(number, hit, style, most) for number, hit in enumerate(result.results, start=1)]
    head = f"{NO_CLEAR_MATCH}\n" if weak else ""
    return head + "\n".join(hits)


def _hit(number: int, hit: Hit, style: Style, most: float | None) -> str:
    place = printable_name(hit.path) + f":{_span(hit.snippet_start_line, hit.snippet_end_line)}"
    scores = [
        f"{name} {score:.2f}"
        for name, score in (("vector", hit.vector_score), ("text", hit.text_score))
        if score is not None
    ]
    head = f"{number}. {style.bold(place)}  {hit.score:.2f}"
    if scores:
        head += "  " + style.dim(f"({', '.join(scores)})")
    which = [_INDENT + name] if (name := _which(hit)) else []
    whose = [] if hit.origin in _OWN else [_INDENT + style.bold(_whose(hit))]
    source = [_INDENT + stated] if (stated := _source(hit)) else []
    why = [] if hit.explanation is None else _why(hit.explanation, style)
    return "\n".join([head, *which, *whose, *source, *why, *_snippet(hit, style, most)]) + "\n"


def _which(hit: Hit) -> str:
    """Return the title and the date of a result, without what its path or title says already.

    Of a transcript without its file, also since when that is gone.
    """
    name = hit.path.rpartition("/")[2].rpartition(".")[0]
    title = "" if hit.title == name else hit.title
    date = "" if hit.date in title or hit.date in name else hit.date
    kept = ""
    if hit.gone_at is not None:
        kept = f"kept, its file is gone since {dt.date.fromtimestamp(hit.gone_at)}"
    return " · ".join(printable_name(part) for part in (title, date, kept) if part)


def _whose(hit: Hit) -> str:
    """Return the origin of a stranger's words, with his name and the chat, or the sender."""
    names = " in ".join(printable_name(name) for name in (hit.speaker, hit.channel) if name)
    return f"{printable_name(hit.origin)} · {names}" if names else printable_name(hit.origin)


def _source(hit: Hit) -> str:
    """Return where an entry comes from and what it replaces, as far as it states that."""
    if not (hit.conversation or hit.supersedes):
        return ""
    stated = ("from", hit.conversation), ("observed", hit.observed), ("replaces", hit.supersedes)
    return " · ".join(f"{name} {printable_name(value)}" for name, value in stated if value)


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


def _snippet(hit: Hit, style: Style, most: float | None) -> list[str]:
    """Return lines of a snippet behind a gutter with line numbers; all, if `most` is None.

    `most` limits the lines of a snippet without words of the query.
    """
    lines = _lines(hit)
    width = max(len(line.number) for line in lines)
    room = None if style.columns is None else style.columns - len(_INDENT) - width - len(" │ ")
    return [
        f"{_INDENT}{style.dim(f'{gutter:>{width}} │')} {part}".rstrip()
        for line in (lines if most is None else _matching(lines, most))
        for gutter, part in _parts(line, room, style)
    ]


def _lines(hit: Hit) -> list[_Line]:
    texts = hit.snippet.removesuffix("\n").split("\n")
    numbers: list[str] = [str(hit.snippet_start_line + offset) for offset in range(len(texts))]
    # A transcript line can span several snippet lines; no number is better than a wrong one.
    if len(texts) != hit.snippet_end_line - hit.snippet_start_line + 1:
        numbers = [""] * len(texts)
    lines, at = [], 0
    for number, text in zip(numbers, texts, strict=True):
        spans = [(s - at, e - at) for s, e in hit.highlights or () if at <= s < e <= at + len(text)]
        lines.append(_Line(number, text.removesuffix("\r"), spans))
        at += len(text) + 1
    return lines


def _matching(lines: Sequence[_Line], most: float) -> Sequence[_Line]:
    """Return the lines that together have most words of the query, with a line around each.

    If none has any, the vectors found the snippet, and its first `most` lines are returned.
    """
    words = [{line.text[start:end].casefold() for start, end in line.spans} for line in lines]
    shown: set[int] = set()
    found: set[str] = set()
    for _ in range(MOST_MATCHES):
        best = max(range(len(lines)), key=lambda at: len(words[at] - found))
        if not words[best] - found:
            break
        found |= words[best]
        shown.update((best - 1, best, best + 1))
    if not shown:
        return lines[: int(min(most, len(lines)))]
    return [line for at, line in enumerate(lines) if at in shown and line.text.strip()]


def _parts(line: _Line, room: int | None, style: Style) -> list[tuple[str, str]]:
    """Return a line in parts of at most `room` columns; only the first has the number."""
    wrapped = room is not None and room >= _NARROWEST_COLUMNS

    def shown(text: str) -> str:
        return printable(text).expandtabs(_TAB_COLUMNS) if wrapped else printable(text)

    text = shown(line.text)
    spans = [
        (len(shown(line.text[:start])), len(shown(line.text[:end]))) for start, end in line.spans
    ]
    if room is None or not wrapped:
        return [(line.number, _marked(text, spans, style))]
    from memoryd_client.shared.text_width import wrap

    parts: list[tuple[str, str]] = []
    at = 0
    for part in wrap(text, room):
        at = text.index(part, at)
        end = at + len(part)
        inside = [(max(s, at) - at, min(e, end) - at) for s, e in spans if s < end and e > at]
        parts.append(("" if parts else line.number, _marked(part, inside, style)))
        at = end
    return parts


def _marked(text: str, spans: _Spans, style: Style) -> str:
    """Return a text with its spans in bold, where they don't overlap."""
    marked, at = "", 0
    for start, end in sorted(spans):
        if start >= at:
            marked += text[at:start] + style.bold(text[start:end])
            at = end
    return marked + text[at:]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
