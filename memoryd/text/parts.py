"""Parts of names and numbers that people search for: getUserById, +351 912 345 678, 🎉. Pure.

FTS5 finds words by their beginning. A name of several words, or a number with spaces in it, has
more beginnings: `userbyid`, `byid`, and `912345678`. The index has each as a word of its own that
begins with `PART`, so that it is no word of the text.
"""

import re
from collections.abc import Iterator

PART = "\ue000"
"""Character of private use, which FTS5 keeps inside words, before each part."""
EMOJI_MARK = "\ue001"
"""The same before the code of an emoji."""
_LEAST_CHARS, _MOST_PARTS = 3, 6
_LEAST_DIGITS = 5
"""Digits of a number with separators, and of its parts."""

EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}"  # flags
    "|[\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa"
    "\U0001f400-\U0001faff]"
)
"""Pattern of one emoji. Those of a sequence, such as a family, are found one by one."""
_EMOJI = re.compile(EMOJI)
_HUMP = re.compile("[A-Z](?<=[a-z0-9].)")
"""A capital inside a word. Capitals are rare, so the pattern begins with one, which is fast."""
_BETWEEN_HUMPS = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TO_THE_END = re.compile("[A-Za-z0-9]*")
_LONGEST_NAME = 64
_NUMBER = re.compile(r"[0-9]+(?:(?:[ .\-/\u00a0]|\) ?| \()[0-9][0-9A-Za-z]{0,7}){1,9}(?![^\W_])")
_DATE = re.compile(r"[0-9]{4}[-./][0-9]{2}[-./][0-9]{2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{4}")
_DIALLED = re.compile(r"\+([0-9]{9,15})(?![^\W_])")
_LETTERS_BEFORE = 3
"""Letters with which a number may begin, as an IBAN does."""
_COUNTRY_DIGITS = 3
_DIGITS = "0123456789"
_SEPARATORS = re.compile(r"[^0-9A-Za-z]+")


def parts_of(text: str) -> list[str]:
    """Return the words of the index for the parts of a text's names and numbers, in lower case."""
    found: list[str] = []
    for name in _names(text):
        found += _ends(_BETWEEN_HUMPS.split(name), _LEAST_CHARS)
    for groups in joined_numbers(text):
        found += ["".join(groups), *_ends(groups, _LEAST_DIGITS)]
    for dialled in _DIALLED.finditer(text):
        found += (dialled[1][start:] for start in range(1, _COUNTRY_DIGITS + 1))
    return [PART + part.lower() for part in dict.fromkeys(found)]


def _names(text: str) -> Iterator[str]:
    """Yield the words with a capital inside."""
    hump = _HUMP.search(text)
    while hump:
        start = hump.start()
        while start and text[start - 1].isalnum() and hump.start() - start < _LONGEST_NAME:
            start -= 1
        name = _TO_THE_END.match(text, start)
        end = max(hump.end(), name.end() if name else 0)
        if end - start <= _LONGEST_NAME and text[start].isascii():
            yield text[start:end]
        hump = _HUMP.search(text, end)


def joined_numbers(text: str) -> Iterator[list[str]]:
    """Yield the groups of each number that has separators, without dates."""
    if not any(map(text.__contains__, _DIGITS)):  # finding that out takes a pattern 20 µs
        return
    for match in _NUMBER.finditer(text):
        start = match.start()
        while start and text[start - 1].isalpha() and match.start() - start <= _LETTERS_BEFORE:
            start -= 1
        if match.start() - start > _LETTERS_BEFORE:
            start = match.start()
        number = text[start : match.end()]
        if sum(map(str.isdigit, number)) >= _LEAST_DIGITS and not _DATE.match(number):
            yield _SEPARATORS.split(number)


def _ends(pieces: list[str], least: int) -> list[str]:
    """Return what remains of joined pieces without the first ones."""
    ends = ("".join(pieces[start:]) for start in range(1, min(len(pieces), _MOST_PARTS + 1)))
    return [end for end in ends if len(end) >= least]


def with_emoji_words(text: str) -> str:
    """Replace the emoji of a text by words, because FTS5 would drop them."""
    return _EMOJI.sub(lambda match: f" {emoji_word(match[0])} ", text)


def is_emoji(text: str) -> bool:
    """Return whether a text is one emoji."""
    return _EMOJI.fullmatch(text) is not None


def emoji_word(emoji: str) -> str:
    """Return the index's word for an emoji."""
    return EMOJI_MARK + "".join(f"{ord(char):x}" for char in emoji)
