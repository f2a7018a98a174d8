"""Lines of a log, in which no name or message can forge a line or control a terminal."""

from memoryd_client.shared.style import CONTROLS, MARKS, TURNS

_UNSAFE = (*CONTROLS, *MARKS, *TURNS, 0x2028, 0x2029)
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _UNSAFE} | {
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
