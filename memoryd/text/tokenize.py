"""Conversion of text to search terms, identical for the index and for queries.

`fold` decides which letters are the same; FTS5's `porter unicode61` tokenizer does words and
English stems. Scripts without spaces between words (Chinese, Japanese, Korean, Thai and others) are
cut into overlapping bigrams before FTS5 sees them; measured on Chinese questions, bigrams find 0.99
in the top five, trigrams 0.93 and plain `unicode61` nothing.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from memoryd.text.fold import UNSPACED, UNSPACED_RUN, WORD_PART, fold
from memoryd.text.language import function_words, most_function_words
from memoryd.text.pairs import language_of_runs, pair_weights
from memoryd.text.parts import (
    EMOJI,
    emoji_word,
    is_emoji,
    joined_numbers,
    parts_of,
    with_emoji_words,
)

TOKENIZER = "porter-bigram-parts-2"
"""Part of an index's identity; change it whenever the functions below yield other terms."""

FTS5_TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
"""Marks are kept inside words: without `M*` the vowel signs of Hindi or Thai would split them."""

MAX_QUERY_TERMS = 64
REMEMBERED_QUERIES = 64
"""Queries and their parts whose terms are cached: a search reads a short query several times."""
NO_FORMS: Mapping["Term", tuple[str, ...]] = MappingProxyType({})
"""No term has other forms."""

_QUERY_WORD = re.compile(f"([{UNSPACED}]+)|({EMOJI})|({WORD_PART}(?:['’]{WORD_PART})?)")

CONTRACTED = frozenset({"s", "t", "d", "m", "re", "ll", "ve"})
_ELIDED_CHARS = 2
"""Longest beginning that is left out before an apostrophe: `l'`, `d'`, `qu'`, `O'` of names."""


GROUP_OF_DIGITS = 0.3
"""Weight of the groups of a number with separators, which is a term as a whole too."""


class Term(NamedTuple):
    """Search term. With `prefix`, it matches every word that starts with `text`.

    `weight`, 0 to 1, is a factor on its rarity: below 1 for pairs with parts of function words
    and for groups of a number.
    """

    text: str
    prefix: bool = False
    weight: float = 1.0


def index_text(text: str) -> str:
    """Return the FTS5 input for a text: its words, and the parts of its names and numbers."""
    words = index_words(text)
    parts = parts_of(text)
    return f"{words}\n{' '.join(parts)}" if parts else words


def index_words(text: str) -> str:
    """Return the words of a text for FTS5: folded, with unspaced scripts cut into bigrams.

    A run `abc` becomes `ab bc c`: the last character also stands alone, so that a one-character
    query finds every occurrence as a prefix.
    """
    if text.isascii():
        return text
    return UNSPACED_RUN.sub(_spread, with_emoji_words(fold(text)))


def fts_columns(text: str, path: str, heading: str, named: str = "") -> tuple[str, str]:
    """Return the two FTS columns of a chunk: its text, and its path with its headings.

    `named` are the properties of its file that are searched, one a line.
    """
    context = f"{path.removesuffix('.md')}\n{heading}" + (f"\n{named}" if named else "")
    return index_text(text), index_text(context)


def _spread(match: re.Match[str]) -> str:
    run = match[0]
    return f" {' '.join(run[i : i + 2] for i in range(len(run)))} "


def query_terms(query: str) -> list[Term]:
    """Return the distinct terms of a query, without stop words unless it has nothing else.

    Numbers with separators are also terms without these. Anything that looks like an operator
    (`"`, `*`, `NEAR(`, `-x`, `a:b`) is plain text.
    """
    joined = [Term("".join(groups)) for groups in joined_numbers(fold(query))]
    return list(dict.fromkeys([*query_sequence(query), *joined]))[:MAX_QUERY_TERMS]


@lru_cache(maxsize=REMEMBERED_QUERIES)
def query_sequence(query: str) -> tuple[Term, ...]:
    """Return the terms of a query in order, chosen as in `query_terms`."""
    folded = fold(query)
    groups = {group for number in joined_numbers(folded) for group in number}
    found: list[str | list[Term]] = []
    for match in _QUERY_WORD.finditer(folded.translate(_SPACED)):
        if run := match[1]:
            found.append(_pairs(run, language_of_runs(folded)))
        elif emoji := match[2]:
            found.append([Term(emoji)])
        else:
            found.append(match[3].replace("’", "'"))
    words = [word for word in found if isinstance(word, str)]
    stop = function_words(most_function_words(query))
    has_only_words = len(words) == len(found)
    if has_only_words and stop.issuperset(words):
        stop = frozenset()
    terms: list[Term] = []
    for each in found:
        if isinstance(each, list):
            terms += each
        elif each not in stop:
            terms += [
                Term(part, False, GROUP_OF_DIGITS if part in groups else 1.0)
                for part in _parts(each)
                if part not in stop
            ]
    return tuple(terms) if has_only_words and not groups else _weighed_once(terms)


def _weighed_once(terms: list[Term]) -> tuple[Term, ...]:
    """Give a pair that occurs several times its highest weight everywhere."""
    most: dict[tuple[str, bool], float] = {}
    for term in terms:
        most[term[:2]] = max(term.weight, most.get(term[:2], 0.0))
    return tuple(Term(*term[:2], most[term[:2]]) for term in terms)


class _Spaced(dict[int, str]):
    """Each character as it separates words, computed when it first occurs."""

    def __missing__(self, code: int) -> str:
        self[code] = spaced = _spaced(chr(code))
        return spaced


_SPACED = _Spaced()


def _spaced(char: str) -> str:
    """Return a character as it separates words: blank unless it is part of a word or an emoji."""
    if char.isalnum() or char in "'’" or unicodedata.category(char)[0] == "M":
        return char
    if is_emoji(char):
        return f" {char} "
    return char if is_emoji(2 * char) else " "  # half of a flag


def _parts(word: str) -> list[str]:
    """Split at the apostrophe, as unicode61 does, without English contractions and elisions."""
    head, _, tail = word.partition("'")
    if not tail or tail in CONTRACTED:
        return [head]
    return [head, tail] if len(head) > _ELIDED_CHARS else [tail]


def _pairs(run: str, language: str) -> list[Term]:
    weights = pair_weights(run, language)
    if len(run) == 1:
        return [Term(run, prefix=True, weight=weights[0])]
    return [Term(run[at : at + 2], weight=weight) for at, weight in enumerate(weights)]


def phrases(term: Term, forms: Iterable[str] = ()) -> list[str]:
    """Return the FTS5 phrases of a term and of its forms."""
    text = emoji_word(term.text) if is_emoji(term.text) else term.text
    own = f'"{text}"{"*" if term.prefix else ""}'
    return [own, *(f'"{form}"' for form in forms)]
