"""The log: lines in order, and no caller blocked by writing."""

import logging
import threading
from collections.abc import Iterator

import pytest

from memoryd.daemon import log_writer
from memoryd.daemon.log_writer import Log


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
