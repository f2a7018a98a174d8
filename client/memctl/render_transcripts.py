"""The commands `memctl sessions` and `memctl forget`."""

import sys

from memctl import json_output
from memctl.arguments import Arguments
from memctl.output import say, style, write
from memoryd_client.client import Client
from memoryd_client.errors import MemorydError
from memoryd_client.schema.transcripts import ForgetResult, SessionEntry
from memoryd_client.shared.humanize import counted, size
from memoryd_client.shared.style import one_line, printable_name
from memoryd_client.shared.text_width import table

PAGE = 1_000
_HEADINGS = ("messages", "chunks", "pending", "format", "state", "path", "")


def show(client: Client, arguments: Arguments) -> None:
    """Print all transcripts as a table, or as one JSON document."""
    page = client.sessions_page(limit=PAGE)
    entries, after = page.sessions, page.next_after
    while after is not None:
        more = client.sessions_page(after=after, limit=PAGE)
        entries, after = entries + more.sessions, more.next_after
    page.sessions = entries
    if arguments.json:
        write(json_output.text(json_output.answer(page)))
        return
    if entries:
        head, *lines = table([_HEADINGS, *map(_row, entries)], right=frozenset({0, 1, 2}))
        write("\n".join([style().dim(head), *lines]) + "\n")
    else:
        write("No transcripts.\n" if page.enabled else "Transcripts are not enabled.\n")
    for folder in page.missing:
        say(f"note: {printable_name(folder)} does not exist (yet)")
    for line in page.elsewhere:
        say(f"note: {one_line(line)}")


def _row(entry: SessionEntry) -> tuple[str, ...]:
    return (
        str(entry.messages),
        str(entry.chunks),
        size(entry.pending_bytes) if entry.pending_bytes else "none",
        printable_name(entry.format),
        printable_name(entry.state),
        printable_name(entry.path),
        f"({one_line(entry.reason)})" if entry.reason else "",
    )


def forget(client: Client, arguments: Arguments) -> None:
    """Forget the selected files or messages; delete files only after a confirmation."""
    asks = arguments.delete_source and not arguments.dry_run and not arguments.yes
    if asks and not _confirmed(_forget(client, arguments, dry_run=True)):
        raise MemorydError("nothing was forgotten", hint="use --yes to delete files without asking")
    result = _forget(client, arguments, dry_run=arguments.dry_run)
    if arguments.json:
        write(json_output.text(json_output.answer(result)))
        return
    of_note = arguments.path_glob is not None and not _is_transcript(arguments.path_glob)
    amount = _amount(result.paths)
    if of_note and not result.paths:
        amount = "0 notes, and what deleted ones had left"
    if arguments.match is not None:
        amount = f"{counted(result.messages, 'message')} in {amount}"
        amount += f", {counted(len(result.facts), 'fact')}" if result.facts else ""
    write(f"{'Would forget' if result.dry_run else 'Forgotten'}: {amount}\n")
    write("".join(f"  {printable_name(path)}\n" for path in result.paths))
    write("".join(f"  fact {fact}\n" for fact in result.facts))
    write("".join(f"Deleted: {printable_name(path)}\n" for path in result.deleted))
    for place in result.notes:
        say(f"note: {printable_name(place)} still contains it; edit the file to remove it")
    for line in result.remains:
        say(f"note: {one_line(line)}")
    for path in result.unread:
        say(
            f"note: {printable_name(path)} can't be read, so all of it was removed from the index;"
            " it returns as soon as it can be read, and must then be forgotten again"
        )


def _forget(client: Client, arguments: Arguments, *, dry_run: bool) -> ForgetResult:
    return client.forget(
        session=arguments.session,
        path=arguments.path_glob,
        match=arguments.match,
        gone=arguments.gone,
        dry_run=dry_run,
        delete_source=arguments.delete_source,
    )


def _amount(paths: list[str]) -> str:
    """Return the number of notes, or else of transcripts."""
    return counted(len(paths), "transcript" if all(map(_is_transcript, paths)) else "note")


def _is_transcript(path: str) -> bool:
    return path.startswith("sessions/")


def _confirmed(found: ForgetResult) -> bool:
    if not found.paths or not sys.stdin.isatty():
        return not found.paths
    say(f"Delete {_amount(found.paths)} from disk? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
