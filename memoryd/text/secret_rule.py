"""Rule for a secret that follows a word, and tests of the values that rules find."""

from collections.abc import Callable
from typing import NamedTuple

from memoryd.text.secret_values import looks_secret

PASSWORD = "password"  # noqa: S105 - the kind
_SHORTEST_CHARS = 4
QUOTED = r"(?:\"([^\"\r\n]{4,100}+)\"|'([^'\r\n]{4,100}+)'(?![A-Za-z]))"
"""A secret in quotes, of which the last is no apostrophe in a word."""

Harmless = Callable[[str, str], bool]
"""Returns True for a value that is no secret, given the text from the word to it, and itself."""


class Rule(NamedTuple):
    """Pattern to match where its word occurs in lowercase text; its last group is the secret.

    If the secret `ends_sentence`, punctuation at its end is not part of it.
    """

    word: str
    kind: str
    pattern: str
    harmless: Harmless = lambda head, value: False
    shortest_chars: int = _SHORTEST_CHARS
    ends_sentence: bool = False


def is_word(head: str, value: str) -> bool:
    """Return whether a value is an ordinary word."""
    return not looks_secret(value)


def is_short_word(head: str, value: str) -> bool:
    """Return whether a value is an ordinary word, a number, or too short for a key."""
    return not looks_secret(value) or len(value) < 8 or value.isdigit()


def is_one_word(head: str, value: str) -> bool:
    """Return whether a quoted value is a single ordinary word."""
    return " " not in value and not looks_secret(value)


def is_no_mix(head: str, value: str) -> bool:
    """Return whether a value has fewer than two digits or signs among its letters."""
    signs = [char for char in value.rstrip(".,;:)!?") if not char.isalpha()]
    return not (2 <= len(signs) < len(value) and looks_secret(value))
