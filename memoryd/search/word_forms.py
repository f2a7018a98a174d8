"""Words of the index that a question's word also stands for.

**Forms** count as the word itself: дачу for дача, Häuser for Haus. **Parts** count less: words that
begin with it, such as `362acf8967b7e1f0` for `362acf8` and Heinestraße for Heine, and names and
numbers of which a part does, such as `getUserById` for `userById`.

A search looks for words of the index with the same Snowball stem, in the language of the question.
So the index has no stems of languages but English, a wrong guess of the language hides no word, and
no word of an English question gets forms of another language.
"""

from collections.abc import Iterator, Sequence

from memoryd.search.vocabulary import WordsWith
from memoryd.text.fold import is_unspaced
from memoryd.text.parts import PART
from memoryd.text.stem import common_beginning, has_stems, stem, stem_in
from memoryd.text.tokenize import Term

MOST_FORMS, MOST_PARTS = 24, 64
LEAST_OF_ID = 4
"""Least characters of a part with a digit."""
_LEAST_CHARS = 3
_MOST_ENDING = 3
"""Longest ending that is cut off a word whose stem is written in other letters."""

_SCRIPTS = (
    ("\u0370", "\u03ff", ("el",)),
    ("\u0400", "\u052f", ("ru", "uk", "bg", "sr", "mk")),
    ("\u0530", "\u058f", ("hy",)),
    ("\u0590", "\u05ff", ("he",)),
    ("\u0600", "\u06ff", ("ar", "fa", "ur")),
    ("\u0900", "\u097f", ("hi",)),
    ("\u0b80", "\u0bff", ("ta",)),
)
"""Languages of each script; the first one is assumed if the question does not tell."""
_ARABIC = ("", "ال", "وال", "بال", "كال", "فال", "لل", "و", "ب", "ل", "ف", "ك")
_HEBREW = ("", "ה", "ו", "ב", "ל", "מ", "ש", "כ", "וה", "שה", "מה", "כש", "וב", "ול")
"""Words that are written as one with the next: and, the, in, for, as, from, that."""


def read_forms(words_with: WordsWith, term: Term, language: str) -> tuple[str, ...]:
    """Return other forms of a term among the words of the index, as the index has them."""
    text = term.text
    if term.prefix or len(text) < _LEAST_CHARS or is_unspaced(text[0]) or text.isdigit():
        return ()
    language = _language_of_word(text, language)
    if language == "he":
        found = _joined(words_with, text)
    elif has_stems(language):
        found = _with_stem(words_with, text, language)
    else:
        return ()
    own = stem(text)
    return tuple(word for word in dict.fromkeys(found) if word != own)[:MOST_FORMS]


def read_parts(
    words_with: WordsWith, term: Term, forms: Sequence[str], least: int
) -> tuple[str, ...]:
    """Return the words of the index that begin with a term, and parts of names that do.

    Nothing begins with a term of fewer than `least` characters, `LEAST_OF_ID` if it has a digit.
    """
    text = term.text
    if any(map(str.isdigit, text)):
        least = LEAST_OF_ID
    if term.prefix or not text.isalnum() or is_unspaced(text[0]) or len(text) < least:
        return ()
    own = stem(text)
    begin = common_beginning(text, own)  # the index has stems
    longer = [
        word
        for word in words_with(begin)
        if word != own and word.startswith(text) and word not in forms
    ]
    of_names = [
        word
        for word in words_with(PART + begin)
        if word.startswith(PART + text) or word == PART + own
    ]
    return tuple([*longer, *of_names][:MOST_PARTS])


def _language_of_word(text: str, asked: str) -> str:
    if text.isascii():
        return asked
    for first, last, languages in _SCRIPTS:
        if first <= text[0] <= last:
            return asked if asked in languages else languages[0]
    return asked


def _with_stem(words_with: WordsWith, text: str, language: str) -> Iterator[str]:
    wanted = {stem_in(language, text), stem_in(language, stem(text))}
    prefixes: tuple[str, ...] = ("",)
    begin = common_beginning(text, stem_in(language, text))
    if language == "ar":
        prefixes, begin = _ARABIC, stem_in(language, text)
    elif len(begin) < _LEAST_CHARS:
        begin = text[: max(_LEAST_CHARS, len(text) - _MOST_ENDING)]
    for prefix in prefixes:
        for word in words_with(prefix + begin):
            if stem_in(language, word) in wanted or (
                prefix and stem_in(language, word.removeprefix(prefix)) in wanted
            ):
                yield word


def _joined(words_with: WordsWith, text: str) -> Iterator[str]:
    """Yield a Hebrew word as it is written with and without the words before it."""
    words = [text]
    if len(text) > _LEAST_CHARS and text[0] in _HEBREW:
        words.append(text[1:])
    for word in words:
        for prefix in _HEBREW:
            if words_with(prefix + word)[:1] == [prefix + word]:  # it comes before longer ones
                yield prefix + word
