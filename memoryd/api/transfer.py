"""Export of the texts of an agent's transcripts, and import of those of another machine."""

import io
import time
from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from memoryd.agent.agent import Agent
from memoryd.agent.transcripts import Transcripts
from memoryd.api.handlers import while_writable
from memoryd.errors import ECHO_CHARS, RequestFailedError, bad_request
from memoryd.index.queries import read_chunks
from memoryd.messages import FileKey
from memoryd.source.transcripts.kept import (
    KeptHeader,
    KeptMessage,
    decoded_header,
    decoded_message,
    messages_of,
    packed,
    part_after,
    unpacked,
)
from memoryd.source.transcripts.locations import SOURCE
from memoryd_client.schema.transcripts import (
    ExportBody,
    ExportedTranscript,
    ExportResult,
    ImportBody,
    ImportResult,
)
from memoryd_client.wire.protocol import MAX_FRAME_BYTES, ErrorCode

PAGE_BYTES = 4 * 1024 * 1024
"""Size of a page of an export at which it ends."""
MAX_PACKED_BYTES = MAX_FRAME_BYTES - PAGE_BYTES - 64 * 1024
"""Maximum size of one packed transcript, so that it fits into a frame with the rest of its page."""
PART_BYTES = 8 * 1024 * 1024
"""Size of the messages in a part of a transcript that is larger packed than that maximum."""
_WITHIN = "\0"
"""Separator of a name and a line in `next_after`; no name of a file has it."""
MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
MAX_NAME_CHARS = 4_096


async def export(agent: Agent, body: ExportBody) -> ExportResult:
    """Return the next transcripts by name, each packed as its copy would be."""
    if agent.transcripts is None:
        raise bad_request("transcripts are disabled", "set sessions.enabled in the configuration")
    store = agent.index.store
    names = sorted(key.path for key in store.catalog.rows if key.source == SOURCE)
    result, size = ExportResult([]), 0
    before, is_within, line = (body.after or "").partition(_WITHIN)
    for name in names:
        after = int(line) if is_within and line.isdecimal() and name == before else 0
        if body.after is not None and name <= before and not after:
            continue
        key = FileKey(SOURCE, name)
        row = store.catalog.rows.get(key)
        if row is not None and row.transcript is not None and row.chunks:
            chunks = await store.readers.read(partial(read_chunks, key=key))
            state = replace(row.transcript, gone_at=None)
            gone_at = row.transcript.gone_at or time.time()
            messages = messages_of(chunks)
            header = KeptHeader(name, state, row.facts, gone_at, len(messages))
            data = b""
            if not after:
                data = await agent.look_up(_packed, header, messages, at="export")
            if after or len(data) > MAX_PACKED_BYTES:
                header, part = part_after(header, messages, after, PART_BYTES)
                data = await agent.look_up(_packed, header, part, at="export")
            if len(data) > MAX_PACKED_BYTES:
                result.too_large.append(name)
            elif header.messages:
                result.transcripts.append(ExportedTranscript(name, data))
                size += len(data)
                if header.until and header.until < messages[-1].line:
                    result.next_after = f"{name}{_WITHIN}{header.until}"
                    return result
        result.next_after = name
        if size >= PAGE_BYTES:
            return result
    result.next_after = None
    return result


def _packed(header: KeptHeader, messages: Iterable[KeptMessage]) -> bytes:
    return b"".join(packed(header, messages))


async def import_(agent: Agent, body: ImportBody) -> ImportResult:
    """Keep the transcripts of an export. All of them are checked before any is written."""
    if agent.transcripts is None:
        raise bad_request("transcripts are disabled", "set sessions.enabled in the configuration")
    if not body.transcripts:
        raise bad_request("no transcripts are given", "pass the `data` of exported ones")
    return await while_writable(agent.index.store.outage, _import(agent, body))


async def _import(agent: Agent, body: ImportBody) -> ImportResult:
    assert agent.transcripts is not None  # noqa: S101 - `import_` has asked
    files = agent.transcripts.files
    found = [await agent.look_up(_checked, data, at="import") for data in body.transcripts]
    names = [(header.name, header.after) for header, _ in found]
    if len(set(names)) < len(names):
        raise bad_request("a transcript is given twice")
    result = ImportResult([], [], [])
    rows = agent.index.store.catalog.rows
    for header, messages in found:
        name = header.name
        is_next = await agent.look_up(_takes, files, header, at="import")
        if is_next and not body.dry_run:
            await _keep(agent, files.kept.extend, files, header, messages)
        if is_next:
            result.imported.append(name)
        elif FileKey(SOURCE, name) in rows or files.kept.copies.path(name).exists():
            result.present.append(name)
        elif not files.accepts(header):
            result.left_out.append(name)
        else:
            if not body.dry_run:
                await _keep(agent, files.kept.adopt, files, header, messages)
            result.imported.append(name)
    if result.imported and not body.dry_run:
        await agent.sync(vectors=False)
    return result


def _takes(files: Transcripts, header: KeptHeader) -> bool:
    """Return whether a part continues what was imported of its transcript."""
    try:
        return files.kept.takes(header)
    except OSError:
        return False


async def _keep(
    agent: Agent,
    keep: Callable[[KeptHeader, list[KeptMessage]], None],
    files: Transcripts,
    header: KeptHeader,
    messages: list[KeptMessage],
) -> None:
    try:
        await agent.look_up(keep, header, messages, at="import")
    except OSError as error:
        folder, why = files.kept.copies.folder, error.strerror or str(error)
        raise RequestFailedError(
            ErrorCode.UNAVAILABLE,
            f"can't write {header.name[:ECHO_CHARS]} to {folder}: {why}",
            "fix the reason and import again; what is there already stays as it is",
        ) from error


def _checked(data: bytes) -> tuple[KeptHeader, list[KeptMessage]]:
    """Return the content of a packed transcript. Raises `RequestFailedError`."""
    try:
        lines = unpacked(io.BytesIO(data))
        header = decoded_header(next(lines, b""))
        messages: list[KeptMessage] = []
        size = 0
        for line in lines:
            size += len(line)
            if size > MAX_UNPACKED_BYTES:
                raise bad_request("a transcript is larger than 1 GiB")
            messages.append(decoded_message(line))
    except OSError as error:
        raise bad_request(
            f"not an export of memoryd: {error.strerror}", "export it again with `memctl export`"
        ) from error
    name, numbers = header.name, [message.line for message in messages]
    shown = name[:ECHO_CHARS]
    if not _is_name(name):
        raise bad_request(f"{shown!r} is not the name of a transcript")
    if (
        len(messages) != header.messages
        or numbers != sorted(numbers)
        or min(numbers, default=header.after + 1) <= header.after
    ):
        raise bad_request(f"{shown} is damaged", "export it again with `memctl export`")
    return header, messages


def _is_name(name: str) -> bool:
    parts = name.split("/")
    return (
        len(parts) > 2
        and parts[0] == SOURCE
        and len(name) <= MAX_NAME_CHARS
        and name.isprintable()
        and not {"", ".", ".."} & set(parts)
    )
