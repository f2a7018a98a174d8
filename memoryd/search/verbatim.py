"""Strings that a question means to the letter: ids, versions, paths, code, quotes. Pure."""

import re
import unicodedata

from memoryd.search.term_match import fold
from memoryd.text.tokenize import is_unspaced

_QUOTED = re.compile(r'["“”„«»「『]([^"“”«»」』]{2,200})["“”«»」』]')
_AROUND = ".,;:!?()[]{}<>\"'“”‘’`…。、？！，；：（）「」"
_INNER = re.compile(r"\w[^\w\s'’]+\w|\w_\w|_\w|[a-z][A-Z]|\d[A-Za-z]|[A-Za-z]\d")
"""What words of prose don't have inside: punctuation, a change of case, letters beside digits."""
_CODE = re.compile(r"\w\(|[={}|\\~]|\s--?\w|::|->")
_CONNECT = "._-/@:+#~"
"""Between two letters or digits, these make one string of them."""
_SHORTEST, _SHORT_WORDS, _SHORT_CHARS = 3, 6, 60

INSIDE_A_WORD = 0.2
BEHIND_A_V = 0.7
INSIDE_A_STRING = 0.6
OTHER_CASE = 0.93
OTHER_MARKS = 0.93
IN_THE_PATH = 0.6


def strings(query: str) -> list[str]:
    """Return what a question means to the letter: what is quoted, and words that are no prose."""
    normal = unicodedata.normalize("NFKC", query)
    found = [quoted.strip() for quoted in _QUOTED.findall(normal)]
    spaced = "".join(" " if is_unspaced(char) else char for char in normal)
    for token in spaced.split():
        word = token.strip(_AROUND)
        if len(word) >= _SHORTEST and _INNER.search(word):
            found.append(word)
    return list(dict.fromkeys(string for string in found if string))


def units(query: str) -> list[str]:
    """Return the strings of a question, and a short one as a whole, if it is no single word."""
    found = strings(query)
    whole = unicodedata.normalize("NFKC", query).strip().strip('"')
    words = whole.split()
    short = len(words) <= _SHORT_WORDS and len(whole) <= _SHORT_CHARS
    asks = whole.endswith(("?", "？", "。"))
    several = len(words) > 1 or _has_unspaced(whole) or not whole.isalpha()
    if len(whole) > 1 and ((short and not asks and several) or _CODE.search(whole)):
        found.append(whole)
    return list(dict.fromkeys(unit for unit in found if unit))


def level(unit: str, text: str) -> float:
    """Return how exactly a text has a string, from 0 (not) to 1 (just so)."""
    exact = _level(unit, unit.casefold(), text, text.casefold())
    if exact == 1.0 or (unit.isascii() and text.isascii()):
        return exact
    folded = fold(unit)
    return max(exact, OTHER_MARKS * _level(folded, folded, fold(text), fold(text)))


def _level(unit: str, lowered: str, text: str, lower_text: str) -> float:
    best = 0.0
    same_length = len(lower_text) == len(text)
    at = lower_text.find(lowered) if lowered else -1  # of marks alone folding leaves nothing
    while at >= 0 and best < 1.0:
        end = at + len(lowered)
        value = min(_before(lowered, lower_text, at), _after(lowered, lower_text, end))
        if same_length and text[at:end] != unit:
            value *= OTHER_CASE
        best = max(best, value)
        at = lower_text.find(lowered, at + 1)
    return best


def _before(unit: str, text: str, at: int) -> float:
    char = text[at - 1] if at else " "
    far = text[at - 2] if at > 1 else " "
    if unit[0].isalnum() and char.isalnum() and not is_unspaced(char):
        is_version = unit[0].isdigit() and char == "v" and not far.isalnum()
        return BEHIND_A_V if is_version else INSIDE_A_WORD
    return INSIDE_A_STRING if char in _CONNECT and far.isalnum() else 1.0


def _after(unit: str, text: str, end: int) -> float:
    char = text[end] if end < len(text) else " "
    far = text[end + 1] if end + 1 < len(text) else " "
    if unit[-1].isalnum() and char.isalnum() and not is_unspaced(char):
        return INSIDE_A_WORD
    return INSIDE_A_STRING if char in _CONNECT and far.isalnum() else 1.0


def _has_unspaced(text: str) -> bool:
    return any(map(is_unspaced, text))
