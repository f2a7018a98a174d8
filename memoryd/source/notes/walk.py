"""Walk over all roots that collects files, and skipped paths with their reasons.

Symbolic links are never followed. A file that can be reached twice (overlapping roots, hard links,
`MEMORY.md` and `memory.md` on a case-insensitive file system) counts once. So does a directory,
because a bind mount can put it into itself.
"""

import os
import stat as stat_module
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from memoryd.fs.directories import shown_path
from memoryd.fs.hang import tick
from memoryd.fs.safe_open import Descent
from memoryd.messages import FileKey, FileStat, file_stat
from memoryd.source.filenames import (
    IGNORE_FILE,
    IGNORE_RULE,
    NOT_UTF8,
    SUFFIX,
    hiding_rule,
    is_markdown,
    is_utf8,
)
from memoryd.source.notes.ignore import IgnoreFile, IgnoreFiles, Rules
from memoryd.source.notes.roots import Root

_name_of = attrgetter("name")
LINK = "a symbolic link; links are not followed"


@dataclass(slots=True)
class Scan:
    """Result of a walk.

    `folders` maps each directory to watch (walked, or parent of a missing root) to its (device,
    inode). `skipped` maps displayable paths to reasons, `hidden` other paths to the rules that hide
    them; a hidden directory counts as one path, because the walk does not enter it. Nothing is
    known below `unread` paths, so nothing there may be pruned. `roots` are all roots, present or
    not; `places` are their directories, and those at which another file system begins. `doubled`
    are files with a second name, which is ignored as long as they exist. `ignore_files` are the
    special ones, by path.
    """

    workspace: Path
    stats: dict[FileKey, FileStat] = field(default_factory=dict)
    folders: dict[Path, tuple[int, int]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    unread: list[Path] = field(default_factory=list)
    roots: list[Path] = field(default_factory=list)
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    doubled: set[FileKey] = field(default_factory=set)
    ignore_files: dict[str, IgnoreFile] = field(default_factory=dict)

    @property
    def files(self) -> dict[FileKey, tuple[Path, FileStat]]:
        """The files with their real paths, which are slow to build: 40 ms for 10,000."""
        return {key: (self.workspace / key.path, stat) for key, stat in self.stats.items()}

    def problems(self) -> list[str]:
        """Return a message for each path that could not be read."""
        return [
            ("the workspace " if path == self.workspace else "")
            + f"{path} {self.skipped[shown_path(path)]}; its indexed text is kept"
            for path in self.unread
        ]

    def left_out(self) -> list[str]:
        """Return a message for each directory that is left out due to its ignore file."""
        prefix = f"{str(self.workspace).rstrip('/')}/"
        found: list[str] = []
        for path, file in self.ignore_files.items():
            if file.patterns is None:
                name = shown_path(path.removeprefix(prefix))
                folder = os.path.dirname(name) or "the whole workspace"
                found.append(
                    f"{name} can't be used ({file.problem});"
                    f" memoryd leaves out {folder} until it can"
                )
        return found

    def unhide(self) -> None:
        """Drop hidden paths that another root takes."""
        root = str(self.workspace).rstrip("/") + "/"
        notes = {key.path for key in self.stats} if self.hidden else set()
        for path in [*self.hidden]:
            if path.removeprefix(root) in notes or Path(path) in self.folders:
                del self.hidden[path]

    def skip_ignore_files(self) -> None:
        """Note the problems of the ignore files."""
        for path, file in self.ignore_files.items():
            if file.patterns is None:
                self.skip(path, f"{file.problem}; its folder is left out until it can be used")
            elif file.problem is not None:
                self.skip(path, file.problem)

    def skip(self, path: str, reason: str) -> None:
        """Note the reason for skipping a path."""
        self.skipped[shown_path(path)] = reason

    def unreadable(self, path: str, error: OSError) -> None:
        """Note that nothing is known about a path and everything below it."""
        self.skip(path, f"can't be read: {error.strerror}")
        self.unread.append(Path(path))


class _Folder(NamedTuple):
    """Directory to walk. `parts` are relative to its root; `taken`: all its files are taken.

    `device` is that of its parent, None for the root.
    """

    path: str
    parts: tuple[str, ...]
    taken: bool
    rules: Rules | None
    device: int | None = None


class Walk:
    """Walk over one root after another.

    `top` returns the outermost directory whose ignore file applies to a path, `base` the trusted
    directory below which no links are allowed.
    """

    def __init__(
        self,
        workspace: Path,
        ignore_files: IgnoreFiles,
        *,
        top: Callable[[Path], Path],
        base: Callable[[str], str],
        key: Callable[[str], FileKey],
    ) -> None:
        self.scan = Scan(workspace)
        self._ignore_files = ignore_files
        self._top = top
        self._base = base
        self._key = key
        self._inodes: dict[tuple[int, int], FileKey] = {}
        self._walked: dict[tuple[Root | None, int, int], str] = {}
        self._matched = False

    def start(self) -> None:
        """Check the workspace itself."""
        workspace = self.scan.workspace
        self.scan.roots.append(workspace)
        if (identity := self._note_folder(workspace)) is None:
            self._watch_parent(workspace)
        else:
            self.scan.places[workspace] = identity

    def _note_folder(self, folder: Path) -> tuple[int, int] | None:
        """Note a directory to watch; return its (device, inode), None if it is missing."""
        tick(folder)
        try:
            found = os.stat(folder)
        except OSError as error:
            # Any directory may disappear during the walk, but a missing workspace is a problem.
            if folder == self.scan.workspace or not isinstance(error, FileNotFoundError):
                self.scan.unreadable(str(folder), error)
            return None
        identity = self.scan.folders[folder] = found.st_dev, found.st_ino
        return identity

    def visit(self, root: Root) -> None:
        """Walk one root."""
        self.scan.roots.append(root.path)
        tick(root.path)
        try:
            found = os.lstat(root.path)
            folder = stat_module.S_ISDIR(found.st_mode)
            rules, hidden = self._rules_above(root.path, folder=folder)
        except (FileNotFoundError, NotADirectoryError):
            if not root.optional:
                self.scan.skip(root.shown, "missing")
                self._watch_parent(root.path)
            return
        except OSError as error:
            self.scan.unreadable(str(root.path), error)
            return
        if hidden:
            self.scan.hidden[str(root.path)] = IGNORE_RULE
            if not root.optional:
                self.scan.skip(root.shown, f"hidden by a {IGNORE_FILE} file")
        elif folder:
            self._matched = False
            base = self._base(str(root.path))
            try:
                descent = Descent(base)
            except OSError as error:
                self.scan.unreadable(base, error)
                return
            with closing(descent):
                self._walk(root, rules, descent)
            if not self._matched and root.selection is not None:
                self.scan.skip(root.shown, "matches no Markdown file")
        else:
            if stat_module.S_ISREG(found.st_mode) and not is_markdown(root.path.name):
                self.scan.skip(str(root.path), "not a Markdown file (.md)")
            else:
                path = str(root.path)
                self._add(path, self._key(path), found)
            if (identity := self._note_folder(root.path.parent)) is not None:
                self.scan.places[root.path.parent] = identity

    def _watch_parent(self, path: Path) -> None:
        for ancestor in path.parents:
            tick(ancestor)
            if os.path.isdir(ancestor):
                self._note_folder(ancestor)
                break

    def _rules_above(self, path: Path, *, folder: bool) -> tuple[Rules | None, bool]:
        top = self._top(path)
        for ancestor in path.parents:
            if not ancestor.is_relative_to(top):
                break
            if ancestor not in self.scan.folders:
                self._note_folder(ancestor)  # an ignore file may appear here
        return self._ignore_files.on_the_way(
            str(top), str(path), folder=folder, special=self.scan.ignore_files
        )

    def _walk(self, root: Root, rules: Rules | None, descent: Descent) -> None:
        waiting = [_Folder(str(root.path), (), taken=root.selection is None, rules=rules)]
        while waiting:
            self._walk_folder(waiting.pop(), root, descent, waiting)

    def _walk_folder(
        self, folder: _Folder, root: Root, descent: Descent, waiting: list[_Folder]
    ) -> None:
        try:
            descriptor = descent.enter(folder.path)
            if not self._is_first(folder, root, os.fstat(descriptor)):
                return
            with os.scandir(descriptor) as listing:
                entries = sorted(listing, key=_name_of)
            if IGNORE_FILE in map(_name_of, entries):
                rules = self._ignore_files.below(folder.rules, folder.path, self.scan.ignore_files)
                folder = folder._replace(rules=rules)
        except FileNotFoundError:
            return  # removed meanwhile
        except OSError as error:
            self._note_folder(Path(folder.path))
            self.scan.unreadable(folder.path, error)
            return
        prefix = folder.path.rstrip("/") + "/"
        source, key_prefix = self._key(prefix)
        takes_all = root.selection is None and folder.rules is None
        for entry in entries:
            name = entry.name
            path = prefix + name
            try:
                if not (entry.is_file(follow_symlinks=False) and is_markdown(name)):
                    self._visit_other(entry, path, folder, root, waiting)
                elif takes_all or self._is_taken(path, folder, root):
                    found = entry.stat(follow_symlinks=False)
                    self._add(path, FileKey(source, key_prefix + name), found)
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError as error:
                self.scan.unreadable(path, error)

    def _is_first(self, folder: _Folder, root: Root, found: os.stat_result) -> bool:
        """Note a directory; return whether the walk has not visited it before."""
        path = Path(folder.path)
        identity = self.scan.folders[path] = found.st_dev, found.st_ino
        if identity[0] != folder.device:
            self.scan.places[path] = identity
        # Roots without patterns take the same files from a directory.
        place = (None if root.selection is None else root, *identity)
        if place not in self._walked:
            self._walked[place] = folder.path
            return True
        if self._walked[place] != folder.path:
            del self.scan.folders[path]
            self.scan.skip(folder.path, f"the same folder as {self._walked[place]}")
        return False

    def _is_taken(self, path: str, folder: _Folder, root: Root) -> bool:
        """Return whether a root takes a file with the name of a note."""
        selection, parts = root.selection, (*folder.parts, path.rpartition("/")[2])
        taken = selection is None or selection.takes("/".join(parts), taken=folder.taken)
        return taken and not self._is_ignored(path, folder, is_folder=False)

    def _visit_other(
        self,
        entry: os.DirEntry[str],
        path: str,
        folder: _Folder,
        root: Root,
        waiting: list[_Folder],
    ) -> None:
        """Visit anything but a regular file with the name of a note."""
        parts = (*folder.parts, entry.name)
        link = entry.is_symlink()
        if entry.is_dir(follow_symlinks=False) or (link and _leads_to_folder(entry)):
            taken = root.enters(parts, taken=folder.taken)
            if taken is None:
                self._note_rule(path, root.folder_rule(parts))
                return
            if self._is_ignored(path, folder, is_folder=not link):
                return
            if link:
                self.scan.skip(path, LINK)
            elif is_utf8(entry.name):
                device = self.scan.folders[Path(folder.path)][0]
                waiting.append(_Folder(path, parts, taken, folder.rules, device))
            else:
                self.scan.skip(path, NOT_UTF8)
        elif is_markdown(entry.name):
            if self._is_taken(path, folder, root):
                self._add(path, self._key(path), entry.stat(follow_symlinks=False))
        elif (rule := hiding_rule(entry.name, folder=False)) is not None:
            as_note = os.path.splitext("/".join(parts))[0] + SUFFIX
            if root.selection is None or root.selection.takes(as_note, taken=folder.taken):
                self._note_rule(path, rule)

    def _is_ignored(self, path: str, folder: _Folder, *, is_folder: bool) -> bool:
        if folder.rules is None or not folder.rules.hide(path, folder=is_folder):
            return False
        self._note_rule(path, IGNORE_RULE)
        return True

    def _note_rule(self, path: str, rule: str | None) -> None:
        if rule is not None:
            self.scan.hidden[path] = rule

    def _add(self, path: str, key: FileKey, found: os.stat_result) -> None:
        if not stat_module.S_ISREG(found.st_mode):
            link = stat_module.S_ISLNK(found.st_mode)
            self.scan.skip(path, LINK if link else "not a regular file")
            return
        if not is_utf8(path):
            self.scan.skip(path, NOT_UTF8)
            return
        self._matched = True
        first = self._inodes.setdefault((found.st_dev, found.st_ino), key)
        if first is key:
            self.scan.stats[key] = file_stat(found)
        elif first != key:
            self.scan.doubled.add(first)


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # a loop, or no permission
        return link.is_dir()
    return False
