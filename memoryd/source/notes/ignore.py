"""`.memoryignore` files, which exclude paths in the syntax of `.gitignore`.

A file applies to its directory and everything below; the file nearest to a path decides, as in git.
Nothing below a hidden directory can be included again.

If a file can't be read temporarily (no descriptors, no memory, a disk error), hidden paths stay
hidden: the last rules stay in force, or the check raises an error.
"""

import errno
import os
import re
import stat as stat_module
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from memoryd.fs.safe_open import RegularFile
from memoryd.messages import split_lines
from memoryd.source.filenames import IGNORE_FILE

MAX_PATTERNS = 1_000
MAX_CHARS = 4_096
"""Maximum characters of a pattern, because no path is longer."""
MAX_FREEDOM = 2
"""Maximum `*` beyond the first of each part, and `**` beyond one at the start, because each
multiplies the steps for a long name, all in one call that holds up every thread."""

_NESTED_SET = re.compile(r"(?<!\\)\[[^\]]*(?:\[|--|&&|~~|\|\|)")
"""Sets that `re` warns about because their meaning may change; POSIX classes begin so."""


class IgnorePatternError(ValueError):
    """Invalid pattern; the message has the reason."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[str]
    chosen: bool
    folders_only: bool


class Patterns:
    """Ordered patterns of one directory."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Parse patterns, skipping blank lines and comments. Raises `IgnorePatternError`."""
        self._patterns = [found for line in lines if (found := _parse_pattern(line)) is not None]

    @classmethod
    def lenient(cls, lines: Iterable[str]) -> tuple["Patterns", str | None]:
        """Return the valid patterns, and a message about the invalid ones, if any."""
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
            except IgnorePatternError as error:
                problems.append(f"line {number} is not used: {error}")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return patterns, f"{problems[0]}{more}" if problems else None

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Return whether a path is chosen; None if no pattern matches.

        `path` is relative to the directory of the patterns, with `/` between its parts.
        """
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return pattern.chosen
        return None


def _parse_pattern(line: str) -> _Pattern | None:
    # Loads RE2 too: 2 MB that only users with patterns need.
    from pathspec import GitIgnoreSpec

    if len(line) > MAX_CHARS:
        raise IgnorePatternError("it is too long")
    text = re.sub(r"(?<!\\) +$", "", line)
    if not text or text.startswith("#"):
        return None
    negation = "!" if text.startswith("!") else ""
    body = text[len(negation) :]
    folders_only = body.endswith("/")
    segments = [_simplified(segment) for segment in body.rstrip("/").split("/")]
    inner = segments[1:] if segments[0] == "**" else segments
    if sum(1 if part == "**" else max(0, part.count("*") - 1) for part in inner) > MAX_FREEDOM:
        raise IgnorePatternError("it has too many wildcards")
    if segments[-1] == "**":
        segments.append("*")
    if segments[-1] == "*":
        # For a lone `*`, pathspec's expression matches any path, even a part of one.
        segments[-1] = "?*"
    text = negation + "/".join(segments)
    if _NESTED_SET.search(text):
        raise IgnorePatternError("its brackets are not supported")
    try:
        (found,) = GitIgnoreSpec.from_lines([text], backend="simple").patterns
    except (ValueError, re.error) as error:
        raise IgnorePatternError("it is not a valid pattern") from error
    if found.regex is None or found.include is None:
        return None
    # A name may contain line ends.
    return _Pattern(re.compile(found.regex.pattern, re.DOTALL), found.include, folders_only)


def _simplified(segment: str) -> str:
    """Return a segment with each run of stars, equivalent to one, replaced by one."""
    if len(segment) > 1 and not segment.strip("*"):
        return "**"
    return re.sub(r"\*{2,}", "*", segment)


MAX_BYTES = 1024 * 1024
SETTLED_NS = 1_000_000_000
"""Age from which a file is cached; a younger one may change again within the same timestamp."""

PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)

_Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """Ignore rules of one directory and its parents.

    `folder` ends in `/`. Immutable, so that threads can share it.
    """

    folder: str
    patterns: Patterns
    above: "Rules | None"

    def hide(self, path: str, *, folder: bool) -> bool:
        """Return whether a path is hidden, if its own directory is not."""
        rules: Rules | None = self
        while rules is not None:
            verdict = rules.patterns.verdict(path[len(rules.folder) :], folder=folder)
            if verdict is not None:
                return verdict
            rules = rules.above
        return False


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    signature: _Signature
    patterns: Patterns | None
    problem: str | None


class IgnoreFiles:
    """Cache of ignore files, read on demand and kept until they change.

    Thread-safe, because entries are replaced and never changed. `base` returns the trusted
    directory for a path, below which no links are allowed.
    """

    def __init__(self, base: Callable[[str], str] = os.path.dirname) -> None:
        self._base = base
        self._kept: dict[str, _IgnoreFile] = {}

    def below(
        self, above: Rules | None, folder: str, problems: dict[str, str] | None = None
    ) -> Rules | None:
        """Return the rules inside a directory; `above` are those for the directory itself.

        Adds the problems of invalid ignore files to `problems`, by path. Raises `OSError` if a
        file is temporarily unreadable.
        """
        path = os.path.join(folder, IGNORE_FILE)
        if (found := self._find(path)) is None:
            return above
        if found.problem is not None and problems is not None:
            problems[path] = found.problem
        if found.patterns is None:
            return above
        return Rules(folder.rstrip("/") + "/", found.patterns, above)

    def on_the_way(
        self, top: str, path: str, *, folder: bool, problems: dict[str, str] | None = None
    ) -> tuple[Rules | None, bool]:
        """Return the rules for a path in `top` or below, and whether they hide it."""
        rules: Rules | None = None
        at = top.rstrip("/")
        parts = path[len(at) :].strip("/").split("/")
        for position, part in enumerate(parts):
            if not part:
                break  # the path is `top` itself
            rules = self.below(rules, at or "/", problems)
            at = f"{at}/{part}"
            last = position == len(parts) - 1
            if rules is not None and rules.hide(at, folder=folder or not last):
                return rules, True
        return rules, False

    def _find(self, path: str) -> _IgnoreFile | None:
        try:
            found = os.lstat(path)
        except OSError as error:
            if error.errno in PASSING:
                raise
            self._kept.pop(path, None)
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return None
            return _IgnoreFile((0, 0, 0, 0), None, _hides_nothing(error.strerror or str(error)))
        signature = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        kept = self._kept.get(path)
        if kept is not None and kept.signature == signature:
            return kept
        try:
            read = _read(path, self._base(path), found, signature)
        except OSError:
            if kept is None:
                raise
            return kept
        if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > SETTLED_NS:
            self._kept[path] = read
        return read


def _read(path: str, base: str, found: os.stat_result, signature: _Signature) -> _IgnoreFile:
    patterns, problem = None, None
    try:
        if stat_module.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "a symbolic link; links are not followed")
        if not stat_module.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with RegularFile(path, base) as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OSError(errno.EFBIG, "larger than 1 MiB")
        patterns, problem = Patterns.lenient(split_lines(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        problem = _hides_nothing("not UTF-8")
    except OSError as error:
        if error.errno in PASSING:
            raise
        problem = _hides_nothing(error.strerror or str(error))
    return _IgnoreFile(signature, patterns, problem)


def _hides_nothing(problem: str) -> str:
    return f"{problem}; it hides nothing"
