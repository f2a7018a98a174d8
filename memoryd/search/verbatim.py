"""Verbatim strings of a query: ids, versions, paths, code and quotes. Pure.

A match in a text has an exactness from 0 to 1.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from memoryd.text.fold import UNSPACED_RUN, fold, has_unspaced, is_unspaced, unspaced_share
from memoryd.text.markup import as_read, has_marks, may_read

_QUOTED = re.compile(r'["“”„«»「『]([^"“”«»」』]{2,200})["“”«»」』]')
_AROUND = ".,;:!?()[]{}<>\"'“”‘’`…。、？！，；：（）「」"
_INNER = re.compile(r"\w[^\w\s'’]+\w|\w_\w|_\w|[a-z][A-Z]|\d[A-Za-z]|[A-Za-z]\d")
"""Punctuation, a change of case, or letters beside digits: not found in words of prose."""
_CODE = re.compile(r"\w\(|[={}|\\~]|\s--?\w|::|->")
_CONNECT = "._-/@:+#~"
"""Characters that join two letters or digits to one string."""
_UNSPACED_QUERY = 0.3
"""Share of its characters in scripts without spaces above which a query is in such a script."""
_OF_DATES = re.compile(r"\d+\s*(?=[年月日년월일])")
_SHORTEST, _SHORT_WORDS, _SHORT_CHARS = 3, 6, 60

INSIDE_A_WORD = 0.2
BEHIND_A_V = 0.7
INSIDE_A_STRING = 0.6
OTHER_CASE = 0.93
OTHER_MARKS = 0.93
ACROSS_MARKS = 0.97
IN_THE_PATH = 0.6
IN_A_TITLE = 0.9


def verbatim_strings(query: str) -> list[str]:
    """Return the verbatim strings of a query: quoted text, and words that are not prose.

    Beside characters of a script without spaces, a number or a word in other letters is a name.
    """
    normal = unicodedata.normalize("NFKC", query)
    found = [quoted.strip() for quoted in _QUOTED.findall(normal)]
    words = _split_at_unspaced(normal)
    found += [
        word
        for word in words
        # Most are words of prose for certain.
        if not (word.isalpha() and word[1:].islower())
        and len(word) >= _SHORTEST
        and _INNER.search(word)
    ]
    if unspaced_share(normal) > _UNSPACED_QUERY:
        names = _OF_DATES.sub(" ", normal)
        found += [word for word in _split_at_unspaced(names) if word.isalnum()]
    return list(dict.fromkeys(string for string in found if string))


def _split_at_unspaced(text: str) -> list[str]:
    spaced = text if text.isascii() else UNSPACED_RUN.sub(" ", text)
    return [token.strip(_AROUND) for token in spaced.split()]


def verbatim_units(query: str, strings: Iterable[str] | None = None) -> list[str]:
    """Return the verbatim strings of a query, and a short query of several words as a whole.

    `strings` are the first, if they are known.
    """
    found = list(verbatim_strings(query) if strings is None else strings)
    whole = unicodedata.normalize("NFKC", query).strip().strip('"')
    words = whole.split()
    short = len(words) <= _SHORT_WORDS and len(whole) <= _SHORT_CHARS
    asks = whole.endswith(("?", "？", "。"))
    several = len(words) > 1 or has_unspaced(whole) or not whole.isalpha()
    if len(whole) > 1 and ((short and not asks and several) or _CODE.search(whole)):
        found.append(whole)
    return list(dict.fromkeys(unit for unit in found if unit))


def exactness(unit: str, text: str, folded: str | None = None) -> float:
    """Return the exactness of a string's best match in a text: 0 if absent, 1 if identical.

    Several words also match across emphasis, code marks, links and the end of a line, and so do
    characters of scripts without spaces. `folded` is the folded text, for callers who have it.
    """
    lowered = folded if folded is not None and text.isascii() else text.casefold()
    words, folded_words = _words_of(unit)
    if not _has_all(lowered, words):  # most texts lack a word
        folded = fold(text) if folded is None else folded
        if not _has_all(folded, folded_words):
            return 0.0
    exact = _best_exactness(unit, text, folded)
    if exact == 0.0 and has_marks(text):
        words = unit.split()
        pieces: Iterable[str] = ()
        if has_unspaced(unit):
            pieces = unit.replace(" ", "")
        elif len(words) > 1:
            pieces = words
        phrase = " ".join(words)
        if (
            pieces
            and all(piece.casefold() in lowered for piece in pieces)
            and may_read(lowered, phrase.casefold())
        ):
            exact = _best_exactness(phrase, as_read(text))
            if exact == 0.0 and "[[" in text:
                exact = _best_exactness(phrase, as_read(text, targets=True))
            exact *= ACROSS_MARKS
    return exact


@lru_cache(maxsize=64)
def _words_of(unit: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words of a string in lower case, the longest first, and its folded words.

    None in scripts without spaces, where characters may match across marks.
    """
    if has_unspaced(unit):
        return (), ()
    words = sorted(unit.casefold().split(), key=len, reverse=True)
    return words, fold(unit).split()


def _has_all(text: str, words: Iterable[str]) -> bool:
    for word in words:  # noqa: SIM110 - in half the time of `all`
        if word not in text:
            return False
    return True


def _best_exactness(unit: str, text: str, folded_text: str | None = None) -> float:
    exact = _exactness(unit, unit.casefold(), text, text.casefold())
    if exact == 1.0 or (unit.isascii() and text.isascii()):
        return exact
    folded = fold(unit)
    folded_text = fold(text) if folded_text is None else folded_text
    return max(exact, OTHER_MARKS * _exactness(folded, folded, folded_text, folded_text))


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
