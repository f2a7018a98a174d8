"""Decoding of a note's bytes into lines, block by block."""

import codecs

from memoryd.messages import split_lines
from memoryd.source.notes.decode import Decoder

SEEDS = [
    b"\x03a\r\nb\rc\n\nd",
    b"\x01\xef\xbb\xbfbom\n",
    b"\x02" + codecs.BOM_UTF16_LE + "zwei\r\nZeilen 🦭".encode("utf-16-le"),
    b"\x05" + codecs.BOM_UTF16_BE + "zwei\nZeilen".encode("utf-16-be") + b"\xd8",
    b"\x04latin \xe4\xf6\xfc\0nul \xf0\x9f\xa6",
    b"\x07\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
]
DICTIONARY = [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\r\n", b"\xef\xbf\xbd"]
MAX_BYTES = 512


def check(data: bytes) -> None:
    """Decode in blocks, sized by the first byte, and compare with decoding all bytes at once."""
    size, content = 1 + (data[0] if data else 0) % 16, data[1:]
    lines, remarks = _decoded([content[at : at + size] for at in range(0, len(content), size)])
    assert (lines, remarks) == _decoded([content])
    if not remarks:
        assert lines == split_lines(content.decode("utf-8-sig"))
    assert not any(char in line for line in lines for char in "\0\n\r")
    "\n".join(lines).encode()


def _decoded(blocks: list[bytes]) -> tuple[list[str], tuple[str, ...]]:
    decoder = Decoder()
    for block in blocks:
        decoder.feed(block)
        assert decoder.is_text() in (True, False)
    decoder.feed(b"", last=True)
    return decoder.lines.finish(), decoder.remarks()
