"""Entries of memoryd in the JSON settings of an agent: how they are added, found and removed. Pure.

Every function takes the text of a file. `original` is its text before memoryd changed it, None if
the file did not exist or its text is not known.
"""

import json
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from memctl.connect import json_text
from memctl.connect.json_text import Path
from memoryd_client.errors import MemorydError


class ConnectError(MemorydError):
    """An agent can't be connected or disconnected; no file was changed."""

    code = "connect_failed"


def _never(_: object) -> bool:
    return False


class MemberEntry(Struct, frozen=True):
    """One member of an object. The members of an object `value` are set one by one.

    `is_ours` tells whether an existing other value is memoryd's; if it is not, it is replaced if
    `replaces`, else refused.
    """

    path: Path
    value: object
    is_ours: Callable[[object], bool] = _never
    replaces: bool = True


class ElementEntry(Struct, frozen=True):
    """One element of an array, in place of any other that `is_ours`.

    One that `needs_array` is added only to an existing array: without one, everything is permitted.
    """

    path: Path
    value: str
    is_ours: Callable[[object], bool] = _never
    needs_array: bool = False


class HookEntry(Struct, frozen=True):
    """One group of hooks with a single command, which contains `marker`."""

    path: Path
    value: dict[str, object]
    marker: re.Pattern[str]


Entry = MemberEntry | ElementEntry | HookEntry


def connected(text: str, entries: list[Entry]) -> str:
    """Return the text with all entries. Raises `ConnectError` or `JsonTextError`."""
    for entry in entries:
        match entry:
            case MemberEntry():
                text = _with_member(text, entry)
            case ElementEntry():
                text = _with_element(text, entry)
            case HookEntry():
                text = _with_hook(text, entry)
    return text


def disconnected(text: str, entries: list[Entry], original: str | None) -> str:
    """Return the text without the entries that memoryd added. Raises `JsonTextError`."""
    before = json_text.parse(original or "")
    for entry in reversed(entries):
        previous = _at(original or "", entry.path)
        match entry:
            case MemberEntry():
                text = _without_member(text, entry, original or "")
            case ElementEntry():
                if not (isinstance(previous, list) and entry.value in previous):
                    for place in reversed(list(_elements(text, entry))):
                        text = json_text.remove(text, place)
            case HookEntry():
                text = _without_hooks(text, entry)
        for length in range(len(entry.path), 0, -1):
            path = entry.path[:length]
            node = json_text.find(json_text.parse(text), path)
            is_left = node is not None and json_text.is_bare(text, node)
            if is_left and json_text.find(before, path) is None:
                text = json_text.remove(text, path)
    return text


def missing(text: str, entries: list[Entry]) -> list[Entry]:
    """Return the entries that are not there as they should be. Raises `JsonTextError`."""
    return [entry for entry in entries if not _is_there(text, entry)]


def present(text: str, entries: list[Entry]) -> list[str]:
    """Return a line for each entry that is there, also in an older form. Raises `JsonTextError`."""
    root = json_text.parse(text)
    lines: list[str] = []
    for entry in entries:
        match entry:
            case MemberEntry():
                places = [entry.path] if json_text.find(root, entry.path) is not None else []
            case ElementEntry():
                places = list(_elements(text, entry))
            case HookEntry():
                places = list(_hooks(text, entry))
        lines += [_line(place, _own(entry, _at(text, place))) for place in places]
    return lines


def hook_commands(text: str, entry: HookEntry) -> list[str]:
    """Return the commands of memoryd for this event. Raises `JsonTextError`."""
    found = [_at(text, place) for place in _hooks(text, entry)]
    return [hook["command"] for hook in found if isinstance(hook, dict)]


def _is_there(text: str, entry: Entry) -> bool:
    match entry:
        case MemberEntry():
            return _holds(_at(text, entry.path), entry.value)
        case ElementEntry():
            if entry.needs_array and not isinstance(_at(text, entry.path), list):
                return True
            return [_at(text, place) for place in _elements(text, entry)] == [entry.value]
        case HookEntry():
            return [_at(text, place) for place in _hooks(text, entry)] == entry.value["hooks"]


def _with_member(text: str, entry: MemberEntry) -> str:
    current = _at(text, entry.path)
    if _holds(current, entry.value):
        return text
    exists = json_text.find(json_text.parse(text), entry.path) is not None
    if exists and not entry.replaces and not entry.is_ours(current):
        name = ".".join(map(str, entry.path))
        raise ConnectError(
            f"{name} is there already and is not memoryd's",
            hint="rename or remove it, then try again",
        )
    if isinstance(current, dict) and isinstance(entry.value, dict):
        for key, value in entry.value.items():
            if current.get(key) != value:
                text = json_text.put(text, (*entry.path, key), value)
        return text
    return json_text.put(text, entry.path, entry.value)


def _without_member(text: str, entry: MemberEntry, original: str) -> str:
    current = _at(text, entry.path)
    if not (_holds(current, entry.value) or (current is not None and entry.is_ours(current))):
        return text
    if json_text.find(json_text.parse(original), entry.path) is None:
        return json_text.remove(text, entry.path)
    return json_text.put_back(text, entry.path, original)


def _with_element(text: str, entry: ElementEntry) -> str:
    if _is_there(text, entry):
        return text
    for place in reversed(list(_elements(text, entry))):
        text = json_text.remove(text, place)
    return json_text.append(text, entry.path, entry.value)


def _elements(text: str, entry: ElementEntry) -> Iterator[Path]:
    array = _at(text, entry.path)
    for index, element in enumerate(array if isinstance(array, list) else []):
        if element == entry.value or entry.is_ours(element):
            yield (*entry.path, index)


def _with_hook(text: str, entry: HookEntry) -> str:
    if _is_there(text, entry):
        return text
    return json_text.append(_without_hooks(text, entry), entry.path, entry.value)


def _without_hooks(text: str, entry: HookEntry) -> str:
    for place in reversed(list(_hooks(text, entry))):
        text = json_text.remove(text, place)
        group = place[: len(entry.path) + 1]
        if _at(text, place[:-1]) == []:
            text = json_text.remove(text, group)
    return text


def _hooks(text: str, entry: HookEntry) -> Iterator[Path]:
    """Yield the places of the hooks whose command is memoryd's for this event."""
    groups = _at(text, entry.path)
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for index, hook in enumerate(hooks if isinstance(hooks, list) else []):
            command = hook.get("command") if isinstance(hook, dict) else None
            if isinstance(command, str) and entry.marker.search(command):
                yield (*entry.path, number, "hooks", index)


def _at(text: str, path: Path) -> object:
    """Return the value at a path; None if there is none."""
    node = json_text.find(json_text.parse(text), path)
    return None if node is None else json_text.value(text, node)


def _holds(current: object, wanted: object) -> bool:
    """Return whether a value is the wanted one, or an object that has all members of it."""
    if isinstance(current, dict) and isinstance(wanted, dict):
        return all(current.get(key) == value for key, value in wanted.items())
    return type(current) is type(wanted) and current == wanted


def _own(entry: Entry, value: object) -> object:
    """Return a value without what others have added to it, which may be secret."""
    if isinstance(entry, HookEntry) and isinstance(value, dict):
        return value.get("command")
    if isinstance(entry.value, dict) and isinstance(value, dict):
        return {key: value[key] for key in entry.value if key in value}
    return value


def _line(place: Path, value: object) -> str:
    """Return a place, without its indexes, and a value."""
    name = ".".join(key for key in place if isinstance(key, str)).removesuffix(".hooks")
    return f"{name}: {json.dumps(value, ensure_ascii=False)}"
