"""Matching of a query's terms and verbatim strings in texts. Pure.

Terms match as in FTS5: folded and stemmed. Verbatim strings are ids, versions, paths, code and
quotes; a match has an exactness from 0 to 1.
"""

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
"""Cached stems, at most 1 MiB. A search stems 100 words; with 1,024 cached, it finds 96."""
_LEAST_STEMMED_BYTES, _MOST_STEMMED_BYTES = 3, 64
"""Limits of fts5_tokenize.c, in UTF-8."""
_BLY, _LOGY = re.compile(r"[aeiouy][^aeiou].*bli$"), re.compile(r"[aeiouy][^aeiou].*logi$")
_DOUBLED = re.compile(r"([ckvwx])\1$")
"""Words that Porter's own program and FTS5 stem further than Snowball's `porter`: `possibly` as
`possible`, `biology` as `biological`, `trekking` as `trek`."""
_stemmer = snowballstemmer.stemmer("porter")
_stemming = threading.Lock()
"""Guards the stemmer, which is not thread-safe."""

_QUOTED = re.compile(r'["“”„«»「『]([^"“”«»」』]{2,200})["“”«»」』]')
_AROUND = ".,;:!?()[]{}<>\"'“”‘’`…。、？！，；：（）「」"
_INNER = re.compile(r"\w[^\w\s'’]+\w|\w_\w|_\w|[a-z][A-Z]|\d[A-Za-z]|[A-Za-z]\d")
"""Punctuation, a change of case, or letters beside digits: not found in words of prose."""
_CODE = re.compile(r"\w\(|[={}|\\~]|\s--?\w|::|->")
_CONNECT = "._-/@:+#~"
"""Characters that join two letters or digits to one string."""
_SHORTEST, _SHORT_WORDS, _SHORT_CHARS = 3, 6, 60

INSIDE_A_WORD = 0.2
BEHIND_A_V = 0.7
INSIDE_A_STRING = 0.6
OTHER_CASE = 0.93
OTHER_MARKS = 0.93
IN_THE_PATH = 0.6
IN_A_TITLE = 0.9


class TermPosition(NamedTuple):
    """Position of a term in a folded text: characters from `start` to `end`."""

    start: int
    end: int


class Finder:
    """Finder of a query's terms in texts."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms = tuple(terms)
        self._needles = [_needle(term) for term in self.terms]

    def places(self, folded: str) -> list[list[TermPosition]]:
        """Return the positions of each term in a text that `fold` has returned."""
        return [
            _runs(folded, needle) if stem is None else _words(folded, needle, stem)
            for needle, stem in self._needles
        ]


def fold(text: str) -> str:
    """Fold case, width and diacritics as FTS5 does, but diacritics of all scripts.

    Marks of scripts without spaces stay: there, they make another letter and are part of bigrams.
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).lower()
    return unicodedata.normalize(
        "NFC", "".join(c for c in decomposed if not unicodedata.combining(c) or is_unspaced(c))
    )


@lru_cache(maxsize=REMEMBERED_STEMS)
def stem(word: str) -> str:
    """Return Porter's stem of a folded word; like FTS5, not of very short or long ones."""
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
    """Return the common prefix of a term's forms, and its stem; None for runs of unspaced text.

    Porter's stem is that prefix, except for a last `i` or `e` that stemming may have added, and the
    `l` of `possibl`, the stem of `possibility` too.
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
    """Return the end of a word, including marks such as the vowel signs of Hindi."""
    end = start
    while (more := SPACED_WORD.match(text, end)) is not None:
        end = more.end()
        while end < len(text) and not text[end].isascii() and category(text[end])[0] == "M":
            end += 1
    return end


def _is_letter(char: str) -> bool:
    """Return whether a character joins the word after it; those of unspaced scripts don't."""
    return char.isalnum() and not (not char.isascii() and is_unspaced(char))


def _runs(text: str, needle: str) -> list[TermPosition]:
    found = []
    at = text.find(needle)
    while at >= 0:
        found.append(TermPosition(at, at + len(needle)))
        at = text.find(needle, at + 1)
    return found


def verbatim_strings(query: str) -> list[str]:
    """Return the verbatim strings of a query: quoted text, and words that are not prose."""
    normal = unicodedata.normalize("NFKC", query)
    found = [quoted.strip() for quoted in _QUOTED.findall(normal)]
    spaced = "".join(" " if is_unspaced(char) else char for char in normal)
    words = (token.strip(_AROUND) for token in spaced.split())
    found += [word for word in words if len(word) >= _SHORTEST and _INNER.search(word)]
    return list(dict.fromkeys(string for string in found if string))


def verbatim_units(query: str) -> list[str]:
    """Return the verbatim strings of a query, and a short query of several words as a whole."""
    found = verbatim_strings(query)
    whole = unicodedata.normalize("NFKC", query).strip().strip('"')
    words = whole.split()
    short = len(words) <= _SHORT_WORDS and len(whole) <= _SHORT_CHARS
    asks = whole.endswith(("?", "？", "。"))
    several = len(words) > 1 or any(map(is_unspaced, whole)) or not whole.isalpha()
    if len(whole) > 1 and ((short and not asks and several) or _CODE.search(whole)):
        found.append(whole)
    return list(dict.fromkeys(unit for unit in found if unit))


def exactness(unit: str, text: str) -> float:
    """Return the exactness of a string's best match in a text: 0 if absent, 1 if identical."""
    exact = _exactness(unit, unit.casefold(), text, text.casefold())
    if exact == 1.0 or (unit.isascii() and text.isascii()):
        return exact
    folded = fold(unit)
    return max(exact, OTHER_MARKS * _exactness(folded, folded, fold(text), fold(text)))


def _exactness(unit: str, lowered: str, text: str, lower_text: str) -> float:
    best = 0.0
    same_length = len(lower_text) == len(text)
    padded = f"  {lower_text}  "
    at = lower_text.find(lowered) if lowered else -1  # folding leaves nothing of marks alone
    while at >= 0 and best < 1.0:
        end = at + len(lowered)
        far, near = padded[at], padded[at + 1]
        is_version = lowered[0].isdigit() and near == "v" and not far.isalnum()
        before = BEHIND_A_V if is_version else _at_edge(lowered[0], near, far)
        value = min(before, _at_edge(lowered[-1], padded[end + 2], padded[end + 3]))
        if same_length and text[at:end] != unit:
            value *= OTHER_CASE
        best = max(best, value)
        at = lower_text.find(lowered, at + 1)
    return best


def _at_edge(own: str, near: str, far: str) -> float:
    """Return the exactness at one end of a match, from its last and the next two characters."""
    if own.isalnum() and near.isalnum() and not is_unspaced(near):
        return INSIDE_A_WORD
    return INSIDE_A_STRING if near in _CONNECT and far.isalnum() else 1.0
