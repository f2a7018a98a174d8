"""Decoding of bytes into lines, in blocks of any size."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.messages import split_lines
from memoryd.source.notes.read import Decoder, Lines


def fed(blocks: list[bytes]) -> Decoder:
    decoder = Decoder()
    for block in blocks:
        decoder.feed(block)
    decoder.feed(b"", last=True)
    return decoder


def decoded(data: bytes) -> tuple[str, tuple[str, ...]]:
    decoder = fed([data])
    return "\n".join(decoder.lines.finish()), decoder.remarks()


def blocks_of(data: bytes, cuts: list[int]) -> list[bytes]:
    return [data[a:b] for a, b in pairwise([0, *sorted(cut % (len(data) + 1) for cut in cuts)])] + [
        data[max((cut % (len(data) + 1) for cut in cuts), default=0) :]
    ]


CUTS = st.lists(st.integers(0, 10_000), max_size=6)
TEXTS = st.text(st.one_of(st.sampled_from("\r\n"), st.characters(codec="utf-8")), max_size=60)


# --- lines


@given(st.lists(TEXTS, max_size=8))
def test_lines_in_pieces_are_the_lines_of_the_whole(pieces: list[str]) -> None:
    lines = Lines()
    for piece in pieces:
        lines.feed(piece)
    assert lines.finish() == split_lines("".join(pieces))


@pytest.mark.parametrize("size", range(1, 6))
def test_a_line_end_across_two_blocks_is_one(size: int) -> None:
    data = b"one\r\ntwo\rthree\n\r\n\r\rfour\r"
    decoder = fed([data[n : n + size] for n in range(0, len(data), size)])
    assert decoder.lines.finish() == split_lines(data.decode())


# --- encodings


@pytest.mark.parametrize(
    ("data", "text", "remarks"),
    [
        (b"", "", ()),
        (b"\xef\xbb\xbfa", "a", ()),
        (b"\xef\xbb", "\ufffd", ("not UTF-8: 2 bytes can't be read; save it as UTF-8",)),
        (
            b"aaaa\xff\xfeb",
            "aaaa\ufffd\ufffdb",
            ("not UTF-8: 2 bytes can't be read; save it as UTF-8",),
        ),
        (b"caf\xe9", "caf\ufffd", ("not UTF-8: 1 byte can't be read; save it as UTF-8",)),
        (b"\xe2\x82 100", "\ufffd 100", ("not UTF-8: 2 bytes can't be read; save it as UTF-8",)),
        (
            b"\xed\xa0\x80",
            "\ufffd\ufffd\ufffd",
            ("not UTF-8: 3 bytes can't be read; save it as UTF-8",),
        ),
        ("\ufffd is good".encode(), "\ufffd is good", ()),
        (b"a\0b", "a\ufffdb", ("1 NUL byte, read as U+FFFD",)),
        (b"a\0\0bcdef", "a\ufffd\ufffdbcdef", ("2 NUL bytes, read as U+FFFD",)),
        (
            "\ufeffzwölf".encode("utf-16-le"),
            "zwölf",
            ("UTF-16, not UTF-8; it is read anyway",),
        ),
        ("\ufeff🦊\n".encode("utf-16-be"), "🦊", ("UTF-16, not UTF-8; it is read anyway",)),
        (
            "\ufeffa".encode("utf-16-le") + b"\x00\xd8b\x00c",
            "a\ufffdb\ufffd",
            ("UTF-16, not UTF-8; it is read anyway", "2 characters can't be read"),
        ),
    ],
)
def test_decoding(data: bytes, text: str, remarks: tuple[str, ...]) -> None:
    assert decoded(data) == (text, remarks)


@given(st.binary(max_size=200), CUTS)
def test_any_bytes_in_any_blocks_come_to_the_same(data: bytes, cuts: list[int]) -> None:
    whole, pieces = fed([data]), fed(blocks_of(data, cuts))
    lines = whole.lines.finish()
    assert pieces.lines.finish() == lines
    assert pieces.remarks() == whole.remarks()
    assert pieces.is_text() == whole.is_text()
    for line in lines:
        line.encode()
        assert not set("\0\r\n") & set(line)


@given(st.binary(max_size=200).filter(lambda data: data[:2] not in (b"\xff\xfe", b"\xfe\xff")))
def test_bytes_are_bad_exactly_when_they_are_not_utf_8(data: bytes) -> None:
    bad = len(data) - len(data.decode("utf-8", "ignore").encode())
    remarks = [remark for remark in fed([data]).remarks() if remark.startswith("not UTF-8")]
    noun = "byte" if bad == 1 else "bytes"
    expected = [f"not UTF-8: {bad} {noun} can't be read; save it as UTF-8"] if bad else []
    assert remarks == expected


@given(st.text(st.characters(exclude_characters="\0\ufeff", codec="utf-8")), CUTS)
def test_a_good_text_stays_what_it_is(text: str, cuts: list[int]) -> None:
    for encoded, remarks in (
        (text.encode(), 0),
        (b"\xef\xbb\xbf" + text.encode(), 0),
        (b"\xff\xfe" + text.encode("utf-16-le"), 1),
    ):
        decoder = fed(blocks_of(encoded, cuts))
        assert decoder.lines.finish() == split_lines(text)
        assert len(decoder.remarks()) == (remarks if "\ufffd" not in text else remarks * 2)


# --- binary data

RANDOM = random.Random(7)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\0\0\0\x01\0\x08\x06\0\0\0" + RANDOM.randbytes(3_000)


@pytest.mark.parametrize(
    "data",
    [
        PNG,
        RANDOM.randbytes(300_000),
        bytes(10_000),
        b"a line, and then what a crash left\n" + bytes(4096),
        b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\0>\0\x01\0\0\0" + bytes(64),
        "no byte order mark".encode("utf-16-le"),
        b"\xff\xfe" + RANDOM.randbytes(10_000),
    ],
    ids=["png", "random", "zeros", "padded", "elf", "utf-16 unmarked", "random utf-16"],
)
def test_an_image_or_a_program_is_no_text(data: bytes) -> None:
    assert not fed([data]).is_text()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        "Ελληνικά, μόνο ελληνικά".encode("iso-8859-7"),
        "Только русские буквы и пробелы".encode("cp1251"),
        "日本語の文章です".encode("shift_jis"),
        "日本語の文章です".encode("iso2022_jp"),
        b"a few\0 NULs\0 in a\0 long text" * 3,
        b"\x1b[1mbold\x1b[0m from a terminal\x07\n" * 5,
        "\ufeffδώδεκα\n".encode("utf-16-le"),
        b"a form feed\f\nand a backspace\b",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_texts_in_old_encodings_are_texts(data: bytes) -> None:
    assert fed([data]).is_text()
