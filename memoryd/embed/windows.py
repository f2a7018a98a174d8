"""Cutting of chunks into windows for a small model, each with its own vector. Pure."""

import re
from bisect import bisect_right
from functools import lru_cache

from memoryd.text.token_estimate import pieces, weigh

_LINE_UNITS = 200
"""Quarter tokens; a longer line is split into sentences."""
_SHORT_UNITS = 40
"""Quarter tokens; a shorter sentence stays with the next one."""
_MAX_BYTES = 8_000
REMEMBERED_TEXTS = 1_024
"""Chunks whose windows are cached: the same ones are found again and again. At most 4 MiB."""
_BEGINNING_CHARS = 20
"""Characters at the start of a window that match the text; later whitespace may differ."""
_SENTENCE = re.compile(r"""(?<=[.!?])\s+|(?<=[.!?]["')\]”’])\s+|(?<=[。！？…।؟۔])""")


def windows(text: str, units: int) -> list[str]:
    """Return windows of at most `units` quarter tokens, made of whole lines or sentences.

    Together they contain all text but blanks. At least one window; the text itself if it fits.
    """
    if weigh(text) <= units:
        return [text]
    made: list[str] = []
    current, size = "", 0
    for fragment in _fragments(text, units):
        weight = weigh(fragment)
        if current and size + weight > units:
            made.append(current.rstrip("\n"))
            current, size = "", 0
        current += fragment
        size += weight
    if current.strip():
        made.append(current.rstrip("\n"))
    return made or [text]


@lru_cache(maxsize=REMEMBERED_TEXTS)
def window_of_each_line(text: str, units: int) -> tuple[int, ...]:
    """Return, for each line of a text, the number of the window in which it begins."""
    starts: list[int] = []
    at = 0
    for window in windows(text, units):
        at = max(at, text.find(window[:_BEGINNING_CHARS], at))
        starts.append(at)
    found: list[int] = []
    at = 0
    for line in text.split("\n"):
        found.append(max(0, bisect_right(starts, at) - 1))
        at += len(line) + 1
    return tuple(found)


def _fragments(text: str, units: int) -> list[str]:
    """Return lines, and the sentences of long lines, with their separators."""
    found: list[str] = []
    # Small windows need small fragments.
    line_units, short_units = min(_LINE_UNITS, units), min(_SHORT_UNITS, units // 4)
    for line in text.split("\n"):
        if not line.strip():
            continue
        if weigh(line) <= line_units:
            found.append(f"{line}\n")
            continue
        parts = [""]
        for sentence in _SENTENCE.split(line):
            for piece in pieces(sentence, units=max(4, units // 2), max_bytes=_MAX_BYTES):
                if parts[-1] and weigh(parts[-1]) >= short_units:
                    parts.append("")
                parts[-1] += f" {piece}" if parts[-1] else piece
        parts[-1] += "\n"
        found += parts
    return found
