"""Records of transcripts: decoded from JSON, and shown as text with secrets masked."""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from memoryd.source.transcripts.format import Message, Record
from memoryd.source.transcripts.spoken import ReadingRules, spoken

BOM = b"\xef\xbb\xbf"


class TranscriptExcerpt(NamedTuple):
    """Messages or records as text, the number of lines, and the next line, if any."""

    lines: list[str]
    total_lines: int
    next_line: int | None


def excerpt(
    records: Iterable[tuple[int, bytes | None]],
    show: Callable[[bytes | None], str | None],
    *,
    start_line: int,
    max_lines: int,
    max_chars: int,
) -> TranscriptExcerpt:
    """Return the texts of numbered records from `start_line` on that show anything."""
    taken: list[str] = []
    room, next_line, total = max_chars, None, 0
    for total, data in records:
        if total < start_line or next_line is not None:
            continue
        text = show(data)
        if text is None:
            continue
        room -= len(text) + 1
        if len(taken) == max_lines or (room < 0 and taken):
            next_line = total
        else:
            taken.append(text[:max_chars])
    return TranscriptExcerpt(taken, total, next_line)


def shown(
    data: bytes | None,
    message_of: Callable[[Record], Message | None],
    rules: ReadingRules,
    *,
    raw: bool,
) -> str | None:
    """Return a record as text, or with `raw` as it is, secrets masked; None to show nothing."""
    record = decoded(data)
    message = None if record is None else message_of(record)
    said = [] if message is None else list(spoken(message, rules))
    if message is not None and len(said) < (len(message.parts) or 1) and (raw or not said):
        return None  # forgotten; a raw record can't be shown without the forgotten part
    if raw:
        return None if data is None else _raw(data, record, rules.redact)
    return "\n".join(part.text for part in said) or None


def _raw(data: bytes, record: Record | None, redact: Callable[[str], str]) -> str | None:
    """Return a line unchanged, or re-encoded if it contains secrets.

    JSON may write any character of a secret as an escape, so masking the raw line is not enough.
    """
    text = data.decode("utf-8", "replace")
    try:
        masked = _masked(record, redact)
        if masked != record:
            text = json.dumps(masked, ensure_ascii=False)
    except RecursionError:
        return None
    return redact(text)


def masked_json(value: Any, redact: Callable[[str], str]) -> str:
    """Return a value as JSON with secrets masked."""
    return redact(json.dumps(_masked(value, redact), ensure_ascii=False))


def _masked(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_masked(item, redact) for item in value]
    if isinstance(value, dict):
        return {redact(key): _masked(item, redact) for key, item in value.items()}
    return value


def decoded(data: bytes | None) -> Record | None:
    """Return the record in a line, None if it has none."""
    if data is None:
        return None
    data = data.removeprefix(BOM)
    try:
        record = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = _repaired(data) if b"\\u" in data else None
    return record if isinstance(record, dict) else None


def _repaired(data: bytes) -> object:
    """Decode a line with lone surrogates, replaced by U+FFFD; None if it is still invalid.

    JavaScript writes these if it cuts a text within an emoji.
    """
    try:
        text = json.dumps(json.loads(data.decode()), ensure_ascii=False)
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return msgspec.json.decode(whole)
    except (ValueError, RecursionError):
        return None
