"""`memctl sessions`: the transcripts, what waits in each, and what is kept elsewhere."""

from memoryd_client import jsonout
from memoryd_client.cli.arguments import Arguments
from memoryd_client.cli.columns import table
from memoryd_client.cli.output import say, style, write
from memoryd_client.cli.style import one_line, printable_name
from memoryd_client.cli.units import size
from memoryd_client.sessions import SessionEntry
from memoryd_client.sync import Client

PAGE = 1_000
_HEADINGS = ("messages", "chunks", "pending", "format", "state", "path", "")


def show(client: Client, arguments: Arguments) -> None:
    """Print all transcripts: as a table, or as one JSON document."""
    page = client.sessions_page(limit=PAGE)
    entries, after = page.sessions, page.next_after
    while after is not None:
        more = client.sessions_page(after=after, limit=PAGE)
        entries, after = entries + more.sessions, more.next_after
    page.sessions = entries
    if arguments.json:
        write(jsonout.text(jsonout.answer(page)))
        return
    if entries:
        head, *lines = table([_HEADINGS, *map(_row, entries)], right=frozenset({0, 1, 2}))
        write("\n".join([style().dim(head), *lines]) + "\n")
    else:
        write("No transcripts.\n" if page.enabled else "Transcripts are not enabled.\n")
    for folder in page.missing:
        say(f"note: {printable_name(folder)} is not there (yet)")
    for line in page.elsewhere:
        say(f"note: {one_line(line)}")


def _row(entry: SessionEntry) -> tuple[str, ...]:
    return (
        str(entry.messages),
        str(entry.chunks),
        size(entry.pending_bytes) if entry.pending_bytes else "none",
        printable_name(entry.format),
        entry.state,
        printable_name(entry.path),
        f"({one_line(entry.reason)})" if entry.reason else "",
    )
