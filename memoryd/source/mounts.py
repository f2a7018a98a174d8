"""Detection of unmounted disks, to distinguish missing notes from deleted ones.

The index records the (device, inode) of each memory location and of each file system that begins
below. A location looks unmounted if it is empty and a different directory than recorded, or
missing together with its file system. Its indexed files are kept until a user confirms the loss.
"""

import os
import stat as stat_module
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memoryd.fs.hang import tick
from memoryd.messages import FileKey
from memoryd.source.filenames import is_utf8
from memoryd.source.notes.walk import Scan
from memoryd.source.transcripts.locations import Found

DeviceInode = tuple[int, int]
MEANT = "its indexed text is kept; to remove it: `memctl index`"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Locations whose unseen files must be kept (`away`), each with its problem.

    `recorded` are the directories to record from now on, `seen` those present.
    """

    away: dict[Path, str]
    recorded: dict[Path, DeviceInode]
    seen: dict[Path, DeviceInode | None]


class Mounts:
    """The recorded directory at each location of one source. Any thread may ask."""

    def __init__(
        self,
        recorded: Mapping[str, DeviceInode],
        *,
        locate: Callable[[FileKey], Path | None],
        workspace: Path | None = None,
    ) -> None:
        """Take the recorded locations; `locate` returns the path of a file."""
        self.locate = locate
        self._recorded = {Path(path): identity for path, identity in recorded.items()}
        self._workspace = workspace
        self._seen: dict[Path, DeviceInode | None] = {}

    def recorded(self) -> dict[str, DeviceInode]:
        """Return the directories to store in the index."""
        return {str(path): identity for path, identity in self._recorded.items()}

    def places(self) -> list[Path]:
        """Return all known locations."""
        return list(self._recorded)

    def judge(
        self, scan: Scan | Found, known: Collection[FileKey], *, meant: bool = False
    ) -> Verdict:
        """Compare a scan with the record. Blocking.

        `known` are the indexed files. `meant`: missing files were deleted on purpose.
        """
        recorded, away = self._recorded, dict[Path, str]()
        places = {path for path in recorded if _is_scanned(path, scan)} | scan.places.keys()
        # After the walk, because a disk may disappear during it.
        now = {path: identity_of(path) for path in places}
        seen = now | {path: identity_of(path) for path in scan.roots}
        unknown = set(scan.unread)
        for path in sorted(places, key=lambda path: len(path.parts)):
            if _is_below(path, unknown):
                continue
            if path in scan.places and now[path] != scan.places[path]:
                away[path] = f"{path} was replaced during the scan"
                seen[path] = scan.places[path]  # so that it is scanned again
                unknown.add(path)
            elif path in recorded and not meant:
                reason = _suspect(path, recorded[path], now[path])
                lost = reason and self._any_below(path, known)
                if lost and not self._any_below(path, scan.stats):
                    away[path] = f"{path} {reason}; {MEANT}"
                    unknown.add(path)
        kept = {p: i for p, i in recorded.items() if _is_below(p, unknown)}
        found = {p: i for p, i in scan.places.items() if p not in kept and is_utf8(str(p))}
        return Verdict(away, found | kept, seen)

    def record(self, verdict: Verdict) -> bool:
        """Accept a verdict. Returns whether the record has changed and must be stored."""
        changed = self._recorded != verdict.recorded
        self._recorded, self._seen = verdict.recorded, verdict.seen
        return changed

    def moved(self) -> bool:
        """Return whether a location has another directory than at the last scan. Blocking."""
        return any(identity_of(path) != seen for path, seen in self._seen.items())

    def away(self, path: Path) -> bool:
        """Return whether a file may be missing because its disk is. Blocking."""
        return any(self._suspects(path))

    def why_away(self, path: Path) -> str | None:
        """Return why a missing file may be on an unmounted disk, None if it is deleted.

        Blocking. Unlike a scan, it doesn't know other files: any non-empty directory is trusted.
        """
        for place, reason in self._suspects(path):
            if identity_of(place) is None or _is_empty(place):
                return reason
        return None

    def _suspects(self, path: Path) -> Iterator[tuple[Path, str]]:
        """Yield the locations of a file that look unmounted, with the reasons."""
        workspace = self._workspace
        if workspace is not None and path.is_relative_to(workspace) and not identity_of(workspace):
            yield workspace, f"the workspace {workspace} is missing"
        for place, identity in sorted(self._recorded.items()):
            if path.is_relative_to(place) and (
                reason := _suspect(place, identity, identity_of(place))
            ):
                yield place, f"{place} {reason}"

    def _any_below(self, place: Path, keys: Collection[FileKey]) -> bool:
        paths = map(self.locate, keys)
        return any(path is not None and path.is_relative_to(place) for path in paths)


def identity_of(folder: Path) -> DeviceInode | None:
    """Return a directory's (device, inode), None if there is none or it is inaccessible."""
    tick(folder)
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat_module.S_ISDIR(found.st_mode) else None


def cannot_be_seen(path: Path) -> str | None:
    """Return why a missing file may still exist, None if it is deleted. Blocking."""
    for place in (path, *path.parents):
        tick(place)
        try:
            if place == path:
                os.lstat(path)
            else:
                os.scandir(place).close()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{place} can't be read: {error.strerror}; its indexed text is kept"
        if place != path:
            break
    return None


def _is_empty(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _suspect(place: Path, recorded: DeviceInode, now: DeviceInode | None) -> str | None:
    """Return why a location looks unmounted, None if it doesn't."""
    if now == recorded:
        return None
    if now is not None:
        return "is empty and not the folder that was indexed; its disk may not be mounted"
    around = next((i for i in map(identity_of, place.parents) if i is not None), None)
    if around is not None and around[0] == recorded[0]:
        return None  # deleted: its file system is there
    return "is missing, and so is its file system"


def _is_scanned(place: Path, scan: Scan | Found) -> bool:
    return any(root.is_relative_to(place) or place.is_relative_to(root) for root in scan.roots)


def _is_below(place: Path, folders: Collection[Path]) -> bool:
    return any(place.is_relative_to(folder) for folder in folders)
