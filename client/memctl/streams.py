"""The commands `memctl files` and `memctl events`, which print as answers arrive."""

from memctl import json_output
from memctl.arguments import Arguments
from memctl.output import style, write
from memoryd_client.client import Client
from memoryd_client.schema.memory import Event, FileEntry
from memoryd_client.shared.humanize import counted, moment, size
from memoryd_client.shared.style import Style, one_line, printable_name
from memoryd_client.shared.text_width import table

PAGE_FILES = 1000
"""Files per page, the maximum of the protocol."""

_HEADINGS = ("chunks", f"{'size':>10}", f"{'source':<8}", "path", "")
"""As wide as the columns below, so that all pages are aligned."""
_NUMBERS = frozenset({0, 1})

_NOUNS = {"indexed": "chunk", "embedded": "vector", "searched": "result", "missed": "event"}
"""Noun for the `count` of an event, by kind."""


def files(client: Client, arguments: Arguments) -> None:
    """Print the files of one state, page by page, or as one JSON document."""
    state = arguments.state
    if arguments.why is not None:
        _why(client, arguments.why, as_json=arguments.json)
        return
    page = client.files_page(state=state, limit=PAGE_FILES)
    if arguments.json:
        entries = page.files
        while page.next_after is not None:
            page = client.files_page(state=state, after=page.next_after, limit=PAGE_FILES)
            entries += page.files
        found = [json_output.answer(entry) for entry in entries]
        write(json_output.text({"files": found, "hidden": page.hidden}))
        return
    look = style()
    if not page.files:
        write("No files.\n" if state == "indexed" else f"No {state} files.\n")
    else:
        write(files_page(page.files, look, headed=True))
    while page.next_after is not None:
        page = client.files_page(state=state, after=page.next_after, limit=PAGE_FILES)
        write(files_page(page.files, look, headed=False))
    if state in ("indexed", "skipped"):
        for rule, count in page.hidden.items():
            write(look.dim(f"Hidden: {count:,} by the rule: {one_line(rule)}") + "\n")


def _why(client: Client, path: str, *, as_json: bool) -> None:
    entry = client.why(path)
    if as_json:
        write(json_output.text(json_output.answer(entry)))
        return
    reason = f": {one_line(entry.reason)}" if entry.reason else ""
    write(f"{printable_name(entry.path)} is {entry.state}{reason}\n")


def files_page(entries: list[FileEntry], look: Style, *, headed: bool) -> str:
    """Return an aligned line for each file; `headed` adds the headings."""
    head, *lines = table([_HEADINGS, *map(_file_row, entries)], right=_NUMBERS)
    if headed:
        lines.insert(0, look.dim(head))
    return "\n".join(lines) + "\n"


def _file_row(entry: FileEntry) -> tuple[str, ...]:
    return (
        "" if entry.chunks is None else str(entry.chunks),
        "" if entry.size_bytes is None else size(entry.size_bytes),
        printable_name(entry.source),
        printable_name(entry.path),
        f"({one_line(entry.reason)})" if entry.reason else "",
    )


def events(client: Client, arguments: Arguments) -> None:
    """Print events, one per line, until interrupted or the daemon stops."""
    for event in client.events(arguments.kinds):
        write(json_output.line(json_output.answer(event)) if arguments.json else event_line(event))


def event_line(event: Event) -> str:
    """Return one event on one line, with its local time."""
    parts = [f"{moment(event.at)}  {printable_name(event.kind):<9}"]
    if event.agent:
        parts.append(printable_name(event.agent))
    if event.path is not None:
        parts.append(printable_name(event.path))
    if event.count is not None:
        parts.append(counted(event.count, _NOUNS.get(event.kind, "chunk")))
    if event.text:
        parts.append(one_line(event.text))
    return "  ".join(parts) + "\n"
