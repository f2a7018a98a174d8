"""Roots of memory: the workspace's own locations, and extra paths with their patterns."""

import os
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from memoryd.config.settings import ExtraPath
from memoryd.config.validate import ConfigError
from memoryd.fs.hang import tick
from memoryd.source.filenames import (
    DREAMING_FOLDER,
    DREAMING_RULE,
    MEMORY_FOLDER,
    ROOT_FILES,
    SUFFIX,
    hiding_rule,
    is_markdown,
    is_tool_folder,
    split_glob,
)
from memoryd.source.notes.ignore import IgnorePatternError, Patterns
from memoryd_client.schema.search import Origin

ALL = ExtraPath(path="").pattern


class Selection:
    """Selection of files below a directory by a pattern and exclusions.

    Paths are relative to the directory. If the pattern matches a directory, all of it is taken.
    """

    def __init__(self, pattern: str, exclude: tuple[str, ...]) -> None:
        """Parse the patterns. Raises `IgnorePatternError`."""
        segments = pattern.strip("/").split("/")
        self._pattern = Patterns([_any_case(pattern)])
        self._exclude = Patterns(map(_any_case, exclude))
        # A pattern with a slash before its end is anchored; others match anywhere.
        anchored = "/" in pattern.rstrip("/") and not pattern.startswith("!")
        fixed = segments[: segments.index("**")] if "**" in segments else segments
        self._leading = fixed if anchored else []
        self._ways = [Patterns([f"/{segment}"]) for segment in self._leading]

    def enters(self, parts: tuple[str, ...], *, taken: bool) -> bool | None:
        """Return whether everything below a directory is taken, None if nothing can be.

        `parts` are those of the directory's path; `taken` is the result for its parent.
        """
        path, name, depth = "/".join(parts), parts[-1], len(parts)
        leading = self._leading[depth - 1] if depth <= len(self._leading) else None
        if is_tool_folder(name) and name != leading:
            return None
        if self._exclude.verdict(path, folder=True):
            return None
        if taken or self._pattern.verdict(path, folder=True):
            return True
        on_the_way = leading is None or self._ways[depth - 1].verdict(name, folder=True)
        return False if on_the_way else None

    def names(self, parts: tuple[str, ...]) -> bool:
        """Return whether the pattern begins with these directories."""
        return self._leading[: len(parts)] == list(parts)

    def takes(self, path: str, *, taken: bool) -> bool:
        """Return whether a file is taken; `taken` is the result for its directory."""
        path = _any_case(path)
        if self._exclude.verdict(path, folder=False):
            return False
        return taken or bool(self._pattern.verdict(path, folder=False))


_cached_selection = lru_cache(maxsize=1_000)(Selection)


@dataclass(frozen=True, slots=True)
class Root:
    """One root: a file or a directory. A missing `optional` root is not reported.

    `selection` None takes every Markdown file. `shown` is the path with its pattern, if any.
    `origin` is that of its notes. The directory `dreaming` is only entered if `path` is in it, or
    if the pattern names it.
    """

    path: Path
    shown: str
    optional: bool = False
    selection: Selection | None = None
    origin: Origin = Origin.OWNER
    dreaming: Path | None = None

    def folder_rule(self, parts: tuple[str, ...]) -> str | None:
        """Return the built-in rule that hides a directory from this root, None if none does."""
        if parts[-1] == DREAMING_FOLDER and self.path.joinpath(*parts) == self.dreaming:
            named = self.selection is not None and self.selection.names(parts)
            return None if named else DREAMING_RULE
        return hiding_rule(parts[-1], folder=True)

    def enters(self, parts: tuple[str, ...], *, taken: bool) -> bool | None:
        """Return whether everything below a directory is taken, None if nothing can be."""
        if parts[-1] == DREAMING_FOLDER and self.folder_rule(parts) is not None:
            return None
        if self.selection is not None:
            return self.selection.enters(parts, taken=taken)
        return None if is_tool_folder(parts[-1]) else True

    def holds(self, path: Path) -> bool:
        """Return whether a file would be taken, apart from ignore files."""
        if path == self.path:
            return is_markdown(path.name)
        if not (path.is_relative_to(self.path) and is_markdown(path.name)):
            return False
        parts = path.relative_to(self.path).parts
        if (taken := self._taken(parts[:-1])) is None:
            return False
        return self.selection is None or self.selection.takes("/".join(parts), taken=taken)

    def why_not(self, path: Path) -> str | None:
        """Return why a file below this root is not taken, apart from ignore files; None: it is."""
        if self.holds(path):
            return None
        *folders, name = path.relative_to(self.path).parts or (path.name,)
        parents = tuple(folders)
        rules = [self.folder_rule(parents[: depth + 1]) for depth in range(len(parents))]
        rules.append(hiding_rule(name, folder=False))
        hidden = next((rule for rule in rules if rule is not None), None)
        if hidden is not None:
            return f"memoryd leaves out {hidden}"
        if not is_markdown(name):
            return f"not a Markdown file ({SUFFIX})"
        return f"the pattern or an exclusion of {self.shown} leaves it out"

    def leads_to(self, folder: Path) -> bool:
        """Return whether a directory may contain memory or lead to it."""
        if self.path.is_relative_to(folder):
            return True
        if not folder.is_relative_to(self.path):
            return False
        return self._taken(folder.relative_to(self.path).parts) is not None

    def _taken(self, folders: tuple[str, ...]) -> bool | None:
        taken: bool | None = False
        for depth in range(1, len(folders) + 1):
            if (taken := self.enters(folders[:depth], taken=bool(taken))) is None:
                return None
        return taken


def workspace_roots(workspace: Path) -> list[Root]:
    """Return the workspace's own roots, all optional."""
    names = (*ROOT_FILES, MEMORY_FOLDER)
    dreaming = workspace / MEMORY_FOLDER / DREAMING_FOLDER
    return [
        Root(workspace / name, str(workspace / name), optional=True, dreaming=dreaming)
        for name in names
    ]


def extra_root(workspace: Path, extra: str | ExtraPath, *, look: bool = True) -> Root:
    """Return the root of an extra path. Raises `ConfigError` for invalid patterns.

    A string with `*`, `?` or `[` that names no existing file is a glob: the pattern begins with the
    first part that has one of these. Blocking, except without `look`, which resolves no links.
    """
    expand = partial(_expand, workspace) if look else partial(_lexical, workspace)
    if isinstance(extra, str):
        head, tail = split_glob(extra)
        if tail and not (look and _is_there(expand(extra))):
            root = _root(expand(head), f"/{tail}", ())
        else:
            root = _root(expand(extra), ALL, ())
    else:
        root = _root(expand(extra.path), extra.pattern, extra.exclude)
        root = replace(root, origin=Origin(extra.origin))
    return replace(root, dreaming=workspace / MEMORY_FOLDER / DREAMING_FOLDER)


def _root(path: Path, pattern: str, exclude: tuple[str, ...]) -> Root:
    if pattern == ALL and not exclude:
        return Root(path, str(path))
    shown = str(path) if pattern == ALL else os.path.join(path, pattern.lstrip("/"))
    try:
        return Root(path, shown, selection=_cached_selection(pattern, exclude))
    except IgnorePatternError as error:
        raise ConfigError(f"extra_paths: {shown}: {error}") from error


def _is_there(path: Path) -> bool:
    tick(path)
    return os.path.lexists(path)


def _lexical(workspace: Path, text: str) -> Path:
    return Path(os.path.normpath(workspace / Path(text).expanduser()))


def _expand(workspace: Path, text: str) -> Path:
    path = _lexical(workspace, text)
    # Only the last component must not be a link.
    tick(path.parent)
    return Path(os.path.realpath(path.parent)) / path.name


def _any_case(text: str) -> str:
    """Return a path or pattern with a Markdown suffix of any case in lowercase."""
    return text[: -len(SUFFIX)] + SUFFIX if text.lower().endswith(SUFFIX) else text
