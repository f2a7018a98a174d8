"""Rules for the memory files of one workspace, applied to walks and single paths."""

import os
import stat as stat_module
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from memoryd.config.settings import ExtraPath
from memoryd.fs.hang import DISK_LIMIT_S, within
from memoryd.fs.safe_open import LinkError, stat_file
from memoryd.messages import FileKey, FileStat, file_stat
from memoryd.source.filenames import IGNORE_FILE, is_utf8
from memoryd.source.notes.ignore import IgnoreFile, IgnoreFiles
from memoryd.source.notes.roots import Root, extra_root, workspace_roots
from memoryd.source.notes.walk import Scan, Walk
from memoryd.text.voice import least_trusted
from memoryd_client.schema.search import Origin

SOURCE = "memory"


class Discovery:
    """Memory rules of one workspace, a path without links. Any thread may ask."""

    def __init__(self, workspace: Path, extra_paths: tuple[str | ExtraPath, ...]) -> None:
        """Raise `ConfigError` for invalid patterns in `extra_paths`. Blocking."""
        self.workspace = workspace
        self._extra_paths = extra_paths
        self._prefix = f"{str(workspace).rstrip('/')}/"
        self._ignore_files = IgnoreFiles(self.base)
        self._special: dict[str, IgnoreFile] = {}
        try:
            self._extra_roots = within(DISK_LIMIT_S, self._expand)
        except TimeoutError:  # good enough until the first scan, which waits for the disk
            self._extra_roots = self._expand(look=False)

    @property
    def extra_paths(self) -> list[str]:
        """The absolute extra paths, with their patterns."""
        return [root.shown for root in self._extra_roots]

    def scan(self) -> Scan:
        """Walk everything. Blocking; problems are noted in the result, never raised."""
        # Expanded for each scan, because links on the way to an extra path may change.
        self._extra_roots = self._expand()
        walk = Walk(self.workspace, self._ignore_files, top=self._top, base=self.base, key=self.key)
        walk.start()
        for root in self._roots():
            walk.visit(root)
        walk.scan.skip_ignore_files()
        walk.scan.unhide()
        self._special = walk.scan.ignore_files
        return walk.scan

    def rules_have_changed(self) -> bool:
        """Return whether ignore files have changed that the watcher may not notice. Blocking."""
        return self._ignore_files.differ(self._special)

    def stat(self, path: Path) -> tuple[FileKey, FileStat | None] | None:
        """Check one path from the watcher or a client. Blocking.

        Returns its key and stat (None if the file is missing), or None if the path can't be a
        memory file. Raises `OSError` if that is unknown.
        """
        if not is_utf8(str(path)) or not any(root.holds(path) for root in self._roots()):
            return None
        if self.hides(path):
            return None
        key = self.key(path)
        try:
            found = stat_file(path, self.base(str(path)))
        except (FileNotFoundError, NotADirectoryError, LinkError):
            return key, None
        return key, file_stat(found) if stat_module.S_ISREG(found.st_mode) else None

    def hides(self, path: Path) -> bool:
        """Return whether an ignore file hides a file. Blocking. Raises `OSError` if unknown."""
        return self._hidden(path, folder=False)

    def hidden_among(self, paths: Iterable[str]) -> set[str]:
        """Return the files that an ignore file hides. Blocking. One that is unknown is not hidden.

        Most folders have no ignore file above them, and none of their files is hidden.
        """
        hidden, without_rules = set[str](), set[str]()
        for path in paths:
            folder = os.path.dirname(path)
            if folder in without_rules:
                continue
            with suppress(OSError):
                rules, is_hidden = self._ignore_files.on_the_way(
                    str(self._top(Path(path))), path, folder=False
                )
                if is_hidden:
                    hidden.add(path)
                elif rules is None:
                    without_rules.add(folder)
        return hidden

    def why_not(self, path: Path) -> str | None:
        """Return the rule because of which a path can't be memory, None if it can. Blocking.

        Looks at no file except ignore files. Raises `OSError` if that is unknown.
        """
        roots = [root for root in self._roots() if path.is_relative_to(root.path)]
        reasons = [root.why_not(path) for root in roots]
        if not roots:
            return "neither the workspace's memory nor one of the extra_paths"
        if self.hides(path):
            return f"hidden by a {IGNORE_FILE} file"
        return None if None in reasons else reasons[0]

    def concerns(self, folder: Path) -> bool:
        """Return whether a directory may contain memory or lead to it. Blocking.

        Raises `OSError` if that is unknown.
        """
        return any(root.leads_to(folder) for root in self._roots()) and not self._hidden(
            folder, folder=True
        )

    def key(self, path: str | Path) -> FileKey:
        """Return a file's key: its path relative to the workspace if inside, else absolute."""
        return FileKey(SOURCE, str(path).removeprefix(self._prefix))

    def real_path(self, key: FileKey) -> Path:
        """Return the path of a file."""
        return self.workspace / key.path

    def origin(self, key: FileKey) -> Origin:
        """Return the origin of a note: the least trusted of the configured paths that hold it."""
        roots = [root for root in self._extra_roots if root.origin is not Origin.OWNER]
        if key.source != SOURCE or not roots:
            return Origin.OWNER
        path = self.real_path(key)
        return least_trusted([Origin.OWNER, *(r.origin for r in roots if r.holds(path))])

    def base(self, path: str) -> str:
        """Return the trusted directory for a path: links are allowed above it, not below."""
        if path.startswith(self._prefix):
            return str(self.workspace)
        return os.path.dirname(self._top(Path(path)))

    def _expand(self, *, look: bool = True) -> list[Root]:
        return [extra_root(self.workspace, extra, look=look) for extra in self._extra_paths]

    def _roots(self) -> list[Root]:
        return workspace_roots(self.workspace) + self._extra_roots

    def _hidden(self, path: Path, *, folder: bool) -> bool:
        """Return whether a path is hidden. Raises `OSError` if that is unknown."""
        top = str(self._top(path))
        return self._ignore_files.on_the_way(top, str(path), folder=folder)[1]

    def _top(self, path: Path) -> Path:
        """Return the outermost root around a path, where ignore files begin to apply."""
        tops = [self.workspace, *(root.path for root in self._extra_roots)]
        around = [top for top in tops if path.is_relative_to(top)]
        return min(around, key=lambda top: len(top.parts), default=path)
