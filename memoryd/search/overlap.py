"""Words that a message shares with an entry: how rare they are, and which are names. Pure.

A message says much that no note has, so the shares of its weight that a search compares say little
here. The words that are there count by themselves.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.search.evidence import Question
from memoryd.search.lexical import Corpus
from memoryd.search.text_match import Finder, TermPosition
from memoryd.text.fold import fold, is_unspaced

PAIR = 0.8
"""Weight of a pair of characters in a script without spaces: a word has about one and a half."""
IN_TITLE = 0.5
"""Weight of a word that only the headings or the path have."""
_CAPITAL = re.compile(r"[^\W\d_][^\W_]*")
_START = re.compile(r"(?:^|[.!?…:;\n]|[-*+•] )[\s\"'“”„«»¿¡(\[]*$")
_BEFORE_CHARS = 6


class Overlap(NamedTuple):
    """Shared words. `words` is their weight, 1 for the rarest possible word; `names` that of names.

    `share` is the share of the message's weight.
    """

    words: float
    names: float
    share: float


NO_OVERLAP = Overlap(0.0, 0.0, 0.0)


class Comparer:
    """Compares one message with entries."""

    def __init__(self, message: str, question: Question, corpus: Corpus) -> None:
        self._finder = Finder(question.terms, corpus.forms, corpus.parts)
        one = corpus.idf(1) or 1.0
        self._weights = [
            corpus.weight(term) / one * (PAIR if is_unspaced(term.text[0]) else 1.0)
            for term in question.terms
        ]
        self._total = sum(self._weights) or 1.0
        self._capital, self._name = _capitals(message)
        self._of_titles: dict[str, list[list[TermPosition]]] = {}

    def compare(self, text: str, title: str) -> Overlap:
        """Return what the message shares with an entry below a title."""
        folded = fold(text)
        places = self._finder.places(folded)
        above = self._of_titles.get(title)
        if above is None:
            above = self._of_titles[title] = self._finder.places(fold(title))
        if not any(places) and not any(above):
            return NO_OVERLAP
        capital, name = _capitals(text)
        words = names = 0.0
        for term, weight, here, there in zip(
            self._finder.terms, self._weights, places, above, strict=True
        ):
            value = weight * max(_share(here), IN_TITLE * _share(there))
            words += value
            found = {folded[place.start : place.end] for place in here}
            if (term.text in self._capital and found & name) or (
                term.text in self._name and found & capital
            ):
                names += value
        return Overlap(words, names, words / self._total)


def _share(places: Sequence[TermPosition]) -> float:
    return max((place.share for place in places), default=0.0)


@lru_cache(maxsize=4_096)
def _capitals(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words with a capital, folded, and those of them that do not begin a sentence."""
    capital: set[str] = set()
    inside: set[str] = set()
    for word, start in _with_capital(text):
        folded = fold(word)
        capital.add(folded)
        if not _START.search(text[max(0, start - _BEFORE_CHARS) : start]):
            inside.add(folded)
    return frozenset(capital), frozenset(inside)


def _with_capital(text: str) -> Iterator[tuple[str, int]]:
    for match in _CAPITAL.finditer(text):
        if match[0][0].isupper():
            yield match[0], match.start()
