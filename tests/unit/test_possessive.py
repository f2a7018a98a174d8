"""No pattern of the product has a construct that a supported Python matches wrongly.

`x*+` is `(?>x*)` by definition. But if `x` is more than plain characters, Python before 3.11.5
(Debian 12 has 3.11.2) keeps the text of the last `x` that failed: `(?:.(?!D))++` matches ABC of
ABCDE. A value then included the quote after it, and a file was no longer JSON. With groups in `x`,
3.11 to 3.13.0 even raise a SystemError. Lazy repeats of one character (`.+?(?!D)`), bounded repeats
and atomic groups are correct in all versions. Lazy repeats also need no memory per repeat.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import memoryd
import memoryd_client
from memoryd.search.query import glob_pattern
from memoryd.text import first_masking, named_secrets, vendor_tokens

parser: Any = importlib.import_module("re._parser")
PACKAGES = (memoryd, memoryd_client)
PLAIN = {"ANY", "IN", "LITERAL", "NOT_LITERAL"}
"""Operations that match one character, or nothing."""


def read_wrongly(pattern: str | bytes, flags: int = 0) -> list[str]:
    """Return the possessive repeats in a pattern that some Python matches wrongly."""
    return list(_read_wrongly(parser.parse(pattern, flags)))


def _read_wrongly(items: Any) -> Iterator[str]:
    for operation, argument in items:
        if str(operation) == "POSSESSIVE_REPEAT" and not _is_plain(*argument):
            yield repr(argument[2])
        for body in _bodies(argument):
            yield from _read_wrongly(body)


def _is_plain(least: int, _most: int, repeated: Any) -> bool:
    operation, argument = repeated[0]
    alternatives = argument[1] if str(operation) == "BRANCH" else [repeated]
    # By definition `(?:aa|a){2}+` matches aa, but not in any Python so far.
    if alternatives != [repeated] and (len(repeated) > 1 or least > 1):
        return False
    return all(str(part) in PLAIN for alternative in alternatives for part, _ in alternative)


def _bodies(argument: Any) -> Iterator[Any]:
    if hasattr(argument, "getwidth"):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _bodies(part)


def modules() -> Iterator[str]:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                yield module.name


def compiled(value: object) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a module's value."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | set | frozenset):
        for part in value:
            yield from compiled(part)
    elif isinstance(value, dict):
        yield from compiled(list(value.values()))


PATTERNS_AT_FIRST_USE = {
    first_masking.__name__: [
        *(pattern for _, pattern in (*first_masking._VENDORS, *first_masking._NAMED)),
        first_masking._USER,
    ],
    named_secrets.__name__: [rule.pattern for rule in named_secrets.RULES],
    vendor_tokens.__name__: [
        pattern for rows in vendor_tokens._table()[1].values() for _, pattern in rows
    ],
}
"""Patterns that are compiled when they are first used."""


def test_no_pattern_is_read_wrongly_by_some_python() -> None:
    wrong: list[tuple[str, list[str]]] = []
    seen = 0
    for name in modules():
        module = importlib.import_module(name)
        held = [found for value in vars(module).values() for found in compiled(value)]
        held += [re.compile(pattern) for pattern in PATTERNS_AT_FIRST_USE.get(name, ())]
        seen += len(held)
        wrong += [
            (name, bad) for found in held if (bad := read_wrongly(found.pattern, found.flags))
        ]
    assert wrong == []
    assert seen > 100
    assert read_wrongly(glob_pattern("a*b?/**/c*d**e").pattern) == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?:.(?!D))++", "(?:(?!D).)++", "(?:ab?c)*+", "(?:a(?:bb|cc))?+", "(?:a|b(?=c)){1,3}+"),
        *("((x)|y)*+", "(?P<q>a)(?:b(?P=q))*+", r"(?:a\b)++", "x(?=(?:(?:ab?c)*+))"),
        *("(?:a|b++c)*+", "(?:aa|a){2}+", "(?:abb|aa)*+"),
    ],
)
def test_what_some_python_reads_wrongly_is_seen(pattern: str) -> None:
    assert read_wrongly(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["[a-z]++", r"\w*+", r'(?:[^"\\]|\\.)*+', "(?:ab)++", "(?>(?:ab?c){0,2})", "(?:ab?c)*"],
)
def test_what_all_read_as_it_is_meant_is_not(pattern: str) -> None:
    assert read_wrongly(pattern) == []
