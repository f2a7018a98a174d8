"""Which files are memory: the walk over the workspace and the extra paths, and its rules.

Symbolic links are never followed. Folders that begin with a dot and those of tools are neither
walked nor watched. A file that can be reached in two ways (overlapping extra paths, hard links,
`MEMORY.md` and `memory.md` on a file system without case) counts once.
"""

import os
import stat as stat_module
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.flow import FileKey, FileStat, file_stat

SOURCE = "memory"
SUFFIX = ".md"
ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"
TOOL_FOLDERS = frozenset(
    {"node_modules", "bower_components", "__pycache__", "site-packages", "venv"}
)


@dataclass(frozen=True, slots=True)
class Root:
    """One place to look: a file or a folder. `optional` ones may be missing without a word."""

    path: Path
    optional: bool


@dataclass(slots=True)
class Scan:
    """What a walk found.

    `folders` maps each folder that was walked, or holds a root file, to its (device, inode): these
    are to be watched. Under `unread` folders nothing is known, so nothing there may be pruned.
    """

    files: dict[FileKey, tuple[Path, FileStat]] = field(default_factory=dict)
    folders: dict[Path, tuple[int, int]] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unread: list[Path] = field(default_factory=list)
    walked: set[Path] = field(default_factory=set)
    inodes: set[tuple[int, int]] = field(default_factory=set)


class Discovery:
    """The rules for one workspace. `workspace` is a real path."""

    def __init__(self, workspace: Path, extra_paths: tuple[str, ...]) -> None:
        self.workspace = workspace
        self.extra_paths = [self._expand(extra) for extra in extra_paths]
        self.roots = [
            *(Root(workspace / name, optional=True) for name in ROOT_FILES),
            Root(workspace / MEMORY_FOLDER, optional=True),
            *(Root(path, optional=False) for path in self.extra_paths),
        ]

    def scan(self) -> Scan:
        """Walk everything. Blocking; faults are noted in the result, never raised."""
        scan = Scan()
        self._note_folder(self.workspace, scan)
        for root in self.roots:
            self._visit_root(root, scan)
        return scan

    def look(self, path: Path) -> tuple[FileKey, FileStat | None] | None:
        """Look at one path that the watcher named.

        Returns its key and stat, None for the stat when no such file is there, or None when the
        path can't be a memory file.
        """
        if not self._is_ours(path):
            return None
        key = self.key(path)
        try:
            found = os.lstat(path)
        except OSError:
            return key, None
        return key, file_stat(found) if stat_module.S_ISREG(found.st_mode) else None

    def key(self, path: Path) -> FileKey:
        """Name a file: relative to the workspace where it lies inside, else absolute."""
        try:
            return FileKey(SOURCE, path.relative_to(self.workspace).as_posix())
        except ValueError:
            return FileKey(SOURCE, path.as_posix())

    def real_path(self, key: FileKey) -> Path:
        """Return where a key's file lies: the inverse of `key`."""
        return self.workspace / key.path

    def _is_ours(self, path: Path) -> bool:
        if not is_markdown(path.name) or not _is_utf8(path):
            return False
        for root in self.roots:
            if path == root.path:
                return True
            if path.is_relative_to(root.path) and not any(
                map(is_ignored, path.relative_to(root.path).parts[:-1])
            ):
                return True
        return False

    def _expand(self, extra: str) -> Path:
        path = Path(os.path.normpath(self.workspace / Path(extra).expanduser()))
        # The last component must not be a link; how one gets to it is the user's business.
        return Path(os.path.realpath(path.parent)) / path.name

    def _visit_root(self, root: Root, scan: Scan) -> None:
        try:
            found = os.lstat(root.path)
        except FileNotFoundError:
            if not root.optional:
                self._skip(root.path, "missing", scan)
                if root.path.parent.is_dir():
                    self._note_folder(root.path.parent, scan)
            return
        except OSError as error:
            self._unreadable(root.path, error, scan)
            return
        if stat_module.S_ISDIR(found.st_mode):
            self._walk(root.path, scan)
        elif stat_module.S_ISREG(found.st_mode) and not is_markdown(root.path.name):
            self._skip(root.path, "not a Markdown file (.md)", scan)
        else:
            self._add(root.path, found, scan)
            self._note_folder(root.path.parent, scan)

    def _walk(self, top: Path, scan: Scan) -> None:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            if folder in scan.walked or not self._note_folder(folder, scan):
                continue
            scan.walked.add(folder)
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except FileNotFoundError:
                del scan.folders[folder]  # it went while we looked
                continue
            except OSError as error:
                self._unreadable(folder, error, scan)
                continue
            for entry in entries:
                self._visit(entry, waiting, scan)

    def _visit(self, entry: os.DirEntry[str], waiting: list[Path], scan: Scan) -> None:
        path = Path(entry.path)
        try:
            if entry.is_dir(follow_symlinks=False):
                if is_ignored(entry.name):
                    return
                if _is_utf8(path):
                    waiting.append(path)
                else:
                    self._skip(path, "its name is not UTF-8", scan)
            elif is_markdown(entry.name) or (entry.is_symlink() and entry.is_dir()):
                self._add(path, entry.stat(follow_symlinks=False), scan)
        except FileNotFoundError:
            return  # it went while we looked
        except OSError as error:
            self._unreadable(path, error, scan)

    def _add(self, path: Path, found: os.stat_result, scan: Scan) -> None:
        if stat_module.S_ISLNK(found.st_mode):
            self._skip(path, "a symbolic link; links are not followed", scan)
            return
        if not stat_module.S_ISREG(found.st_mode):
            self._skip(path, "not a regular file", scan)
            return
        if not _is_utf8(path):
            self._skip(path, "its name is not UTF-8", scan)
            return
        inode = found.st_dev, found.st_ino
        if inode in scan.inodes:
            return
        scan.inodes.add(inode)
        scan.files[self.key(path)] = path, file_stat(found)

    def _note_folder(self, folder: Path, scan: Scan) -> bool:
        try:
            found = os.stat(folder)
        except OSError as error:
            # Any other folder may go while we look; a workspace that is gone is another matter.
            if folder == self.workspace or not isinstance(error, FileNotFoundError):
                self._unreadable(folder, error, scan)
            return False
        scan.folders[folder] = found.st_dev, found.st_ino
        return True

    def _unreadable(self, path: Path, error: OSError, scan: Scan) -> None:
        self._skip(path, f"can't be read: {error.strerror}", scan)
        scan.unread.append(path)

    def _skip(self, path: Path, reason: str, scan: Scan) -> None:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        scan.skipped.append((shown, reason))


def is_markdown(name: str) -> bool:
    """Say whether a file of this name may be memory."""
    return name.lower().endswith(SUFFIX) and not name.startswith(".")


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_ignored(folder_name: str) -> bool:
    """Say whether a folder of this name is neither walked nor watched."""
    return folder_name.startswith(".") or folder_name in TOOL_FOLDERS
