"""Facts as a Markdown note, one list item each, with what is known about it in a comment."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct

from memctl import json_output
from memctl.arguments import Arguments
from memctl.output import say, write
from memoryd_client.client import Client
from memoryd_client.errors import BadRequestError, MemorydError
from memoryd_client.schema.facts import Fact, FactCategory
from memoryd_client.schema.search import Origin
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import one_line, printable_name

_TITLE = "# Facts"
_CATEGORIES: tuple[FactCategory, ...] = ("preference", "fact", "decision", "entity", "other")
_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)]) +(?=\S)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"(?P<text>.*?)(?:\s*<!-- memoryd: (?P<fields>[^<>]*) -->)?\s*$")
_FIELD = re.compile(r"\s*(\w+)=([^;]*)")
IMPORTANCE = 0.7


class WrittenFact(Struct):
    """A fact as a note has it, and the number of its line."""

    line: int
    text: str
    importance: float = IMPORTANCE
    category: FactCategory = "other"
    origin: Origin = Origin.IMPORTED
    created_at: float | None = None


def note_text(facts: Iterable[Fact]) -> str:
    """Return a note with facts."""
    lines = [_TITLE, ""]
    for fact in facts:
        fields = f"origin={fact.origin}; category={fact.category}; importance={fact.importance:g}"
        with suppress(ValueError, OverflowError, OSError):  # another program's row
            fields += f"; created={datetime.fromtimestamp(fact.created_at, UTC).isoformat()}"
        lines.append(f"- {fact.text} <!-- memoryd: {fields} -->")
    return "\n".join(lines) + "\n"


def read_note(text: str) -> Iterator[WrittenFact]:
    """Yield the facts of a note: its list items, with the indented lines that continue them.

    Blocks of code have no items.
    """
    items: list[tuple[int, str]] = []
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif is_code:
            continue
        elif (bullet := _BULLET.match(line)) is not None:
            items.append((number, line[bullet.end() :].rstrip()))
        elif items and line[:1] in (" ", "\t") and line.strip():
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
    for number, item in items:
        found = _ITEM.match(item)
        if found is None or not found["text"].strip():
            continue
        fact = WrittenFact(number, found["text"].strip())
        fields = dict(_FIELD.findall(found["fields"] or ""))
        with suppress(ValueError, OverflowError):
            fact.importance = float(fields.get("importance", IMPORTANCE))
        fact.category = next((c for c in _CATEGORIES if c == fields.get("category")), "other")
        with suppress(ValueError):
            fact.origin = Origin(fields.get("origin", Origin.IMPORTED))
        with suppress(ValueError, OverflowError):
            fact.created_at = datetime.fromisoformat(fields.get("created", "")).timestamp()
        yield fact


def write_note(path: str, facts: Iterable[Fact]) -> None:
    """Write facts to a new file that only its owner can read. Raises `MemorydError`."""
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(note_text(facts))
    except OSError as error:
        hint = "choose another file" if isinstance(error, FileExistsError) else ""
        raise MemorydError(f"can't write {path}: {error.strerror}", hint=hint) from error


def import_note(client: Client, arguments: Arguments, path: str) -> None:
    """Store the facts of a note, and report the refused ones. Raises `MemorydError`."""
    try:
        with open(0 if path == "-" else path, encoding="utf-8", closefd=path != "-") as file:
            facts = list(read_note(file.read()))
    except OSError as error:
        raise MemorydError(f"can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MemorydError(f"can't read {path}: it is no UTF-8 text") from error
    stored, known, refused = 0, 0, list[str]()
    for fact in facts:
        try:
            result = client.fact_store(
                fact.text,
                importance=fact.importance,
                category=fact.category,
                origin=fact.origin,
                owner=arguments.owner,
                created_at=fact.created_at,
                timeout_s=arguments.timeout_s,
            )
        except BadRequestError as error:
            refused.append(f"{printable_name(path)}:{fact.line}: {one_line(error.message)}")
        else:
            stored, known = stored + (not result.duplicate), known + result.duplicate
    if arguments.json:
        shown = {"stored": stored, "alreadyKnown": known, "refused": refused}
        write(json_output.text(shown))
    else:
        write(f"Imported: {counted(stored, 'fact')}, {known} known already\n")
        for line in refused:
            say(f"refused: {line}")
