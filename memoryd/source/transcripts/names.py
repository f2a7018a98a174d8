"""Names of transcripts, which are the same whatever else is configured. Pure.

Below an agent's folder, a name is `sessions/<format>/<path below that folder>`; elsewhere,
`sessions/<folder>/<path below it>`, with a hash if two folders have the same name.
"""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = "sessions"
PACKED = ".zst"
_HASH_CHARS = 6
_HOMES = {
    "openclaw": ".openclaw",
    "claude": ".claude",
    "codex": ".codex",
    "gemini": ".gemini",
    "pi": ".pi/agent",
}
_BELOW = {
    "claude": re.compile(r"projects/(.+)"),
    "codex": re.compile(r"(?:archived_)?sessions/(.+)"),
    "openclaw": re.compile(r"(?:agents|sessions)/(.+)"),
    "gemini": re.compile(r"tmp/(.+)"),
    "pi": re.compile(r"sessions/(.+)"),
}
"""Paths of transcripts below the home folder of an agent, by format."""
_ROLLOUT = re.compile(r"rollout-(\d{4})-(\d\d)-(\d\d)T[^/]*\Z")
"""Name of a Codex transcript, wherever it is: the day tells the folder in which it began."""
_PACKED = re.compile(r"(\.jsonl)\.zst\Z")


class Home(NamedTuple):
    """The home folder of an agent, such as `~/.claude`."""

    format: str
    folder: str


class Names:
    """Names of the transcripts of one memoryd agent, whose id is `agent`.

    `homes` are the home folders in use, by format, and `folders` those of all locations. `earlier`
    are the folders by the labels of earlier versions, which depended on the order of the settings.
    """

    def __init__(
        self,
        agent: str,
        homes: Mapping[str, str],
        folders: Sequence[str],
        earlier: Sequence[tuple[str, str]],
    ) -> None:
        self._own_agent = f"{agent}/sessions/"
        self._homes = homes
        self._folders = sorted(dict.fromkeys(folders), key=len, reverse=True)
        self._earlier = earlier
        found = {home for folder in self._folders if (home := self._home_of(folder))}
        self._home_labels = {folder: form for form, folder in homes.items()}
        self._home_labels |= self._labels_of_homes(found)
        self._labels = self._labels_of_folders()

    def name(self, path: str) -> str | None:
        """Return the name of the file at a path, None if it is in no location."""
        folder = next((folder for folder in self._folders if _is_below(path, folder)), None)
        if folder is None:
            return None
        path = _PACKED.sub(r"\1", path)
        home = self._home_of(path)
        below = None if home is None else _BELOW[home.format].match(path[len(home.folder) + 1 :])
        if home is None or below is None:
            return f"{SOURCE}/{self._labels[folder]}/{_relative(path, folder)}"
        name = below[1]
        if home.format == "openclaw":
            name = name.removeprefix(self._own_agent)
        elif home.format == "codex" and (rollout := _ROLLOUT.search(name)) is not None:
            name = "/".join((*rollout.groups(), rollout[0]))
        label = self._home_labels.get(home.folder) or f"{home.format}~{_hashed(home.folder)}"
        return f"{SOURCE}/{label}/{name}"

    def paths(self, name: str) -> list[str]:
        """Return the paths that a file of this name may have, most likely ones first.

        Names of earlier versions lead to their files too. Empty for an invalid name.
        """
        parts = name.split("/", 2)
        if len(parts) < 3 or parts[0] != SOURCE or ".." in parts[2].split("/"):
            return []
        found = dict.fromkeys(self._paths(parts[1], parts[2]))
        return [path for path in found if any(_is_below(path, f) for f in self._folders)]

    def earlier_names(self, path: str) -> Iterator[str]:
        """Yield the names that earlier versions may have given to the file at a path."""
        for label, folder in self._earlier:
            if _is_below(path, folder):
                yield f"{SOURCE}/{label}/{_relative(path, folder)}"

    def _paths(self, label: str, name: str) -> Iterator[str]:
        for home, own in self._home_labels.items():
            for path in self._in_home(own.partition("~")[0], name) if own == label else ():
                yield os.path.join(home, path)
                yield os.path.join(home, path + PACKED)
        for folder, own in self._labels.items():
            if own == label:
                yield os.path.join(folder, name)
                yield os.path.join(folder, name + PACKED)
        for old, folder in self._earlier:
            if label in (old, old.partition("~")[0]):
                yield os.path.join(folder, name)

    def _in_home(self, form: str, name: str) -> list[str]:
        match form:
            case "claude":
                return [f"projects/{name}"]
            case "codex":
                return [f"sessions/{name}", f"archived_sessions/{name.rpartition('/')[2]}"]
            case "pi":
                return [f"sessions/{name}"]
            case "openclaw":
                return [f"agents/{self._own_agent}{name}", f"sessions/{name}", f"agents/{name}"]
            case _:
                return [f"tmp/{name}"]

    def _home_of(self, path: str) -> Home | None:
        """Return the agent's home folder that contains a path, the innermost one."""
        found: list[Home] = []
        for form, home in self._homes.items():
            if path == home or _is_below(path, home):
                found.append(Home(form, home))
        for form, folder_name in _HOMES.items():
            start = f"{path}/".rfind(f"/{folder_name}/")
            if start >= 0:
                found.append(Home(form, f"{path[:start]}/{folder_name}"))
        return max(found, key=lambda home: len(home.folder), default=None)

    def _labels_of_homes(self, found: Collection[Home]) -> dict[str, str]:
        labels: dict[str, str] = {}
        for home in found:
            others = {other.folder for other in found if other.format == home.format}
            usual = self._homes.get(home.format, "")
            is_first = home.folder == usual or (
                len(others) == 1 and not any(_is_below(usual, folder) for folder in self._folders)
            )
            label = home.format if is_first else f"{home.format}~{_hashed(home.folder)}"
            labels[home.folder] = label
        return labels

    def _labels_of_folders(self) -> dict[str, str]:
        same = defaultdict[str, list[str]](list)
        for folder in self._folders:
            same[label_of(folder)].append(folder)
        return {
            folder: label
            if len(folders) == 1 and label not in _HOMES
            else f"{label}~{_hashed(folder)}"
            for label, folders in same.items()
            for folder in folders
        }


def label_of(folder: str) -> str:
    """Return the name of a folder as a part of names."""
    return os.path.basename(folder).lstrip(".").replace("~", "-") or "root"


def earlier_labels(folders: Sequence[str]) -> list[tuple[str, str]]:
    """Return the labels that earlier versions gave to the folders of the locations, in order."""
    found: list[tuple[str, str]] = []
    for folder in folders:
        parts = Path(folder).parts
        agents = (form for form, home in _HOMES.items() if home in parts)
        label = next(agents, None) or label_of(folder)
        same = sum(other.partition("~")[0] == label for other, _ in found)
        found.append((f"{label}~{same + 1}" if same else label, folder))
    return found


def _hashed(folder: str) -> str:
    return hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:_HASH_CHARS]


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _relative(path: str, folder: str) -> str:
    return path[len(folder.rstrip("/")) + 1 :]
