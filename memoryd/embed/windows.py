"""Cuts a chunk into what a small model reads well: each window gets a vector of its own. Pure."""

import re

from memoryd.text.token_estimate import pieces, weigh

_LINE_UNITS = 200
"""A line that weighs more is taken apart into sentences."""
_SHORT_UNITS = 40
"""A sentence that weighs less stays with the next one."""
_MAX_BYTES = 8_000
_BEGINNING_CHARS = 20
"""So much of a window is how the text has it; further on, sentences may be joined anew."""
_SENTENCE = re.compile(r"""(?<=[.!?])\s+|(?<=[.!?]["')\]”’])\s+|(?<=[。！？…।؟۔])""")


def windows(text: str, units: int) -> list[str]:
    """Return a text in windows of at most `units` quarter tokens, whole lines or sentences each.

    Together they hold all of it that is no blank. At least one, the text itself if it fits.
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


def window_of_each_line(text: str, units: int) -> list[int]:
    """Return, for each line of a text, which of its windows the line begins in."""
    starts: list[int] = []
    at = 0
    for window in windows(text, units):
        at = max(at, text.find(window[:_BEGINNING_CHARS], at))
        starts.append(at)
    found: list[int] = []
    at = window_at = 0
    for line in text.split("\n"):
        while window_at + 1 < len(starts) and starts[window_at + 1] <= at:
            window_at += 1
        found.append(window_at)
        at += len(line) + 1
    return found


def _fragments(text: str, units: int) -> list[str]:
    """Return lines, and of long lines sentences, with what stands between them."""
    found: list[str] = []
    # Where windows are small, so is what they are made of.
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
