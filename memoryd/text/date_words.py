"""Words for dates in some forty languages, read from `date_words.json`.

`tools/date_words.py` makes that file from CLDR and describes the meanings.
"""

import json
import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from memoryd.text.fold import is_unspaced

NUMBER = "<n>"
_TOKEN = re.compile(r"\d+|[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u0900-\u0d7f\u200c])*|[^\w\s]")
_FOLDED_LETTERS = 5
"""Latin words of so many letters are known without their accents too."""


class Phrase(NamedTuple):
    """A phrase as tokens, of which `NUMBER` is any number, and its meanings."""

    tokens: tuple[str, ...]
    meanings: tuple[str, ...]


class DateWords(NamedTuple):
    """The table.

    `spaced` has the phrases of words between spaces by their first token, `unspaced` any others,
    of which each character is a token, both longest first. `numbers` maps a word to its number. A
    word of `needs` is a date only near one of these words, one without any only with a year; a word
    of `blocked` is none behind one of these.
    """

    spaced: dict[str, list[Phrase]]
    unspaced: dict[str, list[Phrase]]
    numbers: dict[str, int]
    needs: dict[str, frozenset[str]]
    blocked: dict[str, frozenset[str]]


def tokens_of(text: str) -> list[re.Match[str]]:
    """Return the words, numbers and punctuation marks of a text."""
    return list(_TOKEN.finditer(text))


@cache
def date_words() -> DateWords:
    """Return the table. Reads it from disk at the first call: takes some 20 ms."""
    raw = json.loads((files("memoryd.text") / "date_words.json").read_text(encoding="utf-8"))
    numbers = {word: int(n) for n, words in raw["numbers"].items() for word in words}
    spaced: dict[str, list[Phrase]] = {}
    unspaced: dict[str, list[Phrase]] = {}
    for text, meanings in raw["phrases"].items():
        if any(map(is_unspaced, text)):
            parts = tuple(re.findall(f"{NUMBER}|\\S", text))
            unspaced.setdefault(parts[0], []).append(Phrase(parts, tuple(meanings)))
            continue
        for form in {text, _folded(text)}:
            marked = form.replace(NUMBER, " 0 ")
            tokens = tuple(NUMBER if m[0] == "0" else m[0] for m in tokens_of(marked))
            spaced.setdefault(tokens[0], []).append(Phrase(tokens, tuple(meanings)))
    for found in (*spaced.values(), *unspaced.values()):
        found.sort(key=lambda phrase: -len(phrase.tokens))
    return DateWords(
        spaced,
        unspaced,
        numbers,
        {word: frozenset(near) for word, near in raw["needs"].items()},
        {word: frozenset(before) for word, before in raw["blocked"].items()},
    )


def _folded(text: str) -> str:
    """Return a text as people type it without accents; short Latin words keep theirs."""
    return re.sub(r"[^\W\d_]+", _fold_word, text)


def _fold_word(match: re.Match[str]) -> str:
    word = match[0]
    if word[0] < "\u0300" and len(word) < _FOLDED_LETTERS:
        return word
    apart = unicodedata.normalize("NFD", word)
    # Vowel signs of Indian scripts are letters, not accents.
    return "".join(
        c for c in apart if not "\u0300" <= c <= "\u036f" and not "\u0653" <= c <= "\u0655"
    )
