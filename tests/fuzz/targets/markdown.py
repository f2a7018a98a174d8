"""Chunking of Markdown."""

from itertools import pairwise

from memoryd.chunk.markdown import chunk_markdown
from memoryd.messages import split_lines
from memoryd.text.token_estimate import weigh, well_formed

SEEDS = [
    b"\x01\x01\x40# Title\n\nText.\n\n## Below\n- a\n  - b\n\n```sh\n# no heading\n```\n",
    "\x10\x03\x20# 記憶\n漢字かな交じり文。二つ目の文。\n\n한국어 문장.\n".encode(),
    b"\x00\x00\x00" + b"word " * 60,
    "\x02\x01\x05👩‍👩‍👧🇩🇪🇫🇷é\u0301\u0301 x\n".encode(),
    b"\x01\x00\xff# a\n## b\n### c\n#### d\n~~~~\n~~~\n~~~~\n# e #\n",
]
DICTIONARY = [b"# ", b"## ", b"```", b"~~~", b"\n\n", b"- ", b"> ", b"\r\n", b"\xe2\x80\x8d"]
DICTIONARY += ["\u0301".encode(), "。".encode(), "漢".encode(), "🇩".encode(), b"\xed\xa0\x80"]
MAX_BYTES = 2_048


def check(data: bytes) -> None:
    """Chunk the text with sizes from the first three bytes: no text is lost, moved or too large."""
    sizes, text = data[:3].ljust(3, b"\0"), data[3:].decode("utf-8", "surrogateescape")
    tokens, overlap, max_bytes = 1 + sizes[0], sizes[1], 4 + 8 * sizes[2]
    lines = split_lines(text)
    chunks = chunk_markdown(lines, tokens=tokens, overlap=overlap, max_bytes=max_bytes)
    covered: set[int] = set()
    before = 0
    for chunk in chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        assert before <= chunk.end_line
        before = chunk.end_line
        covered.update(range(chunk.start_line, chunk.end_line + 1))
        parts = chunk.text.split("\n")
        assert len(parts) == chunk.end_line - chunk.start_line + 1
        source = [well_formed(line) for line in lines[chunk.start_line - 1 : chunk.end_line]]
        assert all(part in line for part, line in zip(parts, source, strict=True))
        assert parts[1:-1] == source[1:-1]
        assert len(chunk.text.encode()) <= max_bytes
        assert len(chunk.text) == 1 or weigh(chunk.text) <= 4 * max(8, tokens) or _one(chunk.text)
    with_text = {n for n, line in enumerate(lines, start=1) if line.strip()}
    assert with_text <= covered


def _one(text: str) -> bool:
    """Return whether a text may be one grapheme, which is never cut, whatever its weight.

    Letters and digits start a new grapheme unless a joiner precedes them.
    """
    return "\n" not in text and not any(
        char.isascii() and char.isprintable() and before != "\u200d"
        for before, char in pairwise(text)
    )
