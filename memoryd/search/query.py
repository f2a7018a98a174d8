"""Reads what people type: operators, and a question that is plain text. Pure.

`"…"`, `-word`, `path:GLOB`, `source:NAME`, `since:DATE` and `until:DATE` are operators; anything
else, and each of them with a value that it can't have, is a part of the question.
"""

import datetime
import re
from dataclasses import dataclass
from typing import Any

from memoryd.search.filters import Filters

SOURCES = ("memory", "sessions")
_FIELDS = {"source": "sources", "path": "path_glob", "since": "since", "until": "until"}
"""Operators, and the conditions of `Filters` that they are."""
MAX_GLOB_CHARS = 500
MAX_GLOB_STARS = 10
"""More of them would make matching one path take for ever."""

_QUOTED = re.compile(r'"([^"]{2,200})"')
# What stands in quotes is passed over: it is no operator.
_OR_QUOTED = r'"[^"]{2,200}"|(?:^|(?<=\s))'
_NAMED = re.compile(_OR_QUOTED + r'(?:(path|source|since|until):("[^"]+"|\S+))')
_WITHOUT = re.compile(_OR_QUOTED + r"(?:-([^\W\d_][^\W_]{2,})(?=\s|$))")


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Query:
    """What was typed: the question, words that must not stand in a chunk, strings that must.

    Strings in quotes only must if nothing else is asked for: in a question they may stand in
    another chunk than the answer.
    """

    text: str
    without: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    filters: Filters = NO_FILTERS


def parse(typed: str) -> Query:
    """Read a query."""
    fields: dict[str, Any] = {}

    def take(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        name, value = match[1], match[2].strip('"')
        meaning = _meaning(name, value)
        if meaning is None or _FIELDS[name] in fields:
            return match[0]
        fields[_FIELDS[name]] = meaning
        return ""

    text = _NAMED.sub(take, typed)
    without = [word for word in _WITHOUT.findall(text) if word]
    question = " ".join(_WITHOUT.sub(lambda m: " " if m[1] else m[0], text).split())
    if without and not question:  # there is nothing that it could be left out of
        without, question = [], " ".join(text.split())
    quoted = _QUOTED.findall(question)
    only_quoted = bool(quoted) and not _QUOTED.sub("", question).strip()
    required = tuple(quoted) if only_quoted else ()
    return Query(question, tuple(without), required, Filters(**fields))


def _meaning(name: str, value: str) -> object | None:
    """Return the value of an operator, or None if it can't have this one."""
    if name == "source":
        return frozenset({value}) if value in SOURCES else None
    if name == "path":
        usable = 0 < len(value) <= MAX_GLOB_CHARS and value.count("*") <= MAX_GLOB_STARS
        return _glob(value) if usable else None
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        return None


def _glob(value: str) -> str:
    """Return a glob for what was typed: a name or folder alone stands for all that has it."""
    return value if any(char in value for char in "*?") else f"**{value}**"
