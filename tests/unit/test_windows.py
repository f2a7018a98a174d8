"""Windows of a chunk: complete, in order, within the limit, cut at line and sentence ends."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.embed.windows import windows
from memoryd.text.token_estimate import weigh

PROSE = st.text("ab c.!?\n漢字。 é🦭", max_size=400)


@given(PROSE, st.integers(20, 200))
@example("?\n?。。。。。。。", 20)
def test_nothing_is_lost_and_nothing_too_large(text: str, units: int) -> None:
    made = windows(text, units)
    assert made
    assert re.sub(r"\s", "", "".join(made)) == re.sub(r"\s", "", text)
    if len(made) > 1:
        assert all(window.strip() for window in made)
        assert max(map(weigh, made)) <= units + 8


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert windows("one\n\ntwo ", 400) == ["one\n\ntwo "]


def test_whole_lines_go_together() -> None:
    lines = [f"line {number} of this text" for number in range(8)]
    made = windows("\n".join(lines), 50)
    assert made == ["\n".join(lines[at : at + 2]) for at in range(0, 8, 2)]


def test_a_long_line_is_cut_at_sentences() -> None:
    sentences = [
        f"This is sentence number {number} of a long line of prose." for number in range(9)
    ]
    made = windows(" ".join(sentences), 120)
    assert all(window.strip().endswith("prose.") for window in made)
    assert len(made) > 3


def test_a_line_without_any_end_is_cut_too() -> None:
    assert "".join(windows("x" * 3_000, 400)) == "x" * 3_000
    assert len(windows("漢" * 1_000, 400)) >= 10
