"""`.memoryignore` files, which exclude paths in the syntax of `.gitignore`.

A file applies to its directory and everything below; the file nearest to a path decides, as in git.
Nothing below a hidden directory can be included again.

A file that can't be used hides its whole directory, because nobody knows what it was meant to
hide. If memoryd runs out of descriptors or memory, or the disk is missing, the check raises an
error: then nothing new is read from there.
"""

import errno
import os
import re
import stat as stat_module
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from memoryd.fs.hang import tick
from memoryd.fs.safe_open import RegularFile
from memoryd.messages import split_lines
from memoryd.source.filenames import IGNORE_FILE
from memoryd.text.normal_form import composed

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
    def of_file(cls, lines: Iterable[str]) -> tuple["Patterns", str | None]:
        """Parse the lines of an ignore file; return also a message about lines left out, if any.

        A line left out may only have shown paths (`!…`). Any other invalid line raises
        `IgnorePatternError`, because nobody knows what it was meant to hide.
        """
        patterns = cls(())
        problems: list[str] = []
        for number, line in enumerate(lines, start=1):
            try:
                found = cls([line])._patterns
            except IgnorePatternError as error:
                if not line.startswith("!"):
                    raise IgnorePatternError(f"line {number}: {error}") from error
                problems.append(f"line {number} is not used: {error}")
                continue
            patterns._patterns += found
            if len(patterns._patterns) > MAX_PATTERNS:
                raise IgnorePatternError(f"more than {MAX_PATTERNS:,} patterns")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return patterns, f"{problems[0]}{more}" if problems else None

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Return whether a path is chosen; None if no pattern matches.

        `path` is relative to the directory of the patterns, with `/` between its parts, in any
        normal form of Unicode.
        """
        path = composed(path)
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return pattern.chosen
        return None


def _parse_pattern(line: str) -> _Pattern | None:
    # Loads RE2 too: 2 MB that only users with patterns need.
    from pathspec import GitIgnoreSpec

    if len(line) > MAX_CHARS:
        raise IgnorePatternError("it is too long")
    text = composed(re.sub(r"(?<!\\) +$", "", line))
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

PASSING = frozenset(
    {
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        *(errno.ENXIO, errno.ENODEV, errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT),
    }
)
"""Errors that concern memoryd or the whole disk, not only the file."""

_Signature = tuple[tuple[int, int, int, int], ...]
"""Times, size and inode of a file; those of a link are followed by those of its target."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Ignore rules of one directory and its parents.

    `folder` ends in `/`. Without `patterns`, everything is hidden, because the file can't be used.
    Immutable, so that threads can share it.
    """

    folder: str
    patterns: Patterns | None
    above: "Rules | None"

    def hide(self, path: str, *, folder: bool) -> bool:
        """Return whether a path is hidden, if its own directory is not."""
        rules: Rules | None = self
        while rules is not None:
            if rules.patterns is None:
                return True
            verdict = rules.patterns.verdict(path[len(rules.folder) :], folder=folder)
            if verdict is not None:
                return verdict
            rules = rules.above
        return False


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """Content of an ignore file. Without `patterns`, it can't be used, because of `problem`."""

    signature: _Signature
    patterns: Patterns | None
    problem: str | None

    @property
    def is_special(self) -> bool:
        """True if it has a problem, or is a link, whose target can change without an event."""
        return self.problem is not None or len(self.signature) > 1


class IgnoreFiles:
    """Cache of ignore files, read on demand and kept until they change.

    Thread-safe, because entries are replaced and never changed. `base` returns the trusted
    directory for a path, below which no links are allowed. Only an ignore file itself may be a link
    to another file of the same user.
    """

    def __init__(self, base: Callable[[str], str] = os.path.dirname) -> None:
        self._base = base
        self._kept: dict[str, IgnoreFile] = {}

    def below(
        self, above: Rules | None, folder: str, special: dict[str, IgnoreFile] | None = None
    ) -> Rules | None:
        """Return the rules inside a directory; `above` are those for the directory itself.

        Adds a special ignore file to `special`, by path. Raises `OSError` if its content is unknown
        for a reason that concerns more than the file.
        """
        path = os.path.join(folder, IGNORE_FILE)
        if (found := self._find(path)) is None:
            return above
        if special is not None and found.is_special:
            special[path] = found
        return Rules(folder.rstrip("/") + "/", found.patterns, above)

    def on_the_way(
        self, top: str, path: str, *, folder: bool, special: dict[str, IgnoreFile] | None = None
    ) -> tuple[Rules | None, bool]:
        """Return the rules for a path in `top` or below, and whether they hide it."""
        rules: Rules | None = None
        at = top.rstrip("/")
        parts = path[len(at) :].strip("/").split("/")
        for position, part in enumerate(parts):
            if not part:
                break  # the path is `top` itself
            rules = self.below(rules, at or "/", special)
            at = f"{at}/{part}"
            last = position == len(parts) - 1
            if rules is not None and rules.hide(at, folder=folder or not last):
                return rules, True
        return rules, False

    def differ(self, seen: Mapping[str, IgnoreFile]) -> bool:
        """Return whether any of these ignore files has changed. Blocking."""
        for path, before in seen.items():
            try:
                now = self._find(path)
            except OSError:
                continue
            if now is None or (now.signature, now.problem) != (before.signature, before.problem):
                return True
        return False

    def _find(self, path: str) -> IgnoreFile | None:
        tick(path)
        try:
            signature = _signature(path)
        except (FileNotFoundError, NotADirectoryError):
            self._kept.pop(path, None)
            return None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # nothing can be read by such a path
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
            raise
        kept = self._kept.get(path)
        if kept is not None and kept.signature == signature:
            return kept
        found = _read(path, self._base(path), signature)
        # An unusable file may become usable without any change, after a disk error for example.
        if found.patterns is not None and time.time_ns() - _changed_ns(signature) > SETTLED_NS:
            self._kept[path] = found
        return found


def _signature(path: str) -> _Signature:
    found = [os.lstat(path)]
    if stat_module.S_ISLNK(found[0].st_mode):
        with suppress(OSError):  # reading it reports the problem
            found.append(os.stat(path))
    return tuple((at.st_mtime_ns, at.st_ctime_ns, at.st_size, at.st_ino) for at in found)


def _changed_ns(signature: _Signature) -> int:
    return max(max(mtime_ns, ctime_ns) for mtime_ns, ctime_ns, _, _ in signature)


def _read(path: str, base: str, signature: _Signature) -> IgnoreFile:
    try:
        with RegularFile(path, base, own_link=True) as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OSError(errno.EFBIG, "larger than 1 MiB")
        return IgnoreFile(signature, *Patterns.of_file(split_lines(data.decode("utf-8-sig"))))
    except UnicodeDecodeError:
        problem = "not UTF-8"
    except IgnorePatternError as error:
        problem = str(error)
    except OSError as error:
        if error.errno in PASSING:
            raise
        problem = error.strerror or str(error)
    return IgnoreFile(signature, None, problem)
