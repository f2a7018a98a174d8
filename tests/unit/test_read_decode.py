"""Decoding of bytes into lines, in blocks of any size."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.messages import split_lines
from memoryd.source.notes.decode import Decoder, Lines
from memoryd.text import legacy_encodings


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
        (b"caf\xe9", "café", ("not UTF-8: 1 line in Windows-1252; read anyway",)),
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
def test_there_is_a_remark_exactly_when_bytes_are_not_utf_8(data: bytes) -> None:
    bad = len(data) - len(data.decode("utf-8", "ignore").encode())
    assert bool(fed([data]).remarks()) == bool(bad or b"\0" in data)


OTHERS = {
    "Windows-1252": ("cp1252", "Das Café schließt, der Schlüssel liegt unter der Fußmatte"),
    "Windows-1250": ("cp1250", "Spotkanie odbędzie się w środę, klucz leży pod wycieraczką"),
    "Windows-1251": ("cp1251", "Встреча перенесена на среду, ключ лежит под ковриком"),
    "KOI8-R": ("koi8_r", "Встреча перенесена на четверг, ключ у соседей"),
    "Windows-1253": ("cp1253", "Η συνάντηση είναι την Τετάρτη, το κλειδί είναι εδώ"),
    "Windows-1254": ("cp1254", "Toplantı çarşamba gününe alındı, anahtar paspasın altında"),
    "Windows-1255": ("cp1255", "הפגישה נדחתה ליום רביעי, המפתח מתחת לשטיח"),
    "Windows-1256": ("cp1256", "الاجتماع يوم الأربعاء والمفتاح تحت السجادة"),
    "Windows-1257": ("cp1257", "Susitikimas trečiadienį, raktas po kilimėliu"),
    "Windows-874": ("cp874", "การประชุมเลื่อนไปวันพุธ กุญแจอยู่ใต้พรม"),
    "GB18030": ("gb18030", "会议改到星期三下午，钥匙在门口的地毯下面"),
    "Big5": ("big5", "會議改到星期三下午，鑰匙在門口的地毯下面"),
    "Shift-JIS": ("shift_jis", "会議は水曜日の午後に変更されました。鍵はマットの下です"),
    "EUC-KR": ("cp949", "회의가 수요일 오후로 변경되었습니다"),
    "UTF-16": ("utf-16-le", "the key is under the mat, 钥匙在地毯下面"),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_in_another_encoding_are_read_between_those_in_utf_8(name: str, end: str) -> None:
    encoding, line = OTHERS[name]
    good = f"# Größe und 大小{end}{end}- plain ASCII{end}"
    other = f"{line}{end}- {line}{end}"
    text = good + other + good
    data = good.encode() + other.encode(encoding) + good.encode()
    assert decoded(data) == (
        "\n".join(split_lines(text)),
        (f"not UTF-8: 2 lines in {name}; read anyway",),
    )


@pytest.mark.parametrize("name", OTHERS)
def test_a_whole_file_in_another_encoding_is_read(name: str) -> None:
    encoding, line = OTHERS[name]
    data = f"{line}\n\n{line}\n{line}".encode(encoding)
    assert decoded(data)[0] == f"{line}\n\n{line}\n{line}"
    assert fed([data]).is_text()


def test_several_encodings_in_one_file_are_told_apart() -> None:
    parts = [*OTHERS.values(), *OTHERS.values(), ("utf-8", "und so weiter: 等等")]
    data = b"".join(f"{line}\r\n".encode(encoding) for encoding, line in parts)
    assert decoded(data)[0].splitlines() == [line for _, line in parts]


def test_a_larger_part_in_utf_16_is_read_and_utf_8_behind_it_too() -> None:
    wide = "会议在星期三\r\n上午十点\r\nthe key is under the mat\r\n" * 50
    for mark in (b"", b"\xff\xfe"):
        first, last = "# Größe\n".encode(), "in UTF-8 wieder größer\n".encode()
        decoder = fed([first, mark, wide.encode("utf-16-le"), last])
        assert decoder.is_text()
        lines = ["# Größe", *split_lines(wide), "in UTF-8 wieder größer"]
        assert decoder.lines.finish() == lines


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"don\x92t \x93quote\x94 \x96 5 \x80", "don’t “quote” – 5 €"),
        (b"Z\xfcrich", "Zürich"),
        ("猫の名前はトウモロコシ".encode("shift_jis"), "猫の名前はトウモロコシ"),
        ("서울역".encode("cp949"), "서울역"),
        ("Ключ".encode("cp1251"), "Ключ"),
        ("Ключ".encode("koi8_r"), "Ключ"),
        ("СРОЧНО: ПОЗВОНИТЬ МАМЕ".encode("cp1251"), "СРОЧНО: ПОЗВОНИТЬ МАМЕ"),
        ("Купити хліб та молоко".encode("cp1251"), "Купити хліб та молоко"),
        ("北京".encode("gbk"), "北京"),
        ("Łódź".encode("cp1250"), "Łódź"),
        ("größer und besser 大".encode() + b" \xff", "größer und besser 大 \ufffd"),
    ],
)
def test_short_lines_in_another_encoding_are_read(data: bytes, text: str) -> None:
    assert decoded(data)[0] == text


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
        b"\xff\xfe" + RANDOM.randbytes(10_000),
    ],
    ids=["png", "random", "zeros", "padded", "elf", "random utf-16"],
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
        "no byte order mark".encode("utf-16-le"),
        b"a form feed\f\nand a backspace\b",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_texts_in_old_encodings_are_texts(data: bytes) -> None:
    assert fed([data]).is_text()


def test_a_long_file_in_one_code_page_may_change_to_another() -> None:
    """Lines after the first ones are scored only if they have bytes that are unusual there."""
    first, second = (
        ("Das Café schließt um sechs", "cp1252"),
        ("备份服务器的地址已经更新", "gb18030"),
    )
    data = b"".join(
        f"{text}\n".encode(encoding) * 2_000 for text, encoding in (first, second, first)
    )
    texts = [first[0]] * 2_000 + [second[0]] * 2_000 + [first[0]] * 2_000
    lines = fed([data]).lines.finish()
    assert sum(line != text for line, text in zip(lines, texts, strict=True)) <= 60


def test_work_on_lines_in_no_encoding_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    scored = 0
    value = legacy_encodings._value

    def counted(line: bytes, sample: bytes, encoding: str) -> float:
        nonlocal scored
        scored += len(sample)
        return value(line, sample, encoding)

    monkeypatch.setattr(legacy_encodings, "_value", counted)
    lines = [RANDOM.randbytes(60).translate(bytes(range(0x80, 0x100)) * 2) for _ in range(5_000)]
    fed([b"\n".join(lines)])
    size = 5_000 * 61
    most = legacy_encodings.FREE_SCORES + legacy_encodings.SCORES_PER_BYTE * size
    assert 0 < scored < 4 * most
