"""Tells notes that were deleted from notes on a disk that is not there.

Which folder stands at each place that memory is looked for in, and wherever another file system
begins below, is recorded in the index as (device, inode). A place that is empty and another folder
than the one recorded looks like a mount point without its disk; so does one that is missing along
with its file system. What the index has of it stays, until somebody says that it is meant.
"""

import errno
import os
import stat as stat_module
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from memoryd.fs.hang import tick
from memoryd.messages import FileContent, FileKey
from memoryd.source.filenames import is_utf8

DeviceInode = tuple[int, int]
MEANT = "what the index has of it is kept; if it is to go: `memctl index`"


class Seen(Protocol):
    """What a look at the disk has seen: the files are `stats`, the rest is as in `Scan`."""

    @property
    def roots(self) -> Collection[Path]:
        """All that was to be looked at, whether it is there or not."""

    @property
    def places(self) -> Mapping[Path, DeviceInode]:
        """Which folder is at each place."""

    @property
    def unread(self) -> Collection[Path]:
        """Below these nothing is known."""

    @property
    def stats(self) -> Collection[FileKey]:
        """The files that were seen."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Places where nothing is known of files that are not seen, each with what is wrong.

    `recorded` is what is to be recorded from now on, `seen` what is there.
    """

    away: dict[Path, str]
    recorded: dict[Path, DeviceInode]
    seen: dict[Path, DeviceInode | None]


class Mounts:
    """Which folder is to be found at each place of one source. Any thread may ask."""

    def __init__(
        self,
        recorded: Mapping[str, DeviceInode],
        *,
        locate: Callable[[FileKey], Path | None],
        workspace: Path | None = None,
    ) -> None:
        """`locate` returns where a file lies. What is below a missing `workspace` is not gone."""
        self._recorded = {Path(path): identity for path, identity in recorded.items()}
        self._locate = locate
        self._workspace = workspace
        self._seen: dict[Path, DeviceInode | None] = {}

    def recorded(self) -> dict[str, DeviceInode]:
        """Return what is to be written down."""
        return {str(path): identity for path, identity in self._recorded.items()}

    def places(self) -> list[Path]:
        """Return all places that are known."""
        return list(self._recorded)

    def judge(self, scan: Seen, known: Collection[FileKey], *, meant: bool = False) -> Verdict:
        """Compare what was seen with what was recorded. Blocking.

        `known` are the files that the index has. `meant`: whatever is missing was deleted.
        """
        recorded, away = self._recorded, dict[Path, str]()
        places = {path for path in recorded if _is_looked_at(path, scan)} | scan.places.keys()
        # After the walk: a disk may have gone while it was looked at.
        now = {path: identity_of(path) for path in places}
        seen = now | {path: identity_of(path) for path in scan.roots}
        unknown = set(scan.unread)
        for path in sorted(places, key=lambda path: len(path.parts)):
            if _is_below(path, unknown):
                continue
            if path in scan.places and now[path] != scan.places[path]:
                away[path] = f"{path} was replaced while it was looked at"
                seen[path] = scan.places[path]  # so that it is looked at again
                unknown.add(path)
            elif path in recorded and not meant:
                reason = _suspect(path, recorded[path], now[path])
                if (
                    reason
                    and self._any_below(path, known)
                    and not self._any_below(path, scan.stats)
                ):
                    away[path] = f"{path} {reason}; {MEANT}"
                    unknown.add(path)
        kept = {p: i for p, i in recorded.items() if _is_below(p, unknown)}
        found = {p: i for p, i in scan.places.items() if p not in kept and is_utf8(str(p))}
        return Verdict(away, found | kept, seen)

    def record(self, verdict: Verdict) -> bool:
        """Take things as they are from now on. Returns whether there is news to write down."""
        changed = self._recorded != verdict.recorded
        self._recorded, self._seen = verdict.recorded, verdict.seen
        return changed

    def moved(self) -> bool:
        """Say whether another folder is at some place than when it was last scanned. Blocking."""
        return any(identity_of(path) != seen for path, seen in self._seen.items())

    def away(self, path: Path) -> bool:
        """Say whether a file may be missing because its disk is. Blocking."""
        workspace = self._workspace
        if workspace is not None and path.is_relative_to(workspace) and not identity_of(workspace):
            return True
        return any(
            path.is_relative_to(place) and _suspect(place, identity, identity_of(place)) is not None
            for place, identity in self._recorded.items()
        )

    def why_away(self, path: Path) -> str | None:
        """Say why a file that is not there may be on a disk that is not; None: it is gone.

        Blocking. Unlike a scan, it does not know of other files: a folder with anything in it is
        as it should be.
        """
        workspace = self._workspace
        if workspace is not None and path.is_relative_to(workspace) and not identity_of(workspace):
            return f"the workspace {workspace} is not there"
        for place, identity in sorted(self._recorded.items()):
            if path.is_relative_to(place):
                now = identity_of(place)
                reason = _suspect(place, identity, now)
                if reason is not None and (now is None or _is_empty(place)):
                    return f"{place} {reason}"
        return None

    def locate(self, key: FileKey) -> Path | None:
        """Return where a file lies."""
        return self._locate(key)

    def _any_below(self, place: Path, keys: Collection[FileKey]) -> bool:
        paths = map(self._locate, keys)
        return any(path is not None and path.is_relative_to(place) for path in paths)


def identity_of(folder: Path) -> DeviceInode | None:
    """Return a folder's (device, inode), None when no folder can be seen there."""
    tick(folder)
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat_module.S_ISDIR(found.st_mode) else None


def cannot_be_seen(path: Path) -> str | None:
    """Say why nothing is known of a file that was not seen; None if it is gone. Blocking."""
    looks: list[tuple[Path, Callable[[Path], object]]] = [(path, os.lstat)]
    looks += [(folder, _list) for folder in path.parents]
    for place, look in looks:
        tick(place)
        try:
            look(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{place} can't be read: {error.strerror}; what the index has of it is kept"
        if place != path:
            break
    return None


def _is_empty(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _list(folder: Path) -> None:
    os.scandir(folder).close()


def unless_away(
    read: Callable[[Path], FileContent], mounts: Mounts
) -> Callable[[Path], FileContent]:
    """Return a `read` that takes no file for deleted whose disk has just gone."""

    def read_guarded(path: Path) -> FileContent:
        try:
            return read(path)
        except FileNotFoundError as error:
            if mounts.away(path):
                raise OSError(errno.ENODEV, "its folder is not there") from error
            raise

    return read_guarded


def _suspect(place: Path, recorded: DeviceInode, now: DeviceInode | None) -> str | None:
    """Say what makes a place look as if its disk were not there, if anything does."""
    if now == recorded:
        return None
    if now is not None:
        return "is empty, and not the folder that was indexed: its disk may not be mounted"
    around = next((i for i in map(identity_of, place.parents) if i is not None), None)
    if around is not None and around[0] == recorded[0]:
        return None  # it was deleted: the file system that it was on is there
    return "is missing, and so is the file system that it was on"


def _is_looked_at(place: Path, scan: Seen) -> bool:
    return any(root.is_relative_to(place) or place.is_relative_to(root) for root in scan.roots)


def _is_below(place: Path, folders: Collection[Path]) -> bool:
    return any(place.is_relative_to(folder) for folder in folders)
