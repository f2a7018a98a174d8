"""Stems of folded words. Pure.

The index has Porter's stems, which FTS5 computes, of all words. Forms of a word in other languages
than English share a Snowball stem, which a search computes: see `memoryd/search/word_forms.py`.
"""

import re
import sys
import threading
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

from memoryd.text.porter import porter_stem

REMEMBERED_STEMS = 4_096
"""Cached stems, at most 1 MiB. A search stems 100 words; with 1,024 cached, it finds 96."""
_LEAST_STEMMED_BYTES, _MOST_STEMMED_BYTES = 3, 64
"""Limits of fts5_tokenize.c, in UTF-8."""
_stemming = threading.Lock()
"""Guards the stemmers, which are not thread-safe."""

_ALGORITHMS = {
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "pt": "portuguese",
    "it": "italian",
    "ca": "catalan",
    "ro": "romanian",
    "nl": "dutch",
    "sv": "swedish",
    "da": "danish",
    "nb": "norwegian",
    "fi": "finnish",
    "et": "estonian",
    "lt": "lithuanian",
    "hu": "hungarian",
    "pl": "polish",
    "cs": "czech",
    "tr": "turkish",
    "el": "greek",
    "ru": "russian",
    "sr": "serbian",
    "ar": "arabic",
    "fa": "persian",
    "hi": "hindi",
    "ta": "tamil",
    "id": "indonesian",
    "hy": "armenian",
    # Relatives, whose endings are nearly the same.
    "sk": "czech",
    "hr": "serbian",
    "sl": "serbian",
    "uk": "russian",
    "bg": "russian",
    "mk": "russian",
    "ms": "indonesian",
}
"""Snowball's algorithm for each language; English has Porter's stems already."""


_UKRAINIAN = str.maketrans("іїє", "иие")
"""Vowels of Ukrainian endings as Russian writes them."""
_ARTICLE = re.compile("(?<=...)(?:ът|ят|та|то|те|от)$")
"""Articles that Bulgarian and Macedonian put behind a noun."""


def is_plain(word: str) -> bool:
    """Return whether the index certainly has a word as its stem, and as one word."""
    return word.isascii() and word.isalnum()


@lru_cache(maxsize=REMEMBERED_STEMS)
def stem(word: str) -> str:
    """Return Porter's stem of a folded word; like FTS5, not of very short or long ones."""
    if not _LEAST_STEMMED_BYTES <= len(word.encode()) <= _MOST_STEMMED_BYTES:
        return word
    return porter_stem(word)


def stem_in(language: str, word: str) -> str:
    """Return a folded word's Snowball stem in a language, the word where there is no algorithm."""
    try:
        return _stem_in(language, word)
    except (OSError, ImportError):
        return word  # the stemmer can't be read for lack of descriptors; the next search tries


@lru_cache(maxsize=REMEMBERED_STEMS)
def _stem_in(language: str, word: str) -> str:
    algorithm = _ALGORITHMS.get(language)
    if algorithm is None:
        return word
    if language == "uk":
        word = word.translate(_UKRAINIAN)
    elif language in ("bg", "mk"):
        word = _ARTICLE.sub("", word)
    return _stemmed(algorithm, word)


def has_stems(language: str) -> bool:
    """Return whether `stem_in` knows the language."""
    return language in _ALGORITHMS


def common_beginning(first: str, *others: str) -> str:
    """Return the longest text with which all words begin."""
    for word in others:
        same = 0
        for one, other in zip(first, word, strict=False):
            if one != other:
                break
            same += 1
        first = first[:same]
    return first


def _stemmed(algorithm: str, word: str) -> str:
    with _stemming:
        return str(_stemmer(algorithm).stemWord(word))


@cache
def _stemmer(algorithm: str) -> Any:
    package = "snowballstemmer"
    if package not in sys.modules and (spec := find_spec(package)) is not None:
        # Its own code would load the stemmers of all languages: 3 MiB, of which few are asked for.
        sys.modules[package] = module_from_spec(spec)
    module = import_module(f"{package}.{algorithm}_stemmer")
    return getattr(module, f"{algorithm.title()}Stemmer")()
