"""The commands `memctl note` and `memctl flush-prompt`."""

import sys

from memctl import json_output
from memctl.arguments import Arguments
from memctl.output import write
from memoryd_client.client import Client
from memoryd_client.schema.notes import NoteResult
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import printable_name


def ask(client: Client, arguments: Arguments) -> NoteResult:
    """Have the daemon write a note, whose text may come from standard input, or change them."""
    from_stdin = arguments.words == ["-"]
    return client.note(
        sys.stdin.read() if from_stdin else " ".join(arguments.words),
        file=arguments.file,
        heading=arguments.heading,
        kind=arguments.note_kind,
        action=arguments.action,
        origin=arguments.origin,
        conversation=arguments.conversation,
        supersedes=arguments.supersedes,
        timeout_s=arguments.timeout_s,
    )


def text(result: NoteResult) -> str:
    """Return the citations of the notes that a command has written, or their files."""
    if result.duplicate:
        return f"Already noted: {printable_name(result.citation)}\n"
    if result.citation:
        return f"{printable_name(result.citation)}\n"
    if result.undone:
        return f"Taken back: {printable_name(result.undone)}\n"
    what, names = "Restored", result.restored
    if result.dismissed:
        what, names = "No longer reported", result.dismissed
    rows = [f"  {printable_name(name)}\n" for name in names]
    return f"{what}: {counted(len(names), 'note')}\n" + "".join(rows)


def print_flush(client: Client, arguments: Arguments) -> None:
    """Print the instruction to save notes before a compaction."""
    shown = client.flush_prompt(arguments.session or "", timeout_s=arguments.timeout_s)
    write(json_output.text({"text": shown}) if arguments.json else shown)
