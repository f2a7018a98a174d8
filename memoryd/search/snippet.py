"""The part of a chunk that answers: whole lines, with their own line range. Pure."""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

import snowballstemmer

from memoryd.terms import Term

_WORD = re.compile(r"[^\W_]+")
_stemmer = snowballstemmer.stemmer("porter")


class Snippet(NamedTuple):
    """Lines of a chunk; `start_line` and `end_line` are 1-based lines of the file, inclusive."""

    text: str
    start_line: int
    end_line: int


def cut(text: str, start_line: int, end_line: int, terms: list[Term], max_chars: int) -> Snippet:
    """Return the run of whole lines, at most `max_chars` long, that holds most of the terms.

    A term counts more the fewer lines of the chunk have it. Without any, it is the beginning. A
    single line that is too long is cut around its first term.
    """
    lines = text.split("\n")
    found = [_terms_in(line, terms) for line in lines]
    frequency = {term: sum(term in each for each in found) for each in found for term in each}
    first, last = _best_window(lines, found, frequency, max_chars)
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last].strip():
        last -= 1
    shown = "\n".join(lines[first : last + 1])
    if len(shown) > max_chars:
        shown = _cut_line(shown, terms, max_chars)
    return Snippet(shown, min(start_line + first, end_line), min(start_line + last, end_line))


def _best_window(
    lines: list[str], found: list[set[Term]], frequency: dict[Term, int], max_chars: int
) -> tuple[int, int]:
    best, best_score = (0, 0), (-1.0, -1.0)
    for first in range(len(lines)):
        last, size = first, len(lines[first])
        while last + 1 < len(lines) and size + 1 + len(lines[last + 1]) <= max_chars:
            last += 1
            size += 1 + len(lines[last])
        window = found[first : last + 1]
        distinct = sum(1.0 / frequency[term] for term in set[Term]().union(*window))
        total = sum(1.0 / frequency[term] for each in window for term in each)
        if (distinct, total) > best_score:
            best, best_score = (first, last), (distinct, total)
    return best


def _terms_in(line: str, terms: list[Term]) -> set[Term]:
    folded = _fold(line)
    stems = {_stem(word) for word in _WORD.findall(folded)}
    return {
        term
        for term in terms
        if (_fold(term.text) in folded if not term.text.isascii() else _stem(term.text) in stems)
        or _stem(_fold(term.text)) in stems
    }


def _fold(text: str) -> str:
    """Fold case, width and diacritics, as FTS5 does."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return unicodedata.normalize(
        "NFC", "".join(c for c in decomposed if not unicodedata.combining(c))
    )


@lru_cache(maxsize=32_768)
def _stem(word: str) -> str:
    return str(_stemmer.stemWord(word))


def _first_place(line: str, terms: list[Term]) -> int:
    """Return where in a line the first term begins, 0 where there is none."""
    stems = {_stem(_fold(term.text)) for term in terms}
    runs = [_fold(term.text) for term in terms if not term.text.isascii()]
    for word in _WORD.finditer(line):
        folded = _fold(word[0])
        if _stem(folded) in stems:
            return word.start()
        if places := [place for run in runs if (place := folded.find(run)) >= 0]:
            return word.start() + min(places)
    return 0


def _cut_line(line: str, terms: list[Term], max_chars: int) -> str:
    """Cut one long line around the place of its first term, on spaces where there are any."""
    start = max(0, _first_place(line, terms) - max_chars // 3)
    start = min(start, max(0, len(line) - max_chars))
    if start > 0:
        space = line.find(" ", start, start + 40)
        start = space + 1 if space >= 0 else start
        while start < len(line) and unicodedata.combining(line[start]):
            start += 1
    piece = line[start : start + max_chars]
    if start + max_chars < len(line) and (space := piece.rfind(" ", max_chars - 40)) > 0:
        piece = piece[:space]
    return piece
