"""Walk for the files that match a glob, without following links.

Matches as `glob.glob(…, recursive=True)` does, whose time has no bound where links lead in circles.
"""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from memoryd.fs.safe_open import Descent
from memoryd.source.transcripts.stored import STORE_FILES

_ANY_DEPTH = "**"
_FILES = "|".join(("*.json*", *STORE_FILES))
_BELOW = ("**", _FILES)
"""Glob of the transcripts in a directory that is taken whole."""
_COPIES = frozenset({".git", ".snapshot", ".snapshots", ".stversions", ".Trash", ".zfs"})
"""Directories that hold old copies, which no wildcard matches."""


class _Folder(NamedTuple):
    """Directory to walk: its path below the first one, and the parts of the glob that may follow.

    `expected` are numbers of parts; all ways to match are followed at once, so that no directory is
    read twice.
    """

    path: str
    expected: frozenset[int]


class Glob:
    """Parts of a glob below a directory, such as `projects/**/*.jsonl`.

    `**` stands for any number of directories. No wildcard matches a dot at the start of a name.
    With `whole`, directories that match are taken whole, and wildcards match directories whose name
    starts with a dot. "" stands for the first directory.
    """

    def __init__(self, pattern: str, *, whole: bool = False) -> None:
        given = pattern.split("/") if pattern else []
        self._parts = [*given, *_BELOW] if whole else given
        self._ends = {len(given) - 1, len(self._parts) - 1}
        self._with_dots = whole
        self._matches = [_matcher(part) for part in self._parts]

    def find(self, descent: Descent, top: str) -> list[str]:
        """Return the sorted paths, relative to `top`, of the files that match. Blocking.

        `descent` begins in the directory `top`. Leaves out directories that can't be read.
        """
        found: list[str] = []
        seen: set[tuple[int, int, frozenset[int]]] = set()
        waiting = [_Folder("", self._with_depths({0}))]
        while waiting:
            folder = waiting.pop()
            try:
                descriptor = descent.enter(os.path.join(top, folder.path) if folder.path else top)
                stat = os.fstat(descriptor)
                # A bind mount can put a directory into itself.
                if (state := (stat.st_dev, stat.st_ino, folder.expected)) in seen:
                    continue
                seen.add(state)
                for name, is_folder in self._entries(descriptor):
                    path = f"{folder.path}/{name}" if folder.path else name
                    below, is_match = self._step(name, folder.expected, is_folder=is_folder)
                    if is_match and not is_folder:
                        found.append(path)
                    if below:
                        waiting.append(_Folder(path, below))
            except OSError:
                continue
        return sorted(found)

    def _entries(self, descriptor: int) -> Iterator[tuple[str, bool]]:
        with os.scandir(descriptor) as listing:
            for entry in listing:
                if not entry.is_symlink():
                    yield entry.name, entry.is_dir(follow_symlinks=False)

    def _step(
        self, name: str, expected: frozenset[int], *, is_folder: bool
    ) -> tuple[frozenset[int], bool]:
        """Return the parts that may follow below an entry, and whether the entry matches all."""
        following, is_match = set[int](), False
        for number in expected:
            part = self._parts[number]
            if name == part:  # also a name with brackets
                is_match |= number in self._ends
                following.add(number + 1)
            elif (
                name.startswith(".")
                and not part.startswith(".")
                and not (self._with_dots and is_folder and name not in _COPIES)
            ):
                continue
            if part == _ANY_DEPTH:
                is_match |= number in self._ends
                following.add(number)
            elif self._matches[number](name):
                is_match |= number in self._ends
                following.add(number + 1)
        return self._with_depths(following) if is_folder else frozenset(), is_match

    def _with_depths(self, numbers: set[int]) -> frozenset[int]:
        """Add the parts behind each `**`, which may also stand for no directory."""
        found = set[int]()
        for number in numbers:
            while number < len(self._parts):
                found.add(number)
                if self._parts[number] != _ANY_DEPTH:
                    break
                number += 1
        return frozenset(found)


def _matcher(part: str) -> Callable[[str], re.Match[str] | None]:
    names = part.split("|") if part == _FILES else [part]
    return re.compile("|".join(map(fnmatch.translate, names))).match
