"""Lines of a log, in which no name or message can forge a line or control a terminal."""

_ESCAPED = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
"""Control characters, separators of lines and paragraphs, and bidirectional controls."""
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _ESCAPED} | {
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
}


def escaped(text: str) -> str:
    r"""Return a text on one line, with unsafe characters as `\n`, `\xNN` or `\uNNNN`."""
    return text.translate(_ESCAPES)


def decoded(line: bytes) -> str:
    """Return a line of a log file, which an older version may have written unescaped."""
    return escaped(line.decode("utf-8", "replace").removesuffix("\r"))
