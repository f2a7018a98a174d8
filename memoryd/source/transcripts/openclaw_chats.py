"""Chats of OpenClaw's older session store, read and shown as transcripts are."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from memoryd.chunk.transcript import Position, TranscriptChunker
from memoryd.source.transcripts import openclaw_json5
from memoryd.source.transcripts.delta import DeltaOptions, TranscriptDelta
from memoryd.source.transcripts.format import Record
from memoryd.source.transcripts.records import TranscriptExcerpt, masked_json
from memoryd.source.transcripts.spoken import Spoken, spoken
from memoryd.source.transcripts.times import Times
from memoryd.source.transcripts.topic import TopicReader


def is_chat(path: Path) -> bool:
    """Return whether a file is a chat of this store."""
    return path.name.endswith(openclaw_json5.SUFFIX)


def read_chat(path: Path, options: DeltaOptions, check: Callable[[str], None]) -> TranscriptDelta:
    """Read a whole chat; unchanged chunks keep their rows. Blocking. Raises `OSError`.

    `check` raises it for a session that is not read.
    """
    chat, stat, digest, inode = openclaw_json5.load(path, options.base(path))
    chunker = TranscriptChunker(tokens=options.tokens, max_bytes=options.max_bytes)
    times = Times()
    for _, item in openclaw_json5.numbered(chat):
        if (message := openclaw_json5.message(item)) is not None:
            times = times.with_message(message)
    count = 0
    topics = TopicReader(None, None, options.rules)
    for number, said in _spoken(chat, options):
        count += 1
        topics.hear(said)
        chunker.add(Position(0, number), [(part.text, part.voice) for part in said])
    reading = options.rules.reading
    state = openclaw_json5.state(chat, stat, inode, count, owner=options.owner, reading=reading)
    state = msgspec.structs.replace(
        state,
        first_at=times.first,
        last_at=times.last,
        topic=topics.topic,
        chat_type=openclaw_json5.registered_chat_type(path, chat, options.base(path)),
    )
    check(state.session)
    chunks, _ = chunker.finish(Position(0, 1))
    return TranscriptDelta(
        *(stat, f"{digest}:{reading}", state, chunks),
        from_line=1,
        bytes_read=stat.size,
        facts=times.facts(),
    )


def messages_of_chat(path: Path, options: DeltaOptions) -> Iterator[Spoken]:
    """Yield the messages of a chat as they are indexed. Blocking. Raises `OSError`."""
    chat, *_ = openclaw_json5.load(path, options.base(path))
    for _, said in _spoken(chat, options):
        yield from said


def excerpt_of_chat(
    path: Path, *, options: DeltaOptions, start_line: int, max_lines: int, max_chars: int, raw: bool
) -> TranscriptExcerpt:
    """Return the messages of a chat as `read_records` does. Blocking. Raises `OSError`."""
    chat, *_ = openclaw_json5.load(path, options.base(path))
    items = dict(openclaw_json5.numbered(chat))
    spoken_lines = [
        (n, masked_json(items[n], options.rules.redact))
        if raw
        else (n, "\n".join(part.text for part in said))
        for n, said in _spoken(chat, options, whole=raw)
        if n >= start_line
    ]
    taken, rest = spoken_lines[:max_lines], spoken_lines[max_lines:]
    lines = [text[:max_chars] for _, text in taken]
    return TranscriptExcerpt(lines, len(items), rest[0][0] if rest else None)


def _spoken(
    chat: Record, options: DeltaOptions, *, whole: bool = False
) -> Iterator[tuple[int, list[Spoken]]]:
    """Yield the messages of a chat as they are indexed, with their numbers.

    `whole`: only those of which no part was forgotten.
    """
    for number, item in openclaw_json5.numbered(chat):
        if (message := openclaw_json5.message(item)) is not None:
            said = list(spoken(message, options.rules))
            if said and not (whole and len(said) < len(message.parts)):
                yield number, said
