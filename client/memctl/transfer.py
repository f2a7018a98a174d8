"""The commands `memctl export` and `memctl import`: transcripts in a tar archive."""

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress

from memctl import json_output
from memctl.arguments import Arguments
from memctl.output import say, write
from memoryd_client.client import Client
from memoryd_client.errors import MemorydError
from memoryd_client.schema.transcripts import ImportResult
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.style import printable_name

_FOLDER = "memoryd-transcripts/"
_SUFFIX = ".jsonl.zst"
_BATCH_BYTES = 4 * 1024 * 1024
_MAX_BYTES = 15 * 1024 * 1024


def export(client: Client, arguments: Arguments) -> None:
    """Write the texts of all transcripts to a new archive, which is complete or not there."""
    path = arguments.words[0]
    part = f"{path}.part"
    count, names, too_large = 0, set[str](), list[str]()
    page = client.export()
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with (
            os.fdopen(os.open(part, flags, 0o600), "wb") as file,
            tarfile.open(fileobj=file, mode="w") as archive,
        ):
            while True:
                for transcript in page.transcripts:
                    member = tarfile.TarInfo(f"{_FOLDER}{count:06}{_SUFFIX}")
                    member.size, member.mode = len(transcript.data), 0o600
                    archive.addfile(member, io.BytesIO(transcript.data))
                    count += 1
                    names.add(transcript.name)  # a large one has several members
                too_large += page.too_large
                if page.next_after is None:
                    break
                page = client.export(after=page.next_after)
        os.link(part, path)
    except OSError as error:
        hint = "choose another file" if isinstance(error, FileExistsError) else ""
        raise MemorydError(f"can't write {path}: {error.strerror}", hint=hint) from error
    finally:
        with suppress(OSError):
            os.unlink(part)
    if arguments.json:
        write(json_output.text({"path": path, "transcripts": len(names), "tooLarge": too_large}))
        return
    write(f"Exported: {counted(len(names), 'transcript')} to {printable_name(path)}\n")
    for name in too_large:
        say(f"note: {printable_name(name)} has a message that is too large to be exported")


def import_(client: Client, arguments: Arguments) -> None:
    """Check the whole archive, then have its transcripts kept."""
    path = arguments.words[0]
    for batch in _batches(path):
        client.import_transcripts(batch, dry_run=True)
    total = ImportResult([], [], [])
    for batch in _batches(path):
        result = client.import_transcripts(batch)
        total.imported += result.imported
        total.present += result.present
        total.left_out += result.left_out
    for names in (total.imported, total.present, total.left_out):
        names[:] = dict.fromkeys(names)  # a large one has several members
    if arguments.json:
        write(json_output.text(json_output.answer(total)))
        return
    write(f"Imported: {counted(len(total.imported), 'transcript')}\n")
    if total.present:
        say(f"note: {counted(len(total.present), 'transcript')} there already")
    for name in total.left_out:
        say(f"note: {printable_name(name)} was forgotten, or its format is not enabled")


def _batches(path: str) -> Iterator[list[bytes]]:
    """Yield the packed transcripts of an archive. Raises `MemorydError`."""
    batch, size = list[bytes](), 0
    try:
        with tarfile.open(path, mode="r:") as archive:
            for member in archive:
                is_ours = member.name.startswith(_FOLDER) and member.name.endswith(_SUFFIX)
                file = archive.extractfile(member) if is_ours and member.isreg() else None
                if file is None or member.size > _MAX_BYTES:
                    raise MemorydError(f"{path} is not an archive of `memctl export`")
                data = file.read()
                if batch and size + len(data) > _BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
                batch.append(data)
                size += len(data)
    except tarfile.TarError as error:
        raise MemorydError(f"{path} is not an archive of `memctl export`: {error}") from error
    except OSError as error:
        raise MemorydError(f"can't read {path}: {error.strerror or error}") from error
    if batch:
        yield batch
