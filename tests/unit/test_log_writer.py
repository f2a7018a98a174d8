"""The log: lines in order, and no caller blocked by writing."""

import logging
import threading
import unicodedata
from collections.abc import Iterator

import pytest

from memoryd.daemon import log_writer
from memoryd.daemon.log_writer import FORMAT, LineFormatter, Log
from memoryd_client.shared.log_line import escaped

BIDI = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
"""Classes of the characters that change the order of others."""


class Slow(logging.Handler):
    """A stream that writes nothing until released."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.may.wait()
        self.lines.append(record.getMessage())


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.may.set()


def record(message: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message})


def test_lines_are_written_in_their_order_with_what_went_wrong(slow: Slow) -> None:
    log = Log(slow)
    log.handle(record("100 % of it"))
    try:
        raise ValueError("why")
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
        log.handle(logging.makeLogRecord({"msg": "failed", "exc_info": caught}))
    assert not log.flushed(0.0)
    slow.may.set()
    assert log.flushed(20.0)
    assert slow.lines[0] == "100 % of it"
    assert slow.lines[1].startswith("failed\nTraceback")
    assert slow.lines[1].endswith("ValueError: why")


def test_no_message_can_forge_a_line_or_control_a_terminal() -> None:
    forged = "2026-11-28 00:00:00,000 ERROR memoryd: forged"
    name = f"x\x1b]0;OWNED\a\x9b31m\x7f\r\n{forged}\u2028{forged}\u202e\u2067\u200f\u061c\t.md"
    try:
        raise ValueError(name) from KeyError(name)
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
    fields = {"msg": "can't read %s", "args": (name,), "exc_info": caught, "stack_info": name}
    text = LineFormatter(FORMAT).format(logging.makeLogRecord(fields))
    first, *rest = text.split("\n")
    assert first.endswith(
        rf"can't read x\x1b]0;OWNED\x07\x9b31m\x7f\r\n{forged}\u2028{forged}"
        r"\u202e\u2067\u200f\u061c\t.md"
    )
    assert len(rest) > 5
    assert all(line.startswith("  ") for line in rest)
    assert all(unicodedata.category(c) not in ("Cc", "Zl", "Zp") for c in text if c != "\n")
    assert not any(unicodedata.bidirectional(c) in BIDI for c in text)


def test_what_is_readable_stays() -> None:
    plain = "naïve 海象 ไทย नमस्ते 🦭 עברית a\\b\u200d\udcff"
    assert escaped(plain) == plain


def test_too_many_lines_are_counted_and_told_of(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_WAITING", 3)
    log = Log(slow)
    for number in range(10):
        log.handle(record(str(number)))
    slow.may.set()
    assert log.flushed(20.0)
    log.handle(record("later"))
    assert log.flushed(20.0)
    lost = "7 log lines were lost because nothing read the log"
    assert slow.lines == ["0", "1", "2", lost, "later"]
