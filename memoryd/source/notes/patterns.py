"""Patterns in the syntax of `.gitignore`, for one path at a time.

`pathspec` reads a pattern; which of several decides is seen to here, as git does: the last that
matches the path itself. A folder that a pattern matches takes all below it along, but that is for
the walk to heed, which goes from the top down.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

MAX_PATTERNS = 1_000
MAX_CHARS = 4_096
"""Of one pattern: no path is longer."""
MAX_FREEDOM = 2
"""How many `*` a pattern may have beyond the first of each part, and `**` beyond one at its start.
Each multiplies the steps that a long name may take, all in one call that holds up every thread."""

_NESTED_SET = re.compile(r"(?<!\\)\[[^\]]*(?:\[|--|&&|~~|\|\|)")
"""What `re` warns of, as it may mean something else one day; POSIX classes begin so."""


class PatternError(ValueError):
    """A pattern can't be used; the message says why."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[str]
    chosen: bool
    folders_only: bool


class Patterns:
    """The patterns of one folder, in their order."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Read patterns; blank lines and comments are none. Raises `PatternError`."""
        self._patterns = [found for line in lines if (found := _read(line)) is not None]

    @classmethod
    def lenient(cls, lines: Iterable[str]) -> tuple["Patterns", str | None]:
        """Read what can be used; the second says what can't, if anything."""
        patterns = cls(())
        problems: list[str] = []
        for number, line in enumerate(lines, start=1):
            if len(patterns._patterns) == MAX_PATTERNS:
                problems.append(
                    f"not used from line {number} on: more than {MAX_PATTERNS:,} patterns"
                )
                break
            try:
                patterns._patterns += cls([line])._patterns
            except PatternError as error:
                problems.append(f"line {number} is not used: {error}")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return patterns, f"{problems[0]}{more}" if problems else None

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Say whether a path is chosen; None when no pattern matches it.

        `path` is relative to the folder of the patterns, with `/` between its parts.
        """
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return pattern.chosen
        return None


def _read(line: str) -> _Pattern | None:
    if len(line) > MAX_CHARS:
        raise PatternError("it is too long")
    text = re.sub(r"(?<!\\) +$", "", line)
    if not text or text.startswith("#"):
        return None
    negation = "!" if text.startswith("!") else ""
    body = text[len(negation) :]
    folders_only = body.endswith("/")
    segments = [_simplified(segment) for segment in body.rstrip("/").split("/")]
    inner = segments[1:] if segments[0] == "**" else segments
    if sum(1 if part == "**" else max(0, part.count("*") - 1) for part in inner) > MAX_FREEDOM:
        raise PatternError("it has too many wildcards")
    if segments[-1] == "**":
        segments.append("*")
    if segments[-1] == "*":
        # For `*` alone pathspec has an expression that is true of any path, also of parts of one.
        segments[-1] = "?*"
    return _compiled(negation + "/".join(segments), folders_only)


def _simplified(segment: str) -> str:
    """Return a segment with runs of stars, which mean no more than one, made one."""
    if len(segment) > 1 and not segment.strip("*"):
        return "**"
    return re.sub(r"\*{2,}", "*", segment)


def _compiled(text: str, folders_only: bool) -> _Pattern | None:
    if _NESTED_SET.search(text):
        raise PatternError("its brackets are not understood")
    try:
        (found,) = GitIgnoreSpec.from_lines([text]).patterns
    except (ValueError, re.error) as error:
        raise PatternError("it is not a pattern") from error
    if found.regex is None or found.include is None:
        return None
    # A name may hold line ends.
    return _Pattern(re.compile(found.regex.pattern, re.DOTALL), found.include, folders_only)
