"""Matching of a query's terms in texts, as FTS5 does: folded and stemmed. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from sys import getsizeof
from typing import NamedTuple
from unicodedata import category

from memoryd.text.fold import SPACED_WORD, UNSPACED, fold, has_unspaced, is_unspaced
from memoryd.text.parts import PART, is_emoji
from memoryd.text.stem import common_beginning, stem
from memoryd.text.tokenize import NO_FORMS, Term

_BETWEEN_WORDS = re.compile(rf"[\W_{UNSPACED}]")
_ASCII_BETWEEN_WORDS = {code: " " for code in range(128) if not chr(code).isalnum()}
REMEMBERED_TERMS = 256
"""Terms whose needles are kept: questions have names in common."""
REMEMBERED_TEXTS = 256
"""Paths with headings that are kept folded: many chunks have the same."""
_MOST_LOOK_UPS = 64
"""Terms whose positions a text remembers."""
_LOOK_UP_BYTES, _POSITION_BYTES = 200, 75
"""About the memory of a remembered term, and of each of its positions."""
_ONE_LINE = tuple((line,) for line in range(64))
"""The lines of most terms, kept once."""
_ALIKE_CHARS = 2
"""Characters with which forms must begin alike to be looked for at once."""
PART_OF_A_WORD = 0.6
"""Weight of a part of a word, as a share of that of a whole one."""
_SEPARATED = r"[ .\-/()\u00a0]{0,2}"


class TermPosition(NamedTuple):
    """Position of a term in a folded text: characters from `start` to `end`.

    `share` is below 1 if only a part of a word is the term.
    """

    start: int
    end: int
    share: float = 1.0


class Occurrences(NamedTuple):
    """Places of a term in a folded text, in order: characters from each start to its end.

    `frequency` is their number, below 1 if only parts of words are the term. `lines` are the
    numbers of the lines that have it, each a bit of `line_bits`. No match spans lines.
    """

    starts: Sequence[int]
    ends: Sequence[int]
    frequency: float
    lines: Sequence[int]
    line_bits: int

    @property
    def positions(self) -> list[TermPosition]:
        """Return the places one by one."""
        share = min(1.0, self.frequency)
        return [
            TermPosition(start, end, share)
            for start, end in zip(self.starts, self.ends, strict=True)
        ]


_occurrences = partial(tuple.__new__, Occurrences)
"""Makes occurrences of a tuple, in a fifth of the time."""
Places = Sequence[Occurrences | None]
"""The places of each term of a question in a text, None for one that it lacks."""


class FoldedText:
    """A folded text, and its `words`: a space stands in place of each character between two.

    `words` has one more space at the start and at the end. It is empty if the text has marks, which
    are parts of words. `positions` are those of the terms of the last questions, as `Finder` looks
    for them.
    """

    __slots__ = ("_line_starts", "positions", "size_bytes", "text", "words")

    def __init__(self, folded: str) -> None:
        """Read the words of a text that `fold` has returned."""
        self.text, self.words = folded, ""
        if folded.isascii():
            self.words = f" {folded.translate(_ASCII_BETWEEN_WORDS)} "
        elif not any(category(char)[0] == "M" for char in set(folded) if not char.isascii()):
            self.words = f" {_BETWEEN_WORDS.sub(' ', folded)} "
        self.positions: dict[str, Occurrences] = {}
        self.forget_positions()
        self._line_starts: tuple[int, ...] = ()

    def remember(self, looked_for: str, found: Occurrences) -> None:
        """Remember the places of what `Finder` looks for."""
        if len(self.positions) >= _MOST_LOOK_UPS:
            self.forget_positions()
        self.positions[looked_for] = found
        self.size_bytes += _LOOK_UP_BYTES + _POSITION_BYTES * len(found.starts)

    def forget_positions(self) -> None:
        """Forget the positions of all terms."""
        self.positions = {}
        self.size_bytes = getsizeof(self.text) + getsizeof(self.words)

    @property
    def line_starts(self) -> tuple[int, ...]:
        """Return where each line starts."""
        if not self._line_starts:
            lengths = [len(line) + 1 for line in self.text.split("\n")]
            self._line_starts = (0, *accumulate(lengths[:-1]))
        return self._line_starts

    def occurrences(
        self, starts: Sequence[int], ends: Sequence[int], share: float = 1.0
    ) -> Occurrences:
        """Return the occurrences of a term from each start to its end."""
        text, line, at, bits = self.text, 0, 0, 0
        lines: list[int] = []
        for start in starts:
            line += text.count("\n", at, start)
            at = start
            if not bits >> line:
                lines.append(line)
                bits |= 1 << line
        frequency = len(starts) if share == 1.0 else share
        of_term = _ONE_LINE[line] if bits == 1 << line and line < len(_ONE_LINE) else tuple(lines)
        return _occurrences((tuple(starts), tuple(ends), frequency, of_term, bits))

    def line(self, number: int) -> str:
        """Return a line by its number, from 0."""
        start, end = self.span(number)
        return self.text[start:end]

    def words_of_line(self, number: int) -> list[str]:
        """Return the words of a line, without characters of scripts without spaces."""
        start, end = self.span(number)
        if self.words:
            return self.words[start + 1 : end + 1].split()
        return SPACED_WORD.findall(self.text[start:end])

    def span(self, number: int) -> tuple[int, int]:
        """Return the start and the end of a line."""
        starts = self.line_starts
        end = starts[number + 1] - 1 if number + 1 < len(starts) else len(self.text)
        return starts[number], end


@lru_cache(maxsize=REMEMBERED_TEXTS)
def read_folded(text: str) -> FoldedText:
    """Fold a text that is read again and again."""
    return FoldedText(fold(text))


class _Needle(NamedTuple):
    """Text to look for, and the stems of the words that may begin with it; None: any text.

    `is_word`: it has no characters that stand between words.
    """

    text: str
    stems: frozenset[str] | None
    is_word: bool = False

    def has(self, word: str) -> bool:
        """Return whether a word that begins with the text is meant."""
        return self.stems is None or stem(word) in self.stems


class _Sought(NamedTuple):
    """Needles that find a term in texts, and `parts` of words where these find nothing.

    `key` is the same for what is found in the same places. Each text that has the term has `run`,
    and in its `words` `begin`, before a word with one of the `stems`; "" if that may be anything.
    """

    key: str
    run: str
    begin: str
    stems: frozenset[str]
    needles: Sequence[_Needle]
    term: str
    parts: tuple[str, ...]


class Finder:
    """Finder of a query's terms in texts, of their other `forms`, and of words they are part of."""

    def __init__(
        self,
        terms: Iterable[Term],
        forms: Mapping[Term, Sequence[str]] = NO_FORMS,
        parts: Mapping[Term, tuple[str, ...]] = NO_FORMS,
    ) -> None:
        self.terms = tuple(terms)
        self._sought = [
            _sought(term, tuple(forms.get(term, ())), parts.get(term, ())) for term in self.terms
        ]
        self._keys = [each.key for each in self._sought]

    def places(self, folded: str) -> list[list[TermPosition]]:
        """Return the positions of each term in a text that `fold` has returned.

        Parts of words count only where the text has no whole one.
        """
        found = self.places_in(FoldedText(folded)) or [None] * len(self.terms)
        return [[] if each is None else each.positions for each in found]

    def places_in(self, text: FoldedText) -> Places:
        """Return the places of each term in a text, which remembers them; () if it has none."""
        found, words = list(map(text.positions.get, self._keys)), text.words
        for number, here in enumerate(found):
            if here is None:
                sought = self._sought[number]
                # Most texts lack a word, and nothing finds that out in less time.
                if (
                    (sought.begin in words or not words)
                    and sought.run in text.text
                    and (here := _look_up(sought, text))
                ):
                    found[number] = here
                    text.remember(sought.key, here)
        return found if any(found) else ()

    def places_in_each(self, texts: Collection[FoldedText]) -> dict[FoldedText, Places]:
        """Return the places in each of some short texts, of which most have no term."""
        words = [text.words for text in texts]
        if all(words):
            joined, runs = "".join(words), "\n".join([text.text for text in texts])
            if not any(each.begin in joined and each.run in runs for each in self._sought):
                return dict.fromkeys(texts, ())
        return {text: self.places_in(text) for text in texts}


def _look_up(sought: _Sought, text: FoldedText) -> Occurrences | None:
    starts: list[int] = []
    ends: list[int] = []
    if sought.begin and text.words:  # most terms
        _add_words(text.words, sought.begin, sought.stems, starts, ends)
        return text.occurrences(starts, ends) if starts else None
    for needle in sought.needles:
        if needle.stems is None:
            _add_runs(text.text, needle, starts, ends)
        elif text.words and needle.is_word:
            _add_words(text.words, f" {needle.text}", needle.stems, starts, ends)
        else:
            _add_words_with_marks(text.text, needle, starts, ends)
    if starts:
        if len(sought.needles) > 1:
            starts.sort()
            ends.sort()
        return text.occurrences(starts, ends)
    if sought.parts and _before_separators(sought.term) in text.text:
        for match in _part_pattern(sought.term, sought.parts).finditer(text.text):
            starts.append(match.start())
            ends.append(match.end())
    return text.occurrences(starts, ends, PART_OF_A_WORD) if starts else None


def terms_of_lines(places: Places) -> dict[int, int]:
    """Return the set of the terms, as bits, in each line that has any, by their places."""
    found: dict[int, int] = {}
    bit = 1
    for of_term in places:
        if of_term is not None:
            for line in of_term.lines:
                found[line] = found.get(line, 0) | bit
        bit <<= 1
    return found


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


@lru_cache(maxsize=REMEMBERED_TERMS)
def _sought(term: Term, forms: tuple[str, ...], parts: tuple[str, ...]) -> _Sought:
    needles = _needles(term, forms)
    key = "\0".join((term.text, "*" if term.prefix else "", *forms, "", *parts))
    run, begin, known = "", "", frozenset[str]()
    if len(needles) == 1 and not parts:  # most terms
        text, stems, is_word = needles[0]
        if stems is None:
            run = text
        elif is_word:
            begin, known = f" {text}", stems
    return _Sought(key, run, begin, known, needles, term.text, parts)


def _needles(term: Term, forms: tuple[str, ...]) -> Sequence[_Needle]:
    """Return what finds a term and its forms: most forms begin alike."""
    text = fold(term.text)
    if term.prefix or has_unspaced(text) or is_emoji(text):
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


def _add_words(
    words: str, begin: str, stems: frozenset[str], starts: list[int], ends: list[int]
) -> None:
    """Add where the words of a text are meant; each has a space before and behind it."""
    at = words.find(begin)
    while at >= 0:
        end = words.find(" ", at + 1)
        if stem(words[at + 1 : end]) in stems:  # it stands one character earlier in the text
            starts.append(at)
            ends.append(end - 1)
        at = words.find(begin, end)


def _add_words_with_marks(text: str, needle: _Needle, starts: list[int], ends: list[int]) -> None:
    at = text.find(needle.text) if needle.text else -1
    while at >= 0:
        end = at + len(needle.text)
        if at == 0 or not _is_letter(text[at - 1]):
            end = max(end, _word_end(text, at))
            if needle.has(text[at:end]):
                starts.append(at)
                ends.append(end)
        at = text.find(needle.text, end)


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


def _add_runs(text: str, needle: _Needle, starts: list[int], ends: list[int]) -> None:
    length = len(needle.text)
    at = text.find(needle.text)
    while at >= 0:
        starts.append(at)
        ends.append(at + length)
        at = text.find(needle.text, at + 1)
