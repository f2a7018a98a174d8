"""Locations of transcripts: globs over directories, and reversible names of files."""

import glob
import os
import re
import stat as stat_module
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from memoryd.fs.directories import shown_path
from memoryd.fs.hang import DISK_LIMIT_S, tick, within
from memoryd.fs.safe_open import Descent, open_file, stat_file, unlink_file
from memoryd.messages import FileKey, FileStat, file_stat
from memoryd.source.filenames import NOT_UTF8, is_utf8, split_glob
from memoryd.source.transcripts.names import SOURCE as SOURCE
from memoryd.source.transcripts.names import Names, earlier_labels
from memoryd.source.transcripts.stored import STORE_FILES, StoredNames, is_store, is_stored
from memoryd.source.transcripts.walk import Glob

USUAL = {
    "openclaw": ("OPENCLAW_STATE_DIR", "~/.openclaw", "agents/{agent}/sessions/*.jsonl*"),
    "openclaw-store": ("OPENCLAW_STATE_DIR", "~/.openclaw", "sessions/*/*.json5"),
    "claude": ("CLAUDE_CONFIG_DIR", "~/.claude", "projects/**/*.jsonl"),
    "codex": ("CODEX_HOME", "~/.codex", "sessions/**/rollout-*.jsonl*"),
    "codex-archived": ("CODEX_HOME", "~/.codex", "archived_sessions/rollout-*.jsonl*"),
    "gemini": ("GEMINI_CLI_HOME", "~", ".gemini/tmp/*/chats/session-*.jsonl"),
    "pi": ("PI_CODING_AGENT_DIR", "~/.pi/agent", "sessions/**/*.jsonl"),
}
"""Usual location by format: an environment variable, its default, and a glob below it."""
STORED = {
    "openclaw": (
        "OPENCLAW_STATE_DIR",
        "~/.openclaw",
        "agents/{agent}/agent/openclaw-agent.sqlite",
    ),
    "opencode": ("XDG_DATA_HOME", "~/.local/share", "opencode/opencode.db"),
}
"""The same for stores."""

_TRANSCRIPT = re.compile(r"\.jsonl(?:\.(?:reset|deleted)\.[0-9TZ:.\-]+)?(?:\.zst)?\Z|\.json5\Z")
_NEVER = re.compile(r"\.(?:checkpoint\.[^/]+|trajectory)\.jsonl|\.bak|(?:\A|/)registry\.json5\Z")
_SUBAGENTS = f"{os.sep}subagents{os.sep}"
_OWNER = re.compile(r"/agents/([^/]+)/(?:sessions|agent)/")


@dataclass(frozen=True, slots=True)
class TranscriptLocation:
    """One glob: the directory before its first wildcard, and the rest.

    `pattern` is "" for all of the directory. With `whole`, so are directories that match.
    """

    folder: Path
    pattern: str
    whole: bool = False


@dataclass(slots=True)
class Found:
    """All present transcripts. Nothing is known about the locations in `missing`.

    `unmatched` locations have none.
    `stores` are the stores of conversations, and `unreadable` those that can't be read, with the
    reasons. `places` has the (device, inode) of the other directories, for `Mounts`. `skipped` maps
    displayable paths to reasons.
    """

    files: dict[FileKey, tuple[Path, FileStat]] = field(default_factory=dict)
    missing: list[TranscriptLocation] = field(default_factory=list)
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unmatched: list[TranscriptLocation] = field(default_factory=list)
    stores: list[Path] = field(default_factory=list)
    unreadable: dict[Path, str] = field(default_factory=dict)

    @property
    def roots(self) -> list[Path]:
        """The directories of all locations."""
        return [*self.places, *self.unread]

    @property
    def unread(self) -> list[Path]:
        """The missing directories and the stores that can't be read."""
        return [*(place.folder for place in self.missing), *self.unreadable]

    @property
    def stats(self) -> Collection[FileKey]:
        """The names of all transcripts."""
        return self.files


class TranscriptLocations:
    """Locations of one agent, and the names of the transcripts there."""

    def __init__(
        self,
        paths: Collection[str],
        formats: Collection[str],
        *,
        agent: str,
        environ: Mapping[str, str],
    ) -> None:
        """Use the configured globs, or else the usual ones of the formats. Blocking."""
        self.configured = bool(paths)
        self._formats = formats
        globs = list(paths) or list(_usual(formats, agent, environ))
        self.places: list[TranscriptLocation] = []
        for text in globs:
            folder, pattern = _split(os.path.abspath(os.path.expanduser(text)))
            self.places.append(TranscriptLocation(folder, pattern, self.configured))
        folders = [str(place.folder) for place in self.places]
        self.names = Names(agent, _homes(environ), folders, earlier_labels(folders))
        self._last_seen: dict[str, Path] = {}
        self.stored = StoredNames(
            [
                place.folder / name
                for place in self.places
                for name, format_name in STORE_FILES.items()
                if format_name in formats and (not place.pattern or place.pattern.endswith(name))
            ]
        )

    def find(self) -> Found:
        """Search all locations. Blocking; inaccessible files are left out."""
        found = Found()
        inodes: set[tuple[int, int]] = set()
        for place in self.places:
            try:
                descent = Descent(place.folder)
            except OSError:
                found.missing.append(place)
                continue
            found.places[place.folder] = descent.identity()
            with closing(descent):
                names = [
                    name
                    for name in Glob(place.pattern, whole=place.whole).find(
                        descent, str(place.folder)
                    )
                    if is_transcript(str(place.folder / name)) or is_store(name)
                ]
                for name in names:
                    self._add(place, name, descent, found, inodes)
                if not names:
                    found.unmatched.append(place)
        self._last_seen |= {key.path: path for key, (path, _) in found.files.items()}
        return found

    def real_path(self, key: FileKey) -> Path | None:
        """Return the path of a named transcript as last seen, None for an invalid name."""
        if (stored := self.stored.path(key.path)) is not None:
            return stored
        if (seen := self._last_seen.get(key.path)) is not None:
            return seen
        return next(map(Path, self.names.paths(key.path)), None)

    def present_path(self, key: FileKey) -> Path | None:
        """Return the path of a named transcript that exists, None if there is none. Blocking."""
        if (stored := self.stored.present_path(key.path)) is not None:
            return stored
        seen = self._last_seen.get(key.path)
        paths = [] if seen is None else [seen]
        for path in (*paths, *map(Path, self.names.paths(key.path))):
            tick(path)
            if os.path.lexists(path):
                return path
        return None

    def base(self, path: Path) -> Path:
        """Return the innermost location of a path, below which no links are allowed.

        The location itself may be a link or be reached through one.
        """
        around = [place.folder for place in self.places if path.is_relative_to(place.folder)]
        return max(around, key=lambda folder: len(folder.parts), default=path.parent)

    def open_file(self, path: Path) -> int:
        """Open a transcript for reading. Raises `OSError`."""
        return open_file(path, self.base(path))

    def identity(self, path: Path) -> tuple[int, int]:
        """Return the (device, inode) of a transcript. Raises `OSError`."""
        found = stat_file(path, self.base(path))
        return found.st_dev, found.st_ino

    def delete(self, path: Path, identity: tuple[int, int]) -> None:
        """Delete a transcript if it is still that file. Raises `OSError`."""
        unlink_file(path, self.base(path), identity)

    def key(self, path: Path) -> FileKey | None:
        """Return the name of a file, None if it is in no location.

        That of a store is the start of the names of its conversations.
        """
        store = path if is_store(str(path)) else path.parent if is_stored(path) else None
        if store is not None:
            is_ours = any(store.is_relative_to(place.folder) for place in self.places)
            return FileKey(SOURCE, f"{SOURCE}/{STORE_FILES[store.name]}") if is_ours else None
        name = self.names.name(str(path)) if is_transcript(str(path)) else None
        return None if name is None else FileKey(SOURCE, name)

    def _add(
        self,
        place: TranscriptLocation,
        name: str,
        descent: Descent,
        found: Found,
        inodes: set[tuple[int, int]],
    ) -> None:
        path = place.folder / name
        try:
            folder = descent.enter(str(path.parent), listed=False)
            stat = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return
        inode = stat.st_dev, stat.st_ino
        if not stat_module.S_ISREG(stat.st_mode) or inode in inodes:
            return
        if not is_utf8(str(path)):
            found.skipped[shown_path(path)] = NOT_UTF8
            return
        inodes.add(inode)
        if is_store(name):
            if STORE_FILES[path.name] in self._formats:
                found.stores.append(path)
            return
        if (key := self.key(path)) is not None and not self._is_better(found, key, path):
            found.files[key] = path, file_stat(stat)

    def _is_better(self, found: Found, key: FileKey, path: Path) -> bool:
        """Return whether another form of this conversation was found that is to be read."""
        other = found.files.get(key)
        return other is not None and (is_archive(str(other[0])), str(other[0])) < (
            is_archive(str(path)),
            str(path),
        )


def is_transcript(path: str) -> bool:
    """Return whether a file with this name may be a live or archived transcript."""
    return (
        _TRANSCRIPT.search(path) is not None
        and _NEVER.search(path) is None
        and _SUBAGENTS not in path
    )


def is_archive(path: str) -> bool:
    """Return whether a transcript was reset or deleted and no longer grows."""
    return not path.endswith((".jsonl", ".json5")) and not is_stored(Path(path))


def owner_of(path: Path) -> str:
    """Return the agent that owns a transcript, "" if the path doesn't contain it."""
    found = _OWNER.search(path.as_posix())
    return found[1] if found else ""


def _usual(formats: Collection[str], agent: str, environ: Mapping[str, str]) -> list[str]:
    return [
        os.path.join(environ.get(variable) or default, pattern.format(agent=agent))
        for name, (variable, default, pattern) in (*USUAL.items(), *STORED.items())
        if name.partition("-")[0] in formats
    ]


def _homes(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the home folder of each agent."""
    homes: dict[str, str] = {}
    for name, (variable, default, pattern) in USUAL.items():
        home = os.path.join(environ.get(variable) or default, *_below_home(pattern))
        homes.setdefault(name.partition("-")[0], os.path.abspath(os.path.expanduser(home)))
    return homes


def _below_home(pattern: str) -> list[str]:
    """Return the parts of a usual pattern that are still the home folder: `.gemini`."""
    first = pattern.partition("/")[0]
    return [first] if first.startswith(".") else []


def _split(path: str) -> tuple[Path, str]:
    """Return the directory and the glob below it, "" for a plain directory, which is taken whole.

    A directory or file that exists is no wildcard, whatever its name.
    """
    folder, pattern = split_glob(path)
    while pattern and _is_there(os.path.join(folder, pattern.split("/")[0]), os.path.lexists):
        name, _, pattern = pattern.partition("/")
        folder = os.path.join(folder, name)
        deeper, rest = split_glob(pattern)
        if not rest:
            folder, pattern = os.path.join(folder, deeper), ""
        elif deeper != ".":
            folder, pattern = os.path.join(folder, deeper), rest
    if pattern:
        return Path(folder), pattern
    # Judged by its name if it is missing, because its disk may be unmounted.
    is_file = is_transcript(folder) or is_store(folder)
    if _is_there(folder, os.path.isdir) or not is_file:
        return Path(folder), ""
    return Path(folder).parent, glob.escape(Path(folder).name)


def _is_there(path: str, test: Callable[[str], bool]) -> bool:
    try:
        return within(DISK_LIMIT_S, partial(test, path))
    except TimeoutError:
        return False
