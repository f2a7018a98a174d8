"""Language of a text, by its script, its function words and its letters. Pure.

`function_words.txt` lists the function words of 39 languages. A text of a few sentences has enough
of them to tell its language; a short question often has not, and then no language is named.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path

from memoryd.text.fold import fold

_FILE = "function_words.txt"
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_OTHER_SCRIPT = re.compile("[\u0370-\u1cff\u2e80-\U0010ffff]")
"""A character that no language in Latin letters has."""
REMEMBERED_QUESTIONS = 64
MAX_CHARS = 1_000
"""The language of a longer text is that of its beginning."""
TYPED_PLAINLY = 0.5
"""Value of a function word that lacks its accents, beside one that has them."""
OWN_LETTER = 0.4
"""Value of a word with a letter that few languages have."""
LEAST_EVIDENCE, LEAST_SHARE, LEAST_LEAD = 1.05, 0.05, 1.15
"""Least evidence, least evidence per word, and least ratio to the second language."""
KANA_SHARE = 0.1
"""Share of kana above which Chinese characters are Japanese."""
_CHARS_PER_WORD = 2
"""Mean length of a word in scripts without spaces."""

_ONE_LANGUAGE = (
    (0x0370, 0x03FF, "el"),
    (0x0531, 0x058F, "hy"),
    (0x0590, 0x05FF, "he"),
    (0x0900, 0x097F, "hi"),
    (0x0980, 0x09FF, "bn"),
    (0x0B80, 0x0BFF, "ta"),
    (0x0E00, 0x0E7F, "th"),
    (0x10A0, 0x10FF, "ka"),
)
"""Scripts of one language, nearly."""
_LETTERS = {
    "de": "äöüß",
    "fr": "éèêàçœùîôû",
    "es": "ñáéíóú¿¡",
    "pt": "ãõçáéíóúâê",
    "it": "àèìòù",
    "ca": "àèòçïü·",
    "ro": "ășțâîşţ",
    "nl": "ëï",
    "sv": "åäö",
    "da": "åæø",
    "nb": "åæø",
    "fi": "äö",
    "et": "õäöü",
    "lv": "āēīūģķļņčšž",
    "lt": "ėįųąęčšž",
    "is": "ðþáéíóúýæö",
    "pl": "ąęłńśźżćó",
    "cs": "řěůčšžýáíé",
    "sk": "ľĺŕôäčšžýáíé",
    "sl": "čšž",
    "hr": "čćđšž",
    "hu": "őűáéíóöúü",
    "tr": "ğışçöü",
    "vi": "ơưđăâêô",
    "ru": "ыэёъ",
    "uk": "іїєґ",
    "bg": "ъщ",
    "sr": "јљњћђџ",
    "mk": "јљњѓќѕџ",
    "fa": "پچژگیک",
    "ur": "ٹڈڑںےہھ",
    "ar": "ةىأإ",
}
"""Letters that set a language apart from others in its script."""


@cache
def _lines() -> dict[str, bytes]:
    """Return the line of each language in the package's file.

    Bytes take a quarter of the memory of the words, most of which belong to languages that the
    notes do not have.
    """
    found = Path(__file__).with_name(_FILE).read_bytes().splitlines()
    lines = (line.partition(b" ") for line in found if line and not line.startswith(b"#"))
    return {language.decode(): words for language, _, words in lines}


def _listed(language: str) -> list[str]:
    """Return the words of a language as they are written."""
    return _lines().get(language, b"").decode().split()


@cache
def function_words(language: str) -> frozenset[str]:
    """Return the folded function words of a language; none of an unknown one."""
    return frozenset(map(fold, _listed(language)))


@cache
def every_function_word() -> frozenset[str]:
    """Return the function words of all languages as they are written."""
    return frozenset(word for language in _lines() for word in _listed(language))


@cache
def _values(*, other_scripts: bool) -> dict[str, dict[str, float]]:
    """Return what each word says for each language that has it.

    Those of other scripts than Latin, 0.5 MiB, are in memory when a text has needed them.
    """
    values: dict[str, dict[str, float]] = {}
    for language in _lines():
        for word in _listed(language):
            plain = fold(word)
            if other_scripts or not _OTHER_SCRIPT.search(word):
                values.setdefault(word, {})[language] = 1.0
            if plain != word and (other_scripts or not _OTHER_SCRIPT.search(plain)):
                values.setdefault(plain, {}).setdefault(language, TYPED_PLAINLY)
    # Most words say the same as others of their language: 1 MiB less.
    shared: dict[tuple[tuple[str, float], ...], dict[str, float]] = {}
    for word, found in values.items():
        key = tuple(found.items())
        if key not in shared:
            # What many languages have says little.
            shared[key] = {language: value / len(found) ** 0.5 for language, value in key}
        values[word] = shared[key]
    return values


def _values_for(text: str) -> dict[str, dict[str, float]]:
    """Return what each word that may stand in a text says."""
    return _values(other_scripts=not text.isascii() and _OTHER_SCRIPT.search(text) is not None)


@cache
def _letter_values() -> dict[str, dict[str, float]]:
    letters: dict[str, list[str]] = {}
    for language, own in _LETTERS.items():
        for letter in own:
            letters.setdefault(letter, []).append(language)
    return {
        letter: dict.fromkeys(languages, OWN_LETTER / len(languages))
        for letter, languages in letters.items()
    }


def load_function_words() -> None:
    """Read the lists from disk now, not during a search. Blocking."""
    _values(other_scripts=False)
    _letter_values()


def language_of(text: str) -> str:
    """Return the ISO 639-1 code of a text's language, "" if it is unknown.

    Honest about short texts: `Ravi birthday` and `Skoda` have no language.
    """
    text = unicodedata.normalize("NFC", text[:MAX_CHARS])
    if not text.isascii() and (found := _by_script(text)):
        return found
    values = _values_for(text)
    words = _words(text, values)
    scores = _evidence(words, values)
    if not scores:
        return ""
    best = max(scores, key=scores.__getitem__)
    most = scores.pop(best)
    second = max(scores.values(), default=0.0)
    clear = most >= LEAST_LEAD * second and most >= max(
        LEAST_EVIDENCE, LEAST_SHARE * len(set(words))
    )
    return best if clear else ""


@lru_cache(maxsize=REMEMBERED_QUESTIONS)
def most_function_words(question: str) -> str:
    """Return the language of which a question has the most function words, English if in doubt.

    The lists of two languages are never combined: German `die` and `war` are English words that
    matter. A single word selects a language only if it can't be English.
    """
    counts = {"en": 0.0}
    question = unicodedata.normalize("NFC", question)
    values = _values_for(question)
    for word in _words(question, values):
        if (found := values.get(word)) is None:
            continue
        shared, accents = len(found) ** 0.5, 1.0 if word.isascii() else 1.1
        for language, value in found.items():
            counts[language] = counts.get(language, 0.0) + accents * (value * shared)
    counts["en"] = max(1.0, counts["en"])
    return max(counts, key=counts.__getitem__)


def _words(text: str, values: Mapping[str, dict[str, float]]) -> list[str]:
    """Return the words of a text; what an elision joins (`l'école`) is apart."""
    words = _WORD.findall(text.lower())
    if "'" not in text and "’" not in text:
        return words
    found: list[str] = []
    for word in words:
        plain = word.replace("’", "'")
        found += [plain] if plain in values else plain.split("'")
    return found


def _evidence(words: Iterable[str], values: Mapping[str, dict[str, float]]) -> dict[str, float]:
    """Return what words, in lower case with their accents, say for each language."""
    letters = _letter_values()
    scores: dict[str, float] = {}
    for word in dict.fromkeys(words):
        for language, value in values.get(word, {}).items():
            scores[language] = scores.get(language, 0.0) + value
        if not word.isascii():
            for letter in letters.keys() & set(word):
                for language, value in letters[letter].items():
                    scores[language] = scores.get(language, 0.0) + value
    return scores


def _by_script(text: str) -> str:
    """Return the language that alone has the script of most of a text's words, or ""."""
    found: Counter[str] = Counter()
    kana = han = 0
    for char in text:
        if char < "\u0370":
            continue
        code = ord(char)
        if 0x3040 <= code <= 0x30FF:
            kana += 1
        elif 0x3400 <= code <= 0x9FFF or code >= 0x20000:
            han += 1
        elif 0xAC00 <= code <= 0xD7AF:
            found["ko"] += 1
        else:
            for first, last, language in _ONE_LANGUAGE:
                if first <= code <= last:
                    found[language] += 1
                    break
    if kana or han:
        found["ja" if kana > KANA_SHARE * (kana + han) else "zh"] += kana + han
    if not found:
        return ""
    language, chars = found.most_common(1)[0]
    per_word = _CHARS_PER_WORD if language in ("zh", "ja", "ko", "th") else 4
    others = len(re.findall(r"[a-zA-ZÀ-ɏ]{2,}|[а-яА-Я]{2,}", text))
    return language if chars / per_word >= others else ""
