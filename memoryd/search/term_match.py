"""Finds the terms of a question in texts, as FTS5 matches them: folded and stemmed. Pure."""

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

import snowballstemmer

from memoryd.text.tokenize import SPACED_WORD, Term, is_unspaced

REMEMBERED_STEMS = 4_096
"""1 MiB at most. A search stems 100 words; at 1,024 remembered ones it knows 96 of them."""
_LEAST_STEMMED_BYTES, _MOST_STEMMED_BYTES = 3, 64
"""Of fts5_tokenize.c, in UTF-8."""
_BLY, _LOGY = re.compile(r"[aeiouy][^aeiou].*bli$"), re.compile(r"[aeiouy][^aeiou].*logi$")
_DOUBLED = re.compile(r"([ckvwx])\1$")
"""What Porter's own program, and FTS5, stem further than Snowball's `porter` does: `possibly` as
`possible`, `biology` as `biological`, `trekking` as `trek`."""
_stemmer = snowballstemmer.stemmer("porter")
_stemming = threading.Lock()
"""The stemmer keeps the word it is at in itself, and several searches stem at the same time."""


class TermPosition(NamedTuple):
    """Where a term stands in a folded text: characters from `start` to `end`."""

    start: int
    end: int


class Finder:
    """Looks for a question's terms. A text is only looked at closely where a stem begins."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms = tuple(terms)
        self._needles = [_needle(term) for term in self.terms]

    def places(self, folded: str) -> list[list[TermPosition]]:
        """Return where each term stands in a text that has been through `fold`."""
        return [
            _runs(folded, needle) if stem is None else _words(folded, needle, stem)
            for needle, stem in self._needles
        ]


def fold(text: str) -> str:
    """Fold case, width and diacritics, as FTS5 does; diacritics of more scripts than Latin too.

    In scripts without spaces marks stay: there they make another letter, and two make a bigram.
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).lower()
    return unicodedata.normalize(
        "NFC", "".join(c for c in decomposed if not unicodedata.combining(c) or is_unspaced(c))
    )


@lru_cache(maxsize=REMEMBERED_STEMS)
def stem(word: str) -> str:
    """Return Porter's stem of a folded word; FTS5 leaves very short and very long ones alone."""
    if not _LEAST_STEMMED_BYTES <= len(word.encode()) <= _MOST_STEMMED_BYTES:
        return word
    stemmed = _porter(word)
    if _BLY.search(stemmed):
        return _porter(stemmed[:-1] + "e")
    if _LOGY.search(stemmed):
        return stemmed[:-1]
    if word in (f"{stemmed}ed", f"{stemmed}ing") and _DOUBLED.search(stemmed):
        return stemmed[:-1]
    return stemmed


def _porter(word: str) -> str:
    with _stemming:
        return str(_stemmer.stemWord(word))


def _needle(term: Term) -> tuple[str, str | None]:
    """Return what every form of a term begins with, and its stem; None for runs of unspaced text.

    Porter's stem is how all forms begin, but for a last `i` or `e` that it may have put there, and
    the `l` of `possibl`, which stands for `possibility` too.
    """
    text = fold(term.text)
    if term.prefix or any(map(is_unspaced, text)):
        return text, None
    stemmed = stem(text)
    put = 1 if stemmed.endswith(("i", "e", "bl")) else 0
    return stemmed[: len(stemmed) - put] or stemmed, stemmed


def _words(text: str, needle: str, stemmed: str) -> list[TermPosition]:
    found = []
    at = text.find(needle) if needle else -1
    while at >= 0:
        end = at + len(needle)
        if at == 0 or not _is_letter(text[at - 1]):
            end = max(end, _word_end(text, at))
            if stem(text[at:end]) == stemmed:
                found.append(TermPosition(at, end))
        at = text.find(needle, end)
    return found


def _word_end(text: str, start: int) -> int:
    """Return where a word ends; marks, such as the vowel signs of Hindi, are a part of it."""
    end = start
    while (more := SPACED_WORD.match(text, end)) is not None:
        end = more.end()
        while end < len(text) and not text[end].isascii() and category(text[end])[0] == "M":
            end += 1
    return end


def _is_letter(char: str) -> bool:
    """Say whether a character belongs to the word behind it; one of an unspaced script doesn't."""
    return char.isalnum() and not (not char.isascii() and is_unspaced(char))


def _runs(text: str, needle: str) -> list[TermPosition]:
    found = []
    at = text.find(needle)
    while at >= 0:
        found.append(TermPosition(at, at + len(needle)))
        at = text.find(needle, at + 1)
    return found
