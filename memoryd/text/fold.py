"""Folding of text: what people take for the same letters becomes the same characters. Pure.

The index, queries and the evidence of a text all fold with `fold`, before SQLite sees the text:
its tokenizer folds Latin letters only.
"""

import re
import unicodedata

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # kana and iteration marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
)
"""Scripts without spaces between words, as a class of a pattern. Hangul words are long."""
UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
SPACED_WORD = re.compile(f"[^\\W_{UNSPACED}]+")
"""A word; it ends where a script without spaces begins."""
WORD_PART = f"[^\\W_{UNSPACED}][^\\s'’{UNSPACED}]*"
"""Pattern of a word with marks and punctuation inside, up to an apostrophe."""

_INVISIBLE = frozenset(
    "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060"
    "\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff\u0640"
) | frozenset(map(chr, range(0xFE00, 0xFE10)))
"""Soft hyphens, zero-width characters, directions of writing, Arabic's tatweel (which stretches a
word), selectors of variants."""
_LETTERS = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "đ": "d",
    "ð": "d",
    "ł": "l",
    "ı": "i",
    "ħ": "h",
    "ŧ": "t",
    "þ": "th",
    "ŋ": "n",
    "ƒ": "f",
    "ς": "σ",
    "ґ": "г",
    "й": "й",
    # Letters of Arabic that a writer, or a Persian or Urdu keyboard, puts for one another.
    "ٱ": "ا",
    "ى": "ي",
    "ی": "ي",
    "ے": "ي",
    "ک": "ك",
    "ة": "ه",
    "ە": "ه",
    "ہ": "ه",
    "ھ": "ه",
    "״": '"',
    "׳": "'",
}
"""Letters that Unicode does not decompose, and й, a letter of its own that everybody types."""


_DIACRITICS = frozenset({1, 7, *range(10, 37)})
"""Canonical combining classes: overlays, nuktas, and the points of Hebrew, Arabic and Syriac."""
_ABOVE_OR_BELOW = 200
"""The first class of marks that stand around a letter of any script."""


class _Folded(dict[int, str]):
    """Folded text of each character, computed when the character first occurs."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_char(chr(code))
        return folded


def _fold_char(char: str) -> str:
    lowered = unicodedata.normalize("NFC", char.lower())
    if lowered in _LETTERS:
        return _LETTERS[lowered]
    folded = ""
    for part in unicodedata.normalize("NFKD", char).lower():
        digit = unicodedata.decimal(part, None)
        if digit is not None:
            folded += str(digit)
        elif part not in _INVISIBLE and not _is_dropped(part):
            folded += _LETTERS.get(part, part)
    return folded


def _is_dropped(mark: str) -> bool:
    """Return whether a character is a diacritic; the vowel signs of India and Thailand are not."""
    kind = unicodedata.combining(mark)
    return (kind in _DIACRITICS or kind >= _ABOVE_OR_BELOW) and not is_unspaced(mark)


_FOLDED = _Folded()


def fold(text: str) -> str:
    """Fold case, width, diacritics, letter variants and digits; leave invisible characters out.

    Marks of scripts without spaces stay, because there they make another letter. Folding twice
    changes nothing; the length may change.
    """
    if text.isascii():
        return text.lower()
    if not unicodedata.is_normalized("NFKC", text):
        # Two steps take a fifth of the time of one for Chinese with its wide punctuation.
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", text.translate(_FOLDED))


def is_unspaced(char: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return UNSPACED_RUN.match(char) is not None


def has_unspaced(text: str) -> bool:
    """Return whether a text has a character of a script without spaces between words."""
    return not text.isascii() and UNSPACED_RUN.search(text) is not None


def unspaced_share(text: str) -> float:
    """Return the share of a text in scripts without spaces between words, 0 to 1."""
    if text.isascii() or not text:
        return 0.0
    return sum(map(len, UNSPACED_RUN.findall(text))) / len(text)
