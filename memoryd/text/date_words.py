"""Words for dates in some forty languages, read from `date_words.json`.

`tools/date_words.py` makes that file from CLDR and describes the meanings.
"""

import json
import re
from collections.abc import Iterable, KeysView, Mapping
from functools import cache, lru_cache
from pathlib import Path
from sys import intern
from typing import NamedTuple

import msgspec

NUMBER = "<n>"
_TOKEN = re.compile(r"\d+|[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u0900-\u0d7f\u200c])*|[^\w\s]")
_TOKENS_REMEMBERED = 512
"""Tokens whose phrases are kept. A language has some forty."""


class Phrase(NamedTuple):
    """A phrase as tokens, of which `NUMBER` is any number, and its meanings."""

    tokens: tuple[str, ...]
    meanings: tuple[str, ...]


_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(tuple[Phrase, ...]).decode


@lru_cache(_TOKENS_REMEMBERED)
def _unpacked(packed: bytes) -> tuple[Phrase, ...]:
    return _UNPACK(packed)


class PhraseTable:
    """Phrases by a token, longest first.

    They are packed until a text has the token: most belong to languages that the notes do not have.
    """

    def __init__(self, phrases: Mapping[str, list[str]], meanings: Mapping[str, list[str]]) -> None:
        self._packed = {
            token: _PACK(
                sorted(
                    (Phrase(tuple(phrase.split()), tuple(meanings[phrase])) for phrase in listed),
                    key=lambda phrase: -len(phrase.tokens),
                )
            )
            for token, listed in phrases.items()
        }

    @property
    def tokens(self) -> KeysView[str]:
        """Return the tokens that have phrases."""
        return self._packed.keys()

    def of(self, token: str) -> tuple[Phrase, ...]:
        """Return the phrases of a token."""
        packed = self._packed.get(token)
        return () if packed is None else _unpacked(packed)


class DateWords(NamedTuple):
    """The table.

    `spaced` has the phrases of words between spaces by their first token, `unspaced` any others,
    of which each character is a token. `after_number` has the phrases of `spaced` that begin with a
    number by their second token, `months` the names of months by their meaning. `numbers` maps a
    word to its number. A word of `needs` is a date only near one of these words, one without any
    only with a year; a word of `blocked` is none behind one of these.
    """

    spaced: PhraseTable
    after_number: PhraseTable
    unspaced: PhraseTable
    months: PhraseTable
    numbers: dict[str, int]
    needs: dict[str, frozenset[str]]
    blocked: dict[str, frozenset[str]]


def words_of(text: str) -> list[str]:
    """Return what `tokens_of` finds, in half the time."""
    return _TOKEN.findall(text)


def tokens_of(text: str) -> list[re.Match[str]]:
    """Return the words, numbers and punctuation marks of a text."""
    return list(_TOKEN.finditer(text))


@cache
def date_words() -> DateWords:
    """Return the table. The first call reads it from disk, in some 10 ms."""
    raw = json.loads(Path(__file__).with_name("date_words.json").read_text(encoding="utf-8"))
    spaced = _by_first(raw["spaced"])
    after_number: dict[str, list[str]] = {}
    for phrase in spaced[NUMBER]:
        after_number.setdefault(phrase.split()[1], []).append(phrase)
    months: dict[str, list[str]] = {}
    for phrase, meanings in raw["spaced"].items():
        for meaning in meanings:
            if meaning[0] in "ma" and meaning[1:].isdigit():
                months.setdefault(meaning, []).append(phrase)
    return DateWords(
        PhraseTable(spaced, raw["spaced"]),
        PhraseTable(after_number, raw["spaced"]),
        PhraseTable(_by_first(raw["unspaced"]), raw["unspaced"]),
        PhraseTable(months, raw["spaced"]),
        {word: int(n) for n, words in raw["numbers"].items() for word in words},
        {word: frozenset(map(intern, near)) for word, near in raw["needs"].items()},
        {word: frozenset(before) for word, before in raw["blocked"].items()},
    )


def _by_first(phrases: Iterable[str]) -> dict[str, list[str]]:
    """Return phrases, whose tokens stand between spaces, by their first token."""
    found: dict[str, list[str]] = {}
    for phrase in phrases:
        found.setdefault(phrase.partition(" ")[0], []).append(phrase)
    return found
