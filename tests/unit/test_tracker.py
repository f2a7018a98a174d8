"""The time at which a changed transcript is read."""

import pytest

from memoryd.messages import FileStat, TranscriptState
from memoryd.source.transcripts.due import Pending, Thresholds, is_due, pending

LIMITS = Thresholds(delta_bytes=100, delta_messages=5, idle_s=60.0)


def state(offset: int, inode: int = 7) -> TranscriptState:
    return TranscriptState("plain", 1, inode, 0, offset, 3, offset, "", 0, 1)


@pytest.mark.parametrize(
    ("stat", "known", "read_to", "expected"),
    [
        (FileStat(1, 50, 7), FileStat(1, 50, 7), state(50), None),
        (FileStat(1, 50, 7), None, None, Pending(0, 50)),
        (FileStat(2, 80, 7), FileStat(1, 50, 7), state(45), Pending(45, 35)),
        (FileStat(2, 30, 7), FileStat(1, 50, 7), state(45), Pending(0, 30, again=True)),
        (FileStat(2, 80, 8), FileStat(1, 50, 7), state(45), Pending(0, 80, again=True)),
    ],
)
def test_what_is_pending(
    stat: FileStat,
    known: FileStat | None,
    read_to: TranscriptState | None,
    expected: Pending | None,
) -> None:
    assert pending(stat, known, read_to) == expected


@pytest.mark.parametrize(
    ("size", "messages", "idle_s", "archive", "due"),
    [
        (99, 4, 59.9, False, False),
        (100, 0, 0.0, False, True),
        (1, 5, 0.0, False, True),
        (1, 0, 60.0, False, True),
        (1, 0, 0.0, True, True),
    ],
)
def test_whichever_comes_first(
    size: int, messages: int, idle_s: float, archive: bool, due: bool
) -> None:
    what = Pending(0, size)
    assert due is is_due(what, messages=messages, idle_s=idle_s, archive=archive, thresholds=LIMITS)


def test_another_file_or_a_shorter_one_is_read_at_once() -> None:
    what = Pending(0, 1, again=True)
    assert is_due(what, messages=0, idle_s=0.0, archive=False, thresholds=LIMITS)
