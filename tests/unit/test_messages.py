"""Line numbering shared by all stages, and the queue that records its highest fill level."""

import asyncio
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.messages import MeteredQueue, SyncMarker, split_lines

TEXTS = st.text(st.sampled_from("ab\n\r\t\x0b\x0c\x1c\x85\u2028\u2029é"), max_size=40)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\rb", ["a", "b"]),
        ("a\n\rb", ["a", "", "b"]),
        ("a\r\r\nb", ["a", "", "b"]),
        ("a\n\n", ["a", ""]),
        ("a\x0bb\x0cc\x85d\u2028e\u2029f\x1cg", ["a\x0bb\x0cc\x85d\u2028e\u2029f\x1cg"]),
    ],
)
def test_lines(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@given(TEXTS)
def test_lines_and_their_ends_make_the_text_again(text: str) -> None:
    lines = split_lines(text)
    ends = re.findall(r"\r\n|\n|\r", text)
    assert len(ends) in (len(lines), len(lines) - 1)
    ends += [""] * (len(lines) - len(ends))
    assert "".join(line + end for line, end in zip(lines, ends, strict=True)) == text


@given(TEXTS)
def test_lines_are_counted_as_universal_newlines_are(text: str) -> None:
    counted = [line.removesuffix("\n") for line in io.StringIO(text, newline=None)]
    assert split_lines(text) == counted


async def test_a_queue_remembers_its_high_water() -> None:
    queue = MeteredQueue[int]("parse", 3)
    await queue.put(1)
    await queue.put(2)
    await queue.get()
    await queue.get()
    await queue.put(3)
    assert (queue.name, queue.maxsize, queue.qsize(), queue.high_water) == ("parse", 3, 1, 2)


async def test_a_full_queue_makes_its_feeder_wait() -> None:
    queue = MeteredQueue[int]("parse", 1)
    queue.put_nowait(1)
    with pytest.raises(asyncio.QueueFull):
        queue.put_nowait(2)
    putting = asyncio.create_task(queue.put(2))
    assert await queue.get() == 1
    await putting
    assert (await queue.get(), queue.high_water) == (2, 1)


async def test_a_marker_is_itself_and_waits() -> None:
    first, second = SyncMarker(), SyncMarker()
    assert first != second
    first.text.set_result(None)
    assert (first.text.done(), first.vectors.done(), second.text.done()) == (True, False, False)
