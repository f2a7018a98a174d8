"""Search syntax and file filters. Pure.

`"…"`, `-word`, `-"…"`, `path:GLOB`, `source:NAME`, `since:DATE`, `until:DATE`, `origin:NAME`,
`conversation:NAME`, `tag:NAME`, `[NAME:VALUE]`, `[NAME]` and `NAME:VALUE` of a property are
operators. Anything else is plain text, and so is an operator with an invalid value.
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from memoryd.messages import NO_FACTS, FileFacts, FileKey, FileStat
from memoryd.text import periods
from memoryd.text.front_matter import tags
from memoryd.text.normal_form import composed
from memoryd.text.periods import Period, read_period
from memoryd.text.titles import title_key
from memoryd_client.schema.search import Origin
from memoryd_client.shared.citation import read_citation

SOURCES = ("memory", "sessions")
_FIELDS = {
    "source": "sources",
    "path": "path_glob",
    "since": "since",
    "until": "until",
    "origin": "origins",
    "conversation": "conversation",
}
"""Operators, and the fields of `Filters` that they set."""
MAX_GLOB_CHARS = 500
MAX_GLOB_STARS = 10
"""Limits on a glob, because matching takes time for each star."""

_QUOTED = re.compile(r'"([^"]{2,200})"')
# Quoted text is skipped, because it contains no operators.
_OR_QUOTED = r'"[^"]{2,200}"|(?:^|(?<=\s))'
_NAMED = re.compile(
    _OR_QUOTED + r'(?:(path|source|since|until|tag|origin|conversation):("[^"]+"|\S+))'
)
_PROPERTY = re.compile(
    _OR_QUOTED
    + r"""(?:\[(["']?)([^\[\]"':]{1,100})\1(?:: ?("[^"\]]{0,200}"|[^\[\]"]{0,200}))?\](?![(\]])"""
    + r"""|([^\W\d_][\w-]{0,99}):(?!//)("[^"]+"|[^\s"]+))"""
)
_WITHOUT = re.compile(_OR_QUOTED + r'(?:-(?:([^\W\d_][^\W_]{2,})|"([^"]{2,200})")(?=\s|$))')
_SPANS = re.compile(r"((?:(?<=/)|\A)\*\*/|\*{2,})")


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on files; None means any. Dates are inclusive.

    A file must have each of the `tags`, and each of the `properties`: a name in lower case, and the
    key of a value; None: any value. `origins` and `conversation`, the name of a transcript, are
    conditions on lines.
    """

    sources: frozenset[str] | None = None
    path_glob: str | None = None
    since: datetime.date | None = None
    until: datetime.date | None = None
    tags: tuple[str, ...] = ()
    properties: tuple[tuple[str, str | None], ...] = ()
    origins: frozenset[str] | None = None
    conversation: str | None = None

    def both(self, other: "Filters") -> "Filters":
        """Return the conditions of both; where both have one, that of `self`."""
        return Filters(
            self.sources or other.sources,
            self.path_glob or other.path_glob,
            self.since or other.since,
            self.until or other.until,
            self.tags + other.tags,
            self.properties + other.properties,
            self.origins or other.origins,
            self.conversation or other.conversation,
        )

    @property
    def empty(self) -> bool:
        """Return whether every file passes."""
        return self == NO_FILTERS

    @property
    def of_lines(self) -> bool:
        """Return whether there are conditions on lines."""
        return self.origins is not None or self.conversation is not None

    def accept_line(self, key: FileKey, origin: Origin, conversation: str) -> bool:
        """Return whether a line of a file may be shown; `conversation` is cited for it, or ""."""
        if self.origins is not None and origin not in self.origins:
            return False
        cited = conversation_of(conversation)
        return self.conversation is None or self.conversation in (key.path, cited)

    def accept(self, key: FileKey, stat: FileStat, facts: FileFacts = NO_FACTS) -> bool:
        """Return whether a file's chunks may be candidates."""
        if self.sources is not None and key.source not in self.sources:
            return False
        if self.conversation not in (None, key.path) and key.source == SOURCES[1]:
            return False
        if self.path_glob is not None and not _matches(self.path_glob, key.path):
            return False
        if not _has_tags(facts, self.tags) or not _has_properties(facts, self.properties):
            return False
        if self.since is None and self.until is None:
            return True
        found = period_of(stat, facts)
        return (self.since or found.last) <= found.last and found.first <= (
            self.until or found.first
        )


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: its text, excluded words (`without`), `required` strings, and file filters.

    `without` has phrases too. Quoted strings are only required in a query of nothing else; in a
    longer one they may be in another chunk than the answer.
    """

    text: str
    without: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    filters: Filters = NO_FILTERS


def _has_tags(facts: FileFacts, wanted: tuple[str, ...]) -> bool:
    """Return whether a file has each tag, or a tag nested in it."""
    if not wanted:
        return True
    found = [tag.lower() for tag in tags(facts.properties)]
    return all(any(tag == each or tag.startswith(f"{each}/") for tag in found) for each in wanted)


def _has_properties(facts: FileFacts, wanted: tuple[tuple[str, str | None], ...]) -> bool:
    for name, value in wanted:
        found = facts.properties.get(name)
        if found is None or (value is not None and value not in map(title_key, found)):
            return False
    return True


def parse(typed: str, is_property: Callable[[str], bool] = lambda name: False) -> Query:
    """Parse a query; never fails. `is_property`: some file has a property of this name."""
    fields: dict[str, Any] = {}
    wanted: list[tuple[str, str | None]] = []
    labels: list[str] = []

    def take(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        name, value = match[1], match[2].strip('"')
        if name == "tag" and (label := value.strip("#/ ").lower()):
            labels.append(label)
            return ""
        meaning = _meaning(name, value)
        if meaning is None or name not in _FIELDS or _FIELDS[name] in fields:
            return match[0]
        fields[_FIELDS[name]] = meaning
        return ""

    def take_property(match: re.Match[str]) -> str:
        name, value = match[2] or match[4], match[3] or match[5]
        if name is None or not is_property(name.strip().lower()):
            return match[0]
        bare = (value or "").strip().strip('"')
        wanted.append((name.strip().lower(), title_key(bare) if bare else None))
        return ""

    text, without = typed, list[str]()
    if ":" in text or "[" in text:  # most questions have no operator, and no pattern is tried
        text = _PROPERTY.sub(take_property, _NAMED.sub(take, text))
    question = " ".join(text.split())
    if "-" in text:
        without = [word or phrase for word, phrase in _WITHOUT.findall(text) if word or phrase]
        question = " ".join(_WITHOUT.sub(lambda m: " " if m[1] or m[2] else m[0], text).split())

    if without and not question:  # nothing that the words could be excluded from
        without, question = [], " ".join(text.split())
    quoted = _QUOTED.findall(question) if '"' in question else []
    only_quoted = bool(quoted) and not _QUOTED.sub("", question).strip()
    required = tuple(quoted) if only_quoted else ()
    filters = Filters(**fields, tags=tuple(labels), properties=tuple(wanted))
    return Query(question, tuple(without), required, filters)


def _meaning(name: str, value: str) -> object | None:
    """Return the value of an operator, or None if it is invalid."""
    if name == "source":
        return frozenset({value.lower()})
    if name == "path":
        usable = 0 < len(value) <= MAX_GLOB_CHARS and value.count("*") <= MAX_GLOB_STARS
        if not usable:
            return None
        # A plain name matches all paths that contain it.
        return value if any(char in value for char in "*?") else f"**{value}**"
    if name == "origin":
        return frozenset({value.lower()}) if value.lower() in set(Origin) else None
    if name == "conversation":
        # Anything else is a word of the question, as in "conversation:yesterday".
        return conversation_of(value) if value.startswith(f"{SOURCES[1]}/") else None
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        return None


def conversation_of(citation: str) -> str:
    """Return the name of the transcript that a citation names, with or without lines."""
    cited = read_citation(citation.strip())
    return citation.strip() if cited is None else cited.path


def period_of(stat: FileStat, facts: FileFacts) -> Period:
    """Return the days that filters compare: a file's own, else that of its last change."""
    return read_period(facts.date) or periods.day(modified_on(stat))


def modified_on(stat: FileStat) -> datetime.date:
    """Return the local date of a file's last change."""
    return datetime.datetime.fromtimestamp(stat.mtime_ns / 1e9).date()


def _matches(glob: str, path: str) -> bool:
    return glob_pattern(composed(glob)).fullmatch(composed(path)) is not None


@lru_cache(maxsize=64)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a path glob: `*` and `?` stay within a folder, `**/` spans folders, `**` anything.

    The part between two stars matches at its first occurrence, because no later one could do
    better. So no glob takes longer than the square of the path's length.
    """
    first, *rest = _SPANS.split(glob)
    pattern = _within_folders(first, last=not rest)
    for position in range(0, len(rest), 2):
        lead = "(?:[^/]*/)*?" if rest[position] == "**/" else ".*?"
        last = position == len(rest) - 2
        part = lead + _within_folders(rest[position + 1], last=last)
        pattern += part if last else f"(?>{part})"
    return re.compile(pattern, re.DOTALL)


def _within_folders(glob: str, *, last: bool) -> str:
    """Return the pattern of a part without `**`; the `last` part must reach the path's end."""
    first, *rest = ("[^/]".join(map(re.escape, part.split("?"))) for part in glob.split("*"))
    stars = [f"(?>[^/]*?{part})" for part in rest]
    if last and rest:
        stars[-1] = f"[^/]*{rest[-1]}"
    return "".join((first, *stars))
