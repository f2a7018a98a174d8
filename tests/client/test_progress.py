import io

import pytest

from memctl.progress import LIVE_INTERVAL_S, LOG_INTERVAL_S, ProgressLine, progress_text
from memoryd_client.shared.humanize import counted, duration, minutes, size


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_live_line_is_rewritten_in_place_and_goes_away() -> None:
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, live=True, clock=clock)
    line(0, 90, "reading")
    clock.now += 30
    line(30, 90, "reading")
    line.finish()
    assert stream.getvalue() == (
        "\r\x1b[Kreading 0/90 · elapsed 0:00\r\x1b[Kreading 30/90 · elapsed 0:30 · eta 1:00\r\x1b[K"
    )


def test_a_log_gets_a_line_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, live=False, clock=clock)
    for completed in range(100):
        line(completed, 100, "embedding")
        clock.now += LOG_INTERVAL_S / 40
    line.finish()
    assert stream.getvalue().splitlines() == [
        "embedding 40/100 · elapsed 0:10 · eta 0:15",
        "embedding 80/100 · elapsed 0:20 · eta 0:05",
    ]


def test_what_takes_little_time_leaves_nothing_in_a_log() -> None:
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, live=False, clock=clock)
    line(0, 3, "reading")
    clock.now += LOG_INTERVAL_S - 1
    line(2, 3, "reading")
    line.finish()
    assert stream.getvalue() == ""


def test_a_live_line_does_not_flicker() -> None:
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, live=True, clock=clock)
    for completed in range(100):
        line(completed, 100, "embedding")
        clock.now += LIVE_INTERVAL_S / 10
    assert stream.getvalue().count("\r") == 10


def test_the_time_left_is_told_from_the_pace_of_the_present_label() -> None:
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, live=True, clock=clock)
    line(0, 10, "reading")
    clock.now += 600
    line(0, 100, "embedding")
    clock.now += 60
    line(50, 100, "embedding")
    assert stream.getvalue().endswith("\x1b[Kembedding 50/100 · elapsed 11:00 · eta 1:00")


def test_a_live_line_fits_into_the_terminal() -> None:
    stream = io.StringIO()
    ProgressLine(stream, live=True, columns=10, clock=Clock())(1, 3, "東京の港区")
    assert stream.getvalue() == "\r\x1b[K東京の港"


def test_a_label_stays_on_its_line() -> None:
    text = progress_text(1, 3, "a\nb\x1b[31m", elapsed_s=0, label_elapsed_s=0)
    assert text.startswith("a\ufffdb\ufffd[31m 1/3")


def test_nothing_shown_leaves_nothing_behind() -> None:
    stream = io.StringIO()
    ProgressLine(stream, live=True).finish()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (9.6, "0:10"), (75, "1:15"), (3725, "62:05")]
)
def test_minutes(seconds: float, text: str) -> None:
    assert minutes(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59, "59 s"), (75, "1 min 15 s"), (11520, "3 h 12 min"), (90000, "1 d 1 h")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2411724, "2.3 MiB"), (2**41, "2.0 TiB")],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_counted(number: int, text: str) -> None:
    assert counted(number, "file") == text
