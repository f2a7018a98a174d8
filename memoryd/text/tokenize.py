"""Conversion of text to search terms, identical for the index and for queries.

FTS5's `porter unicode61` tokenizer does words, stemming, case and diacritics. Scripts without
spaces between words (Chinese, Japanese, Korean, Thai and others) are cut into overlapping bigrams
before FTS5 sees them; measured on Chinese questions, bigrams find 0.99 in the top five, trigrams
0.93 and plain `unicode61` nothing.
"""

import re
import unicodedata
from functools import cache
from typing import NamedTuple

import stopwords

TOKENIZER = "porter-bigram-1"
"""Part of an index's identity; change it whenever the functions below yield other terms."""

FTS5_TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
"""Marks are kept inside words: without `M*` the vowel signs of Hindi or Thai would split them."""

MAX_QUERY_TERMS = 64

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # kana and iteration marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
SPACED_WORD = re.compile(f"[^\\W_{_UNSPACED}]+")
"""A word; it ends where a script without spaces begins."""
_WORD_PART = f"[^\\W_{_UNSPACED}][^\\s'’{_UNSPACED}]*"
_QUERY_WORD = re.compile(f"([{_UNSPACED}]+)|({_WORD_PART}(?:['’]{_WORD_PART})?)")

_CONTRACTED = frozenset({"s", "t", "d", "m", "re", "ll", "ve"})

_STOP_LANGUAGES = (
    *("en", "de", "fr", "es", "pt", "it", "nl", "pl", "ru", "tr", "sv", "da", "no"),
    *("fi", "cs", "hu", "ro", "el", "bg", "uk", "hi", "id", "ar", "fa"),
)
"""English first: it wins a tie."""


class Term(NamedTuple):
    """Search term. With `prefix`, it matches every word that starts with `text`."""

    text: str
    prefix: bool = False


def index_text(text: str) -> str:
    """Return the FTS5 input for a text: NFKC, with unspaced scripts cut into bigrams.

    A run `abc` becomes `ab bc c`: the last character also stands alone, so that a one-character
    query finds every occurrence as a prefix.
    """
    if text.isascii():
        return text
    return _UNSPACED_RUN.sub(_spread, unicodedata.normalize("NFKC", text))


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

    Anything that looks like an operator (`"`, `*`, `NEAR(`, `-x`, `a:b`) is plain text.
    """
    return list(dict.fromkeys(query_sequence(query)))[:MAX_QUERY_TERMS]


def query_sequence(query: str) -> list[Term]:
    """Return the terms of a query in order, chosen as in `query_terms`."""
    lowered = unicodedata.normalize("NFKC", query).lower()
    folded = "".join(char if _in_word(char) else " " for char in lowered)
    found: list[str | list[Term]] = []
    for match in _QUERY_WORD.finditer(folded):
        if run := match[1]:
            found.append([Term(run, prefix=True)] if len(run) == 1 else _bigrams(run))
        else:
            found.append(match[2].replace("’", "'"))
    words = [word for word in found if isinstance(word, str)]
    stop = _stop_words_of(words)
    if len(words) == len(found) and all(word in stop for word in words):
        stop = frozenset()
    terms: list[Term] = []
    for each in found:
        if isinstance(each, list):
            terms += each
        elif each not in stop:
            terms += [Term(part) for part in _parts(each)]
    return terms


def _in_word(char: str) -> bool:
    """Return whether FTS5 keeps a character inside a word, or it is a joining apostrophe."""
    return char.isalnum() or char in "'’" or unicodedata.category(char).startswith("M")


def _parts(word: str) -> list[str]:
    """Split at the apostrophe, as unicode61 does; English contractions find only noise."""
    head, _, tail = word.partition("'")
    return [head, tail] if tail and tail not in _CONTRACTED else [head]


def _bigrams(run: str) -> list[Term]:
    return [Term(run[i : i + 2]) for i in range(len(run) - 1)]


def _stop_words_of(words: list[str]) -> frozenset[str]:
    """Return the stop words of the language whose list contains most of the words.

    Lists are never combined: German `die` and `war` are English words that matter. A single word
    selects no language but English.
    """
    best, most = _stop_list("en"), max(1, sum(word in _stop_list("en") for word in words))
    for code in _STOP_LANGUAGES[1:]:
        stop = _stop_list(code)
        if (count := sum(word in stop for word in words)) > most:
            best, most = stop, count
    return best


def is_unspaced(char: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return _UNSPACED_RUN.match(char) is not None


def unspaced_share(text: str) -> float:
    """Return the share of a text in scripts without spaces between words, 0 to 1."""
    if text.isascii() or not text:
        return 0.0
    return sum(map(len, _UNSPACED_RUN.findall(text))) / len(text)


def load_stop_words() -> None:
    """Read the lists from disk now, not during a search. Blocking."""
    for code in _STOP_LANGUAGES:
        _stop_list(code)


@cache
def _stop_list(code: str) -> frozenset[str]:
    listed = stopwords.get_stopwords(code)
    # `dont` is a stop word too, but `she'd` without apostrophe would be `shed`.
    return frozenset(w.lower() for w in listed if w) | frozenset(
        w.lower().replace("'", "") for w in listed if w.endswith("n't")
    )


def match_expression(terms: list[Term]) -> str:
    """Return the FTS5 expression that matches any of the terms."""
    return " OR ".join(f'"{term.text}"{"*" if term.prefix else ""}' for term in terms)
