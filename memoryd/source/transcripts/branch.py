"""Branches of transcripts that are trees: each event names the one before it as its parent."""

from collections.abc import Iterable

from memoryd.source.transcripts.format import Record


def current_branch(
    records: Iterable[tuple[int, Record | None]], *, over_gaps: bool = False
) -> tuple[set[int], set[int]]:
    """Return the numbers of the events of the current branch, and of all events.

    The branch leads to the last event, or to the one that a `leaf` names. With `over_gaps`, an
    event whose parent is missing follows the one before it in the file.
    """
    numbers: dict[str, int] = {}
    parents: dict[str, str] = {}
    before: dict[str, str] = {}
    tip = last = ""
    for number, record in records:
        event = record or {}
        name, parent = event.get("id"), event.get("parentId")
        if event.get("type") == "leaf":
            target = event.get("targetId")
            tip = target if isinstance(target, str) else ""
        elif isinstance(name, str) and event.get("type") != "session":
            numbers[name], before[name] = number, last
            tip = last = name
            if isinstance(parent, str):
                parents[name] = parent
    found: set[int] = set()
    while tip in numbers and numbers[tip] not in found:
        found.add(numbers[tip])
        parent = parents.get(tip, "")
        tip = before[tip] if over_gaps and parent and parent not in numbers else parent
    return found, set(numbers.values())
