"""Words for dates in some forty languages, read from `date_words.json`.

`tools/date_words.py` makes that file from CLDR and describes the meanings.
"""

import json
import re
from functools import cache
from pathlib import Path
from sys import intern
from typing import NamedTuple

NUMBER = "<n>"
_TOKEN = re.compile(r"\d+|[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u0900-\u0d7f\u200c])*|[^\w\s]")


class Phrase(NamedTuple):
    """A phrase as tokens, of which `NUMBER` is any number, and its meanings."""

    tokens: tuple[str, ...]
    meanings: tuple[str, ...]


class DateWords(NamedTuple):
    """The table.

    `spaced` has the phrases of words between spaces by their first token, `unspaced` any others,
    of which each character is a token, both longest first. `after_number` has the phrases of
    `spaced` that begin with a number by their second token. `numbers` maps a word to its number. A
    word of `needs` is a date only near one of these words, one without any only with a year; a word
    of `blocked` is none behind one of these.
    """

    spaced: dict[str, list[Phrase]]
    after_number: dict[str, list[Phrase]]
    unspaced: dict[str, list[Phrase]]
    numbers: dict[str, int]
    needs: dict[str, frozenset[str]]
    blocked: dict[str, frozenset[str]]


def tokens_of(text: str) -> list[re.Match[str]]:
    """Return the words, numbers and punctuation marks of a text."""
    return list(_TOKEN.finditer(text))


@cache
def date_words() -> DateWords:
    """Return the table. The first call reads it from disk, in some 10 ms."""
    raw = json.loads(Path(__file__).with_name("date_words.json").read_text(encoding="utf-8"))
    spaced = _by_first(raw["spaced"])
    after_number: dict[str, list[Phrase]] = {}
    for phrase in spaced[NUMBER]:
        after_number.setdefault(phrase.tokens[1], []).append(phrase)
    return DateWords(
        spaced,
        after_number,
        _by_first(raw["unspaced"]),
        {word: int(n) for n, words in raw["numbers"].items() for word in words},
        {word: frozenset(near) for word, near in raw["needs"].items()},
        {word: frozenset(before) for word, before in raw["blocked"].items()},
    )


def _by_first(meanings: dict[str, list[str]]) -> dict[str, list[Phrase]]:
    """Return phrases, whose tokens stand between spaces in the file, by their first token."""
    found: dict[str, list[Phrase]] = {}
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}  # a few meanings have thousands of phrases
    for phrase, listed in meanings.items():
        tokens, meant = tuple(map(intern, phrase.split())), tuple(map(intern, listed))
        found.setdefault(tokens[0], []).append(Phrase(tokens, shared.setdefault(meant, meant)))
    for phrases in found.values():
        phrases.sort(key=lambda phrase: -len(phrase.tokens))
    return found
