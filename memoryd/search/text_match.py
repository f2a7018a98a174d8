"""Matching of a query's terms and verbatim strings in texts. Pure.

Terms match as in FTS5: folded and stemmed. Verbatim strings are ids, versions, paths, code and
quotes; a match has an exactness from 0 to 1.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple
from unicodedata import category

from memoryd.text.fold import SPACED_WORD, UNSPACED, fold, is_unspaced, unspaced_share
from memoryd.text.markup import as_read, has_marks
from memoryd.text.parts import PART, is_emoji
from memoryd.text.stem import common_beginning, stem
from memoryd.text.tokenize import NO_FORMS, Term

_QUOTED = re.compile(r'["“”„«»「『]([^"“”«»」』]{2,200})["“”«»」』]')
_LINE_END = re.compile("\n")
_BETWEEN_WORDS = re.compile(rf"[\W_{UNSPACED}]")
_ASCII_BETWEEN_WORDS = {code: " " for code in range(128) if not chr(code).isalnum()}
REMEMBERED_TEXTS = 1_024
"""Chunks that are kept folded, 4 KiB each: the same ones are candidates again and again."""
_AROUND = ".,;:!?()[]{}<>\"'“”‘’`…。、？！，；：（）「」"
_INNER = re.compile(r"\w[^\w\s'’]+\w|\w_\w|_\w|[a-z][A-Z]|\d[A-Za-z]|[A-Za-z]\d")
"""Punctuation, a change of case, or letters beside digits: not found in words of prose."""
_CODE = re.compile(r"\w\(|[={}|\\~]|\s--?\w|::|->")
_CONNECT = "._-/@:+#~"
"""Characters that join two letters or digits to one string."""
_ALIKE_CHARS = 2
"""Characters with which forms must begin alike to be looked for at once."""
_UNSPACED_QUERY = 0.3
"""Share of its characters in scripts without spaces above which a query is in such a script."""
_OF_DATES = re.compile(r"\d+\s*(?=[年月日년월일])")
_SHORTEST, _SHORT_WORDS, _SHORT_CHARS = 3, 6, 60

PART_OF_A_WORD = 0.6
"""Weight of a part of a word, as a share of that of a whole one."""
_SEPARATED = r"[ .\-/()\u00a0]{0,2}"
INSIDE_A_WORD = 0.2
BEHIND_A_V = 0.7
INSIDE_A_STRING = 0.6
OTHER_CASE = 0.93
OTHER_MARKS = 0.93
ACROSS_MARKS = 0.97
IN_THE_PATH = 0.6
IN_A_TITLE = 0.9


class TermPosition(NamedTuple):
    """Position of a term in a folded text: characters from `start` to `end`.

    `share` is below 1 if only a part of a word is the term.
    """

    start: int
    end: int
    share: float = 1.0


_position = partial(tuple.__new__, TermPosition)
"""Makes a position of a tuple, in half the time."""


class FoldedText(NamedTuple):
    """A folded text, and its `words`: a space stands in place of each character between two.

    `words` has one more space at the start and at the end. It is empty if the text has marks, which
    are parts of words.
    """

    text: str
    words: str

    @classmethod
    def of(cls, folded: str) -> "FoldedText":
        """Return the words of a text that `fold` has returned."""
        if folded.isascii():
            return cls(folded, f" {folded.translate(_ASCII_BETWEEN_WORDS)} ")
        if any(category(char)[0] == "M" for char in set(folded) if not char.isascii()):
            return cls(folded, "")
        return cls(folded, f" {_BETWEEN_WORDS.sub(' ', folded)} ")


@lru_cache(maxsize=REMEMBERED_TEXTS)
def read_folded(text: str) -> FoldedText:
    """Fold the text of a chunk."""
    return FoldedText.of(fold(text))


class _Needle(NamedTuple):
    """Text to look for, and the stems of the words that may begin with it; None: any text.

    `is_word`: it has no characters that stand between words.
    """

    text: str
    stems: frozenset[str] | None
    is_word: bool = False


class Finder:
    """Finder of a query's terms in texts, of their other `forms`, and of words they are part of."""

    def __init__(
        self,
        terms: Iterable[Term],
        forms: Mapping[Term, Sequence[str]] = NO_FORMS,
        parts: Mapping[Term, tuple[str, ...]] = NO_FORMS,
    ) -> None:
        self.terms = tuple(terms)
        self._needles = [_needles(term, forms.get(term, ())) for term in self.terms]
        self._parts = {
            at: (_before_separators(term.text), partial(_part_pattern, term.text, parts[term]))
            for at, term in enumerate(self.terms)
            if term in parts
        }

    def places(self, folded: str) -> list[list[TermPosition]]:
        """Return the positions of each term in a text that `fold` has returned.

        Parts of words count only where the text has no whole one.
        """
        return self.places_in_each([FoldedText.of(folded)])[0]

    def places_in_each(self, texts: Sequence[FoldedText]) -> list[list[list[TermPosition]]]:
        """Return the positions of each term in each of the texts, as `places` does."""
        found: list[list[list[TermPosition]]] = [[[] for _ in self.terms] for _ in texts]
        for number, needles in enumerate(self._needles):
            for needle in needles:
                if needle.stems is None:
                    for (text, _), places in zip(texts, found, strict=True):
                        if needle.text in text:
                            places[number] += _runs(text, needle.text)
                else:
                    self._put_words(number, needle, needle.stems, texts, found)
            if len(needles) > 1:
                for places in found:
                    places[number].sort()
        for number, (beginning, pattern) in self._parts.items():
            for (text, _), places in zip(texts, found, strict=True):
                if not places[number] and beginning in text:
                    places[number] = [
                        TermPosition(*match.span(), PART_OF_A_WORD)
                        for match in pattern().finditer(text)
                    ]
        return found

    def _put_words(
        self,
        number: int,
        needle: _Needle,
        stems: frozenset[str],
        texts: Sequence[FoldedText],
        found: Sequence[Sequence[list[TermPosition]]],
    ) -> None:
        """Add the positions of the words with one of the stems.

        A word of a text that `FoldedText` has divided is looked for with the space before it.
        """
        begin = f" {needle.text}"
        are_found: dict[str, bool] = {}
        for (text, words), places in zip(texts, found, strict=True):
            if not (words and needle.is_word):
                places[number] += _words_with_marks(text, needle.text, stems)
                continue
            at = words.find(begin)
            while at >= 0:
                end = words.find(" ", at + 1)
                word = words[at + 1 : end]
                is_found = are_found.get(word)
                if is_found is None:
                    is_found = are_found[word] = stem(word) in stems
                if is_found:  # the words stand one character later than in the text
                    places[number].append(_position((at, end - 1, 1.0)))
                at = words.find(begin, end)


def terms_by_line(folded: str, places: Iterable[Sequence[TermPosition]]) -> list[list[int]]:
    """Return the numbers of the terms in each line of a text, by the positions of each term.

    No match spans lines. The positions of a term are in order.
    """
    starts = _line_starts(folded)
    found: list[list[int]] = [[] for _ in starts]
    for number, of_term in enumerate(places):
        last = -1
        for start, _, _ in of_term:
            line = bisect_right(starts, start) - 1
            if line != last:
                found[line].append(number)
                last = line
    return found


@lru_cache(maxsize=REMEMBERED_TEXTS)
def _line_starts(text: str) -> tuple[int, ...]:
    return (0, *(end.end() for end in _LINE_END.finditer(text)))


def _before_separators(text: str) -> str:
    """Return what every match of a part has, because a pattern takes far longer to find nothing."""
    return text[:1] if any(map(str.isdigit, text)) else text


@lru_cache(maxsize=64)
def _part_pattern(text: str, words: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a term that begins a word, or stands where a part of a name does.

    An id or number may have separators in it.
    """
    has_digit = any(map(str.isdigit, text))
    pattern = _SEPARATED.join(map(re.escape, text)) if has_digit else re.escape(text)
    inside = any(word.startswith(PART) for word in words)
    return re.compile(pattern if inside else rf"(?<![^\W_]){pattern}")


def _needles(term: Term, forms: Sequence[str]) -> list[_Needle]:
    """Return what finds a term and its forms: most forms begin alike."""
    text = fold(term.text)
    if term.prefix or any(map(is_unspaced, text)) or is_emoji(text):
        return [_Needle(text, None)]
    stemmed = stem(text)
    own = _beginning(stemmed)
    alike = [form for form in forms if len(common_beginning(form, own)) >= _ALIKE_CHARS]
    begin = common_beginning(own, *map(_beginning, alike))
    others = [form for form in forms if form not in alike]
    return [
        _needle(begin, frozenset({stemmed, *alike})),
        *(_needle(_beginning(form), frozenset({form})) for form in others),
    ]


def _needle(begin: str, stems: frozenset[str]) -> _Needle:
    return _Needle(begin, stems, SPACED_WORD.fullmatch(begin) is not None)


def _beginning(stemmed: str) -> str:
    """Return the common prefix of the forms with one of Porter's stems.

    Porter's stem is that prefix, except for a last `i` or `e` that stemming may have added, and the
    `l` of `possibl`, the stem of `possibility` too.
    """
    put = 1 if stemmed.endswith(("i", "e", "bl")) else 0
    return stemmed[: len(stemmed) - put] or stemmed


def _words_with_marks(text: str, needle: str, stems: frozenset[str]) -> list[TermPosition]:
    found = []
    at = text.find(needle) if needle else -1
    while at >= 0:
        end = at + len(needle)
        if at == 0 or not _is_letter(text[at - 1]):
            end = max(end, _word_end(text, at))
            if stem(text[at:end]) in stems:
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
    """Return the verbatim strings of a query: quoted text, and words that are not prose.

    Beside characters of a script without spaces, a number or a word in other letters is a name.
    """
    normal = unicodedata.normalize("NFKC", query)
    found = [quoted.strip() for quoted in _QUOTED.findall(normal)]
    words = _split_at_unspaced(normal)
    found += [word for word in words if len(word) >= _SHORTEST and _INNER.search(word)]
    if unspaced_share(normal) > _UNSPACED_QUERY:
        names = _OF_DATES.sub(" ", normal)
        found += [word for word in _split_at_unspaced(names) if word.isalnum()]
    return list(dict.fromkeys(string for string in found if string))


def _split_at_unspaced(text: str) -> list[str]:
    spaced = "".join(" " if is_unspaced(char) else char for char in text)
    return [token.strip(_AROUND) for token in spaced.split()]


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


def exactness(unit: str, text: str, folded: str | None = None) -> float:
    """Return the exactness of a string's best match in a text: 0 if absent, 1 if identical.

    Several words also match across emphasis, code marks, links and the end of a line, and so do
    characters of scripts without spaces. `folded` is the folded text, for callers who have it.
    """
    exact = _best_exactness(unit, text, folded)
    if exact == 0.0 and has_marks(text):
        words = unit.split()
        pieces: Iterable[str] = ()
        if any(map(is_unspaced, unit)):
            pieces = unit.replace(" ", "")
        elif len(words) > 1:
            pieces = words
        lowered = text.casefold()
        if pieces and all(piece.casefold() in lowered for piece in pieces):
            phrase = " ".join(words)
            exact = ACROSS_MARKS * (
                _best_exactness(phrase, as_read(text))
                or _best_exactness(phrase, as_read(text, targets=True))
            )
    return exact


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
