"""Token estimates in quarter tokens, and cutting of text that is too long for one chunk."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from unicodedata import category

# Lead bytes of UTF-8, grouped by what a character that starts with one weighs (see `weigh`).
# Continuation bytes and lighter characters are in none.
_WEIGHS_2 = bytes(range(0xD0, 0xD4))
_WEIGHS_3 = bytes([*range(0xC9, 0xD0), *range(0xD4, 0xE1)])
_WEIGHS_4 = bytes(range(0xE1, 0xF5))

_SURROGATE = re.compile("[\ud800-\udfff]")

_SENTENCE_END = re.compile(r"""[.!?]["')\]”’]*\s+|[。！？…।؟۔][」』）】"')\]”’]*""")
_WORD_ENDS = (" ", "\t", "\u3000", "，", "、", "；")

_WINDOW_CHARS = 64 * 1024

_JOINER = "\u200d"
# Parts of the preceding character, besides marks (category M): joiners, the vowels
# of Thai and Lao that Unicode counts as letters, trailing hangul jamo, half-width kana voice
# marks, skin tones, and the tags of flags.
_EXTENDS = re.compile(
    "[\u200c\u200d\u0e33\u0eb3\u1160-\u11ff\ud7b0-\ud7fb\uff9e\uff9f"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")


def weigh(text: str) -> int:
    """Return the estimated size of `text` in quarter tokens.

    A character's weight follows from its block (that is, from its UTF-8 lead byte):

    - 1: ASCII and accented Latin, to U+023F;
    - 2: Cyrillic, U+0400 to U+04FF;
    - 3: the other alphabets below U+1000: Greek, Armenian, Hebrew, Arabic, the Indic scripts,
      Thai, Lao, Tibetan; IPA and combining accents;
    - 4: all from U+1000: hangul and its jamo, kana, CJK ideographs and punctuation, full-width
      and half-width forms, typographic punctuation, symbols, box drawing, emoji with each of
      their joiners, selectors and modifiers; and the scripts that tokenizers rarely know
      (Myanmar, Georgian, Ethiopic, Khmer, …).

    Measured, in quarter tokens a character, cl100k / o200k: English 0.9 / 0.9, French 1.1 / 1.0
    (whole texts); Russian 1.8 / 1.0, Ukrainian 2.4 / 1.4, Greek 4.2 / 1.7, Arabic 3.4 / 1.6,
    Hebrew 4.9 / 2.3, Thai 3.9 / 1.8, Hindi 4.8 / 1.6, Georgian 8.4 / 1.7, Korean 4.6 / 2.9,
    Japanese 4.8 / 3.5, Chinese 5.2 / 3.4 (characters outside ASCII in translated program
    messages and encyclopedia prose); box drawing 4.2 / 3.8, emoji 10 / 5.7, typographic
    punctuation 4.6 / 4.6. So a chunk is about the size asked for, and on an older tokenizer
    twice that for the scripts it knows least.
    """
    if text.isascii():
        return len(text)
    utf8 = text.encode("utf-8", "surrogatepass")
    # A sum over the bytes would visit each in Python; deleting a class and comparing lengths
    # visits them in C.
    return (
        len(text)
        + (len(utf8) - len(utf8.translate(None, _WEIGHS_2)))
        + 2 * (len(utf8) - len(utf8.translate(None, _WEIGHS_3)))
        + 3 * (len(utf8) - len(utf8.translate(None, _WEIGHS_4)))
    )


def well_formed(text: str) -> str:
    """Return `text` with each lone surrogate as U+FFFD, so that it can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def pieces(text: str, *, units: int, max_bytes: int) -> Iterator[str]:
    """Yield consecutive parts of a line, made well-formed, each as long as both limits allow.

    A part weighs at most `units` quarter tokens and takes at most `max_bytes` in UTF-8, both at
    least 4. It ends after a sentence or else a word, if one ends in its second half. It never ends
    within a character as a reader sees it (a letter and its accents, an emoji family, a flag): one
    that weighs more than `units` is a part of its own. Only `max_bytes` cuts such a character,
    between code points.
    """
    # One character more than a part can have: it decides whether the part may end before it. No
    # call reads more than a window, because a call on millions holds up every other thread.
    ahead = max_bytes + 1
    size = max(_WINDOW_CHARS, 4 * ahead)
    position = 0
    while position < len(text):
        window = well_formed(text[position : position + size])
        is_last = position + len(window) == len(text)
        start = 0
        while start < len(window) and (is_last or start + ahead <= len(window)):
            end = _reach(window, start, units, max_bytes)
            if end < len(window):
                end = _cut(window, start, end, max_bytes)
            yield window[start:end]
            start = end
        position += start


def _reach(text: str, start: int, units: int, max_bytes: int) -> int:
    """Return the end of the longest part from `start` that keeps to both limits."""
    # No character weighs less than 1 or takes less than a byte.
    window = text[start : start + min(units, max_bytes)]
    if window.isascii():
        return start + len(window)
    lengths = range(1, len(window) + 1)
    length = bisect_right(lengths, units, key=lambda count: weigh(window[:count]))
    return start + _within_bytes(window[:length], max_bytes)


def _within_bytes(text: str, max_bytes: int) -> int:
    """Return how many of the first characters of `text` fit in `max_bytes` of UTF-8."""
    if 4 * len(text) <= max_bytes:
        return len(text)
    return len(text.encode()[:max_bytes].decode(errors="ignore"))


def _cut(text: str, start: int, end: int, max_bytes: int) -> int:
    """Return where to end the part that starts at `start` and may reach `end`."""
    best = _best_break(text, start, end)
    for at in range(best, start, -1):
        if _is_boundary(text, start, at):
            return at
    # One character fills the part: take all of it.
    last = min(len(text), start + max_bytes)
    after = next((at for at in range(best, last) if _is_boundary(text, start, at)), last)
    return start + _within_bytes(text[start:after], max_bytes)


def _best_break(text: str, start: int, end: int) -> int:
    middle = start + (end - start) // 2
    at = 0
    for match in _SENTENCE_END.finditer(text, middle, end):
        at = match.end()
    return at or max(text.rfind(mark, middle, end) for mark in _WORD_ENDS) + 1 or end


def _is_boundary(text: str, start: int, at: int) -> bool:
    """Return whether `text` may be cut before index `at`; `start` is an earlier boundary.

    Implements those of Unicode's grapheme cluster rules (UAX #29, GB6 to GB12) that need no
    table.
    """
    char = text[at]
    if text[at - 1] == _JOINER or _EXTENDS.match(char) or category(char)[0] == "M":
        return False
    if not _FLAG_LETTER.match(char):
        return True
    before = at
    while before > start and _FLAG_LETTER.match(text[before - 1]):
        before -= 1
    return (at - before) % 2 == 0


def wrapped(text: str, *, chars: int) -> Iterator[str]:
    """Yield consecutive lines of at most `chars` characters, cut at a space if possible.

    The space is dropped. A line never ends within a grapheme that fits in it.
    """
    start = 0
    while len(text) - start > chars:
        space = text.rfind(" ", start + 1, start + chars + 1)
        if space > start:
            yield text[start:space]
            start = space + 1
            continue
        end = start + chars
        end = next((at for at in range(end, start, -1) if _is_boundary(text, start, at)), end)
        yield text[start:end]
        start = end
    yield text[start:]
