"""Chunks of Markdown: exact line ranges, sizes, overlap, headings."""

import itertools
import unicodedata
from dataclasses import dataclass
from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.chunk.markdown import chunk_markdown
from memoryd.messages import Chunk
from memoryd.text.token_estimate import weigh, well_formed

FAMILY = "👨‍👩‍👧‍👦"
SOLID = [
    *(
        "a",
        "word",
        "é",
        "ж",
        "क्षि",
        "汉",
        "漢字",
        "한글",
        "。",
        "—",
        "😀",
        "┌──┐",
        "ＡＢ",
        "\ufffd",
    ),
    *("e\u0301", "a\u0323\u0300", "❤️", "👍🏽", FAMILY, "🇩🇪🇫🇷", "#", "`", "x" * 70),
    unicodedata.normalize("NFD", "각"),
]
BROKEN = ["\ud800", "\udfff", "\ud83d\ude00"]
SPACES = [" ", "\t", ". ", "! ", ", ", " " * 40, "\u3000"]

solid_lines = st.lists(st.sampled_from(SOLID), min_size=1, max_size=120).map("".join)
prose = st.lists(st.sampled_from(SOLID + SPACES + BROKEN), max_size=40).map("".join)
long_lines = st.builds(
    "{}{}".format, prose, st.builds(str.__mul__, st.sampled_from(SOLID + BROKEN), st.just(400))
)
any_text = st.text(st.characters(exclude_characters="\n"))
plain_lines = st.one_of(st.sampled_from(["", " ", "\t ", "- item"]), prose, any_text)
structure = st.sampled_from(
    ["", "# A", "## B", "### C ###", "#", "#tag", "```", "~~~~", "```python", "    # code", "text"]
)
documents = st.lists(st.one_of(plain_lines, structure, long_lines), max_size=40)


@dataclass(frozen=True)
class Options:
    """Arguments of `chunk_markdown`, and their values in quarter tokens."""

    tokens: int
    overlap: int
    max_bytes: int

    @property
    def budget(self) -> int:
        return max(32, self.tokens * 4)

    @property
    def repeat(self) -> int:
        return min(4 * min(self.overlap, self.tokens - 1), self.budget // 2)

    def chunk(self, lines: list[str]) -> list[Chunk]:
        return chunk_markdown(
            lines, tokens=self.tokens, overlap=self.overlap, max_bytes=self.max_bytes
        )


sizes = st.builds(Options, st.integers(1, 60), st.integers(0, 70), st.just(8000))
all_sizes = sizes | st.builds(Options, st.integers(1, 60), st.integers(0, 70), st.integers(4, 300))


def cost(text: str) -> int:
    return sum(weigh(line) + 1 for line in text.split("\n"))


def clusters(text: str) -> list[str]:
    """Graphemes, composed from left to right."""
    found: list[str] = []
    for char in text:
        before = found[-1] if found else ""
        extends = (
            unicodedata.category(char).startswith("M")
            or char in "\u200c\u200d\u0e33\u0eb3\uff9e\uff9f"
            or "\U0001f3fb" <= char <= "\U0001f3ff"
            or "\U000e0020" <= char <= "\U000e007f"
            or "\u1160" <= char <= "\u11ff"
            or "\ud7b0" <= char <= "\ud7fb"
        )
        second_of_flag = "🇦" <= char <= "🇿" and len(before) == 1 and "🇦" <= before <= "🇿"
        if before and (extends or before.endswith("\u200d") or second_of_flag):
            found[-1] += char
        else:
            found.append(char)
    return found


@given(documents, all_sizes)
def test_every_line_with_text_is_in_a_chunk(lines: list[str], options: Options) -> None:
    covered = {
        number
        for chunk in options.chunk(lines)
        for number in range(chunk.start_line, chunk.end_line + 1)
    }
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= covered


@given(documents, all_sizes)
def test_a_chunk_holds_the_text_of_its_lines(lines: list[str], options: Options) -> None:
    for chunk in options.chunk(lines):
        source = [well_formed(line) for line in lines[chunk.start_line - 1 : chunk.end_line]]
        first, *others = chunk.text.split("\n")
        if not others:
            assert len(source) == 1
            assert first in source[0]
        else:
            assert source[0].endswith(first)
            assert others[:-1] == source[1:-1]
            assert source[-1].startswith(others[-1])


@given(st.lists(plain_lines, max_size=40), all_sizes)
def test_lines_that_fit_stay_whole(lines: list[str], options: Options) -> None:
    for chunk in options.chunk(lines):
        source = [well_formed(line) for line in lines[chunk.start_line - 1 : chunk.end_line]]
        if all(
            cost(line) <= options.budget and len(line.encode()) <= options.max_bytes
            for line in source
        ) and not any(line.lstrip().startswith("#") for line in lines):
            assert chunk.text == "\n".join(source)


@given(documents, all_sizes)
def test_chunks_begin_and_end_with_text_and_only_move_on(
    lines: list[str], options: Options
) -> None:
    chunks = options.chunk(lines)
    for chunk in chunks:
        assert chunk.text.split("\n")[0].strip()
        assert chunk.text.split("\n")[-1].strip()
    for before, after in itertools.pairwise(chunks):
        assert before.start_line <= after.start_line
        assert before.end_line <= after.end_line


@given(documents, all_sizes)
def test_chunks_keep_to_their_size(lines: list[str], options: Options) -> None:
    for chunk in options.chunk(lines):
        assert cost(chunk.text) <= options.budget or len(clusters(chunk.text)) == 1
        assert len(chunk.text.encode()) <= options.max_bytes


@given(documents, all_sizes)
def test_headings_can_be_encoded_and_are_short(lines: list[str], options: Options) -> None:
    for chunk in options.chunk(lines):
        assert len(chunk.heading.encode().decode()) <= 200


@given(documents, all_sizes)
def test_the_same_lines_give_the_same_chunks(lines: list[str], options: Options) -> None:
    again = [("." + line)[1:] for line in lines]
    assert options.chunk(again) == options.chunk(lines)


@given(st.lists(plain_lines, max_size=20), all_sizes)
def test_what_follows_leaves_the_chunks_before_it_alone(lines: list[str], options: Options) -> None:
    """An append changes at most the last chunk, so the others keep their vectors."""
    before = options.chunk(lines)
    after = options.chunk([*lines, "- appended", "x" * 500])
    assert after[: max(0, len(before) - 1)] == before[:-1]


@given(solid_lines, st.integers(1, 60))
def test_the_pieces_of_a_line_are_the_line(line: str, tokens: int) -> None:
    chunks = chunk_markdown([line], tokens=tokens, overlap=0)
    assert "".join(chunk.text for chunk in chunks) == line
    assert [char for chunk in chunks for char in clusters(chunk.text)] == clusters(line)


@given(prose.filter(str.strip), st.integers(1, 60))
def test_pieces_lose_nothing_but_space(line: str, tokens: int) -> None:
    chunks = chunk_markdown([line], tokens=tokens, overlap=0)
    pieces = "".join("".join(chunk.text.split()) for chunk in chunks)
    assert pieces == "".join(well_formed(line).split())


@given(st.lists(prose, max_size=60), sizes)
def test_overlap_is_whole_lines_within_its_bound(bodies: list[str], options: Options) -> None:
    lines = [f"{number}{body}" for number, body in enumerate(bodies)]
    lines = [line for line in lines if cost(line) <= options.budget]
    chunks = options.chunk(lines)
    for before, after in itertools.pairwise(chunks):
        assert before.end_line < after.end_line
        repeated = lines[after.start_line - 1 : before.end_line]
        assert sum(cost(line) for line in repeated) <= options.repeat


@given(st.integers(200, 3000), st.integers(40, 400), st.integers(0, 300))
def test_overlap_within_a_line_keeps_to_its_bound(words: int, tokens: int, overlap: int) -> None:
    options = Options(tokens, overlap, 8000)
    line = " ".join(f"w{number:05}" for number in range(words))
    reached = 0
    for chunk in options.chunk([line]):
        start = line.index(chunk.text)
        assert start <= reached
        assert reached - start <= options.repeat
        assert start + len(chunk.text) > reached
        reached = start + len(chunk.text)
    assert reached == len(line)


@given(documents, all_sizes)
def test_lines_may_come_one_by_one(lines: list[str], options: Options) -> None:
    one_by_one = chunk_markdown(
        iter(lines),
        tokens=options.tokens,
        overlap=options.overlap,
        max_bytes=options.max_bytes,
    )
    assert one_by_one == options.chunk(lines)


class EndlessLine(str):
    """A line of millions of characters that limits the size of each slice.

    A call that reads the whole line at once would block all other threads.
    """

    __slots__ = ()
    length = 5_000_000
    bearable = 100_000

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, wanted: SupportsIndex | slice) -> str:
        assert isinstance(wanted, slice)
        start, stop, step = wanted.indices(self.length)
        assert (step, stop - start <= self.bearable) == (1, True)
        return "# word " + "word " * ((stop - start) // 5) if start == 0 else "w" * (stop - start)


def test_no_step_looks_at_the_whole_of_an_overlong_line() -> None:
    chunks = chunk_markdown([EndlessLine(), "end"])
    assert sum(len(chunk.text) for chunk in chunks) > EndlessLine.length
    assert {chunk.start_line for chunk in chunks} <= {1, 2}
    assert chunks[0].heading.startswith("word word")


def test_no_text_gives_no_chunk() -> None:
    assert chunk_markdown([]) == []
    assert chunk_markdown(["", " \t", "\u3000"] * 2000) == []


def test_a_short_file_is_one_chunk_without_the_blank_lines_around_it() -> None:
    assert chunk_markdown(["", " ", "one", "", "two", "\t", ""]) == [Chunk(3, 5, "one\n\ntwo", "")]


def test_a_long_gap_is_no_reason_to_repeat_what_is_before_it() -> None:
    chunks = chunk_markdown(["one", *[""] * 5000, "two"])
    assert chunks == [Chunk(1, 1, "one", ""), Chunk(5002, 5002, "two", "")]


def test_lines_are_packed_up_to_the_budget_and_the_last_ones_repeated() -> None:
    lines = [f"line {number:03}" + "." * 31 for number in range(100)]  # 40 units each
    chunks = chunk_markdown(lines, tokens=400, overlap=80)
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [
        (1, 40),
        (33, 72),
        (65, 100),
    ]


def test_overlap_gives_way_to_new_text() -> None:
    lines = ["a" * 1299, "b" * 99, "c" * 99, "d" * 99, "e" * 1449]
    chunks = chunk_markdown(lines)
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(1, 4), (4, 5)]


def test_overlap_reaches_no_further_up_than_a_heading() -> None:
    lines = ["a" * 39] * 18 + ["# B"] + ["b" * 39] * 18 + ["c" * 199]
    above, below = chunk_markdown(lines, overlap=400)
    assert (above.start_line, above.end_line, above.heading) == (1, 37, "")
    assert (below.start_line, below.end_line, below.heading) == (19, 38, "B")


def test_overlap_is_never_more_than_half_a_chunk() -> None:
    lines = [str(number) * 39 for number in range(10)] * 20
    for before, after in itertools.pairwise(chunk_markdown(lines, tokens=100, overlap=1000)):
        assert before.end_line - after.start_line + 1 == 5


def test_20000_han_characters_in_one_line() -> None:
    line = "".join(chr(0x4E00 + number) for number in range(20_000))
    chunks = chunk_markdown(["first", line, "last"], overlap=0)
    assert {(chunk.start_line, chunk.end_line) for chunk in chunks[1:-1]} == {(2, 2)}
    assert "".join(chunk.text for chunk in chunks) == f"first\n{line}\nlast"
    assert all(380 <= len(chunk.text) <= 400 for chunk in chunks[1:-1])
    repeating = chunk_markdown([line])
    for before, after in itertools.pairwise(repeating):
        shared = line.index(before.text) + len(before.text) - line.index(after.text)
        assert 40 <= shared <= 80


def test_40000_characters_in_one_line() -> None:
    line = "".join(f"Sentence number {number:04} ends here. " for number in range(1112))[:40_000]
    chunks = chunk_markdown([line], overlap=0)
    assert "".join(chunk.text for chunk in chunks) == line
    assert all(chunk.text.endswith("here. ") for chunk in chunks[:-1])
    assert 25 <= len(chunks) <= 27


@pytest.mark.parametrize("emoji", ["😀", "👍🏽", "❤️", FAMILY, "🇩🇪"])
def test_an_emoji_on_the_boundary_stays_whole(emoji: str) -> None:
    for before in range(1560, 1605):
        line = "x" * before + emoji + "y" * before
        chunks = chunk_markdown([line], overlap=0)
        assert "".join(chunk.text for chunk in chunks) == line
        assert [emoji in chunk.text for chunk in chunks].count(True) == 1
        assert all(cost(chunk.text) <= 1600 for chunk in chunks)


def test_lone_surrogates_become_replacement_characters() -> None:
    assert chunk_markdown(["# \udc00", "a\ud800b"]) == [Chunk(1, 2, "# \ufffd\na\ufffdb", "\ufffd")]


def test_a_line_over_the_byte_limit_is_cut_with_its_range_kept() -> None:
    chunks = chunk_markdown(["one", "汉字" * 5, "two"], max_bytes=12)
    assert [(chunk.start_line, chunk.end_line, chunk.text) for chunk in chunks] == [
        (1, 1, "one"),
        (2, 2, "汉字汉字"),
        (2, 2, "汉字汉字"),
        (2, 3, "汉字\ntwo"),
    ]


def test_a_chunk_may_fill_the_byte_limit() -> None:
    assert chunk_markdown(["abc", "defg"], max_bytes=8) == [Chunk(1, 2, "abc\ndefg", "")]
    assert [chunk.text for chunk in chunk_markdown(["😀😀"], max_bytes=4)] == ["😀", "😀"]


def test_a_blank_line_behind_more_headings_than_fit_counts() -> None:
    headings = [f"# {number}" for number in range(12)]
    for more in range(8):
        chunks = chunk_markdown(
            [*headings, "#" + " " * more, "", "a b c d e f"], tokens=8, max_bytes=16
        )
        assert all(len(chunk.text.encode()) <= 16 for chunk in chunks)
    rising = ["# aaaaaaaaaa", "## bbbbbbbbbb", "### cccccc", "", "text of twenty bytes"]
    for max_bytes in range(8, 40):
        chunks = chunk_markdown(rising, tokens=8, max_bytes=max_bytes)
        assert all(len(chunk.text.encode()) <= max_bytes for chunk in chunks), max_bytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "tokens is 0: set it to 1 or more"),
        ({"overlap": -1}, "overlap is -1: set it to 0 or more"),
        ({"max_bytes": 3}, "max_bytes is 3: set it to 4 or more"),
    ],
)
def test_an_argument_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chunk_markdown(["text"], **options)


def headings(*lines: str) -> dict[str, str]:
    """Return the heading path of each line that is not blank, one chunk a line."""
    filled = [line + " " * (30 - len(line)) if line else line for line in lines]
    chunks = chunk_markdown(filled, tokens=8, overlap=0)
    return {chunk.text.strip(): chunk.heading for chunk in chunks}


def test_a_chunk_knows_the_headings_above_it() -> None:
    assert headings(
        "zero", "# A", "one", "## B", "two", "### C", "## D", "three", "# E", "four"
    ) == {
        "zero": "",
        "# A": "A",
        "one": "A",
        "## B": "A > B",
        "two": "A > B",
        "### C": "A > B > C",
        "## D": "A > D",
        "three": "A > D",
        "# E": "E",
        "four": "E",
    }


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("#  Spaced \t", "Spaced"),
        ("   # Indented", "Indented"),
        ("# Closed ##", "Closed"),
        ("# C#", "C#"),
        ("# Tab\t#", "Tab"),
        ("#\tTab", "Tab"),
        ("###### Six", "Six"),
        ("# ", ""),
        ("# ##", ""),
        ("#tag", ""),
        ("    # code", ""),
        ("\t# code", ""),
        ("####### seven", ""),
        ("> # quoted", ""),
    ],
)
def test_only_atx_headings_count(line: str, heading: str) -> None:
    assert chunk_markdown([line, "text"])[0].heading == heading


def test_a_heading_without_text_ends_the_deeper_ones() -> None:
    assert headings("# A", "## B", "##", "text")["text"] == "A"


@pytest.mark.parametrize(
    "fence",
    [
        ["```", "# no", "```"],
        ["~~~", "# no", "```", "# no", "~~~"],
        ["````", "# no", "```", "# no", "`````"],
        ["```sh", "# no", "```sh", "# no", "```  "],
        ["  ~~~ `x`", "# no", " ~~~"],
    ],
)
def test_a_number_sign_in_a_fence_is_no_heading(fence: list[str]) -> None:
    found = headings("# Yes", *fence, "after", "## Also", "end")
    assert found["after"] == "Yes"
    assert found["end"] == "Yes > Also"


def test_inline_code_opens_no_fence() -> None:
    assert headings("``` not ` a fence", "# Yes", "text")["text"] == "Yes"


def test_a_fence_that_is_never_closed_reaches_the_end() -> None:
    assert headings("# Yes", "```", "# no", "text")["text"] == "Yes"


def test_a_long_path_keeps_its_innermost_headings() -> None:
    path = ["# " + "a" * 90, "## " + "b" * 90, "### " + "c" * 90, "text"]
    assert chunk_markdown(path[2:])[0].heading == "c" * 90
    last = chunk_markdown([*path, "x" * 1500])[-1]
    assert last.heading == "b" * 90 + " > " + "c" * 90
    assert chunk_markdown(["# " + "d" * 5000])[0].heading == "d" * 200


def test_a_heading_starts_a_chunk_once_the_one_before_is_half_full() -> None:
    short, long = ["s" * 39] * 5, ["l" * 39] * 20
    chunks = chunk_markdown(["# A", *short, "# B", *long, "# C", *short])
    assert [(chunk.start_line, chunk.end_line, chunk.heading) for chunk in chunks] == [
        (1, 27, "A"),
        (28, 33, "C"),
    ]


@pytest.mark.parametrize("between", [[], [""], ["", "", ""], ["## B"], ["", "## B", ""]])
def test_a_heading_stays_with_its_text(between: list[str]) -> None:
    for room in range(60):
        lines = ["t" * (700 - room), "# A", *between, "u" * 880, "v" * 700]
        chunks = chunk_markdown(lines, tokens=400, overlap=0)
        holder = next(chunk for chunk in chunks if "# A" in chunk.text)
        assert "u" in holder.text


def test_a_heading_stays_with_a_line_that_alone_would_fit() -> None:
    line = "word " * 318 + "at end"
    assert len(chunk_markdown([line])) == 1
    chunks = chunk_markdown(["# A", "", line], overlap=0)
    assert [chunk.text[:12] for chunk in chunks] == ["# A\n\nword wo", "word word wo"]


@pytest.mark.parametrize("blank_lines", [0, 1, 9])
def test_a_chunk_that_starts_with_a_heading_repeats_nothing(blank_lines: int) -> None:
    lines = ["t" * 39] * 40 + [""] * blank_lines + ["# A", "text"]
    assert chunk_markdown(lines)[1:] == [
        Chunk(41 + blank_lines, 42 + blank_lines, "# A\ntext", "A")
    ]


def test_headings_alone_fill_chunks() -> None:
    chunks = chunk_markdown([f"# {number:05}" for number in range(1000)], overlap=0)
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [
        (first, min(first + 199, 1000)) for first in range(1, 1001, 200)
    ]


BLOCKS = {
    "fence": ["```python", *["x = 'some code'"] * 40, "", "# no heading", "```"],
    "tildes": ["~~~", *["```", "code", "```"] * 20, "~~~"],
    "in a list": ["   ```", *["   a line of code"] * 30, "   ```"],
    "deep in a list": ["      ```sh", *["      run this"] * 40, "      ```"],
    "table": ["| a | b |", "|---|:-:|", *["| some cell | another one |"] * 30],
    "plain table": ["a | b", "--|--", *["a cell | another one"] * 40],
}


def holders(lines: list[str], first: int, last: int, *, overlap: int = 80) -> int:
    """Return the number of chunks that hold all of these lines."""
    chunks = chunk_markdown(lines, overlap=overlap)
    return sum(chunk.start_line <= first and chunk.end_line >= last for chunk in chunks)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("overlap", [0, 80])
@pytest.mark.parametrize("between", [[], [""], ["", "## B", ""]])
def test_code_or_a_table_that_fits_is_not_cut(name: str, overlap: int, between: list[str]) -> None:
    block = BLOCKS[name]
    for before in range(0, 120, 3):
        lines = ["# A", *["a line of text"] * before, *between, *block, "", "text"]
        first = 2 + before + len(between)
        assert holders(lines, first, first + len(block) - 1, overlap=overlap), before


@pytest.mark.parametrize("size", range(1560, 1601, 4))
def test_code_with_hardly_any_room_for_its_heading_is_not_cut(size: int) -> None:
    line = "c" * 39
    count = (size - 8) // 40
    block = ["```", *[line] * count, "```"]
    for before in range(0, 40, 5):
        lines = ["text " * 7] * before + ["## A heading that is long", "", *block]
        assert holders(lines, before + 3, before + 2 + len(block))


def test_code_that_fits_into_no_chunk_fills_the_one_before() -> None:
    lines = ["text", "```", *["c" * 39] * 60, "```"]
    assert chunk_markdown(lines)[0].end_line > 30


def test_two_codes_without_a_line_between_are_two() -> None:
    block = ["```", *["c" * 39] * 30, "```"]
    lines = ["text", *block, *block]
    assert [(chunk.start_line, chunk.end_line) for chunk in chunk_markdown(lines, overlap=0)] == [
        (1, 33),
        (34, 65),
    ]


def test_text_without_code_or_table_is_cut_where_it_was() -> None:
    lines = [f"a line | of text {number}" for number in range(200)]
    plain = [line.replace("|", "/") for line in lines]
    assert [(chunk.start_line, chunk.end_line) for chunk in chunk_markdown(lines)] == [
        (chunk.start_line, chunk.end_line) for chunk in chunk_markdown(plain)
    ]


@pytest.mark.parametrize(
    "end",
    ["      ```", "  ```", "- next"],
    ids=["closed", "closed further out", "the item ends"],
)
def test_a_fence_in_a_list_item_ends_with_it(end: str) -> None:
    found = headings("# Yes", "- item", "", "      ```", "  # no", end, "# After", "end")
    assert found["end"] == "After"
    assert "no" not in found.values()


LINE = st.sampled_from(
    ["", "text", "# H", "## H", "```", "~~~", "    ```", "| a | b |", "|--|--|", "- item", "a" * 90]
)


@given(st.lists(LINE, max_size=60), st.sampled_from([0, 10, 40]), st.sampled_from([8, 60, 100]))
def test_every_line_is_in_a_chunk_whatever_the_blocks(
    lines: list[str], overlap: int, tokens: int
) -> None:
    chunks = chunk_markdown(lines, tokens=tokens, overlap=overlap)
    shown = {line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= shown
    assert all(weigh(chunk.text) <= max(8, tokens) * 4 for chunk in chunks)
