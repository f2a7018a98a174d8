"""Patterns of one's own for secrets: read, looked for, refused if they can take for ever. Pure."""

import importlib
import re
from collections.abc import Iterator
from typing import Any

_WINDOW_CHARS = 2 * 1024
"""Patterns of one's own see no more at once: the time they take can be the square of it. What half
the overlap holds is found wherever it stands."""
_OVERLAP_CHARS = 1024
_ENDLESS_REPEATS = 100

# The only way to see the structure of a pattern, and to change it; `re` itself works with them.
_parser: Any = importlib.import_module("re._parser")
_compiler: Any = importlib.import_module("re._compiler")
_constants: Any = importlib.import_module("re._constants")


class PatternError(ValueError):
    """A configured pattern can't be used; the message names it."""


def compiled(pattern: str) -> re.Pattern[str]:
    """Read a pattern. Raises `PatternError`."""
    try:
        parsed = _parser.parse(pattern)
        found: re.Pattern[str] = _compiler.compile(_with_atomic_groups(parsed))
    except (re.error, OverflowError, RecursionError) as error:
        problem = f"redact.patterns: {pattern!r} is no regular expression: {error}"
        raise PatternError(problem) from None
    if _can_take_forever(parsed, in_a_repeat=False):
        raise PatternError(
            f"redact.patterns: {pattern!r} can take for ever: it repeats what can be read in more"
            " than one way; use possessive repeats (`++`, `*+`) or bounds (`{1,40}`)"
        )
    return found


def _with_atomic_groups(items: Any) -> Any:
    """Return a pattern with `(?>(?:ab?c)*)` for `(?:ab?c)*+`, which is the same by definition.

    Before 3.11.5 Python keeps half of what doesn't fit of the latter, and later ones raise a
    SystemError where groups are in it: a secret would stay, or the text could not be read at all.
    """
    changed = _parser.SubPattern(items.state)
    for operation, argument in items:
        part = _changed(argument)
        if operation is _constants.POSSESSIVE_REPEAT:
            repeat = _parser.SubPattern(items.state, [(_constants.MAX_REPEAT, part)])
            operation, part = _constants.ATOMIC_GROUP, repeat
        changed.append((operation, part))
    return changed


def _changed(argument: Any) -> Any:
    if hasattr(argument, "getwidth"):
        return _with_atomic_groups(argument)
    if isinstance(argument, tuple | list):
        return type(argument)(map(_changed, argument))
    return argument


def everywhere(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield what a pattern of one's own matches, in windows that share their ends."""
    start = 0
    while True:
        end = start + _WINDOW_CHARS
        if end < len(text):
            space = text.rfind(" ", end - _OVERLAP_CHARS // 2, end)
            end = space if space >= 0 else end
        yield from (match.span() for match in pattern.finditer(text, start, end))
        if end >= len(text):
            return
        start = end - _OVERLAP_CHARS


def _can_take_forever(items: Any, *, in_a_repeat: bool) -> bool:
    """Say whether a text can be read in very many ways: `(a+)+`, `(a|a)*`, `.*.*`.

    Careful rather than exact: `(?:a+b)+` counts too.
    """
    before = ""
    for operation, argument in items:
        kind = str(operation)
        repeats = kind in ("MAX_REPEAT", "MIN_REPEAT")
        endless = repeats and argument[1] >= _ENDLESS_REPEATS
        repeated = repr(argument[2]) if endless else ""
        if before and repeated and (before == repeated or "[(ANY, None)]" in (before, repeated)):
            return True
        before = repeated
        if in_a_repeat and repeats and argument[0] != argument[1]:
            return True
        if in_a_repeat and kind == "BRANCH":
            starts = {repr(branch[:1]) for branch in argument[1]}
            if len(starts) < len(argument[1]) or not all("(LITERAL," in s for s in starts):
                return True
        again = endless or (in_a_repeat and kind not in ("POSSESSIVE_REPEAT", "ATOMIC_GROUP"))
        if any(_can_take_forever(body, in_a_repeat=again) for body in _bodies(argument)):
            return True
    return False


def _bodies(argument: Any) -> Iterator[Any]:
    if hasattr(argument, "getwidth"):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _bodies(part)
