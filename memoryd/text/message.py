"""The part of a message to an agent that says what it is about. Pure."""

import re

MAX_CHARS = 600
"""Characters that are kept of a long message, half from its beginning and half from its end."""
_CODE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_QUOTE = re.compile(r"^[ \t]*>[^\n]*$", re.M)


def essence(message: str) -> str:
    """Return what a message says: no fenced code, no quotes, and of a long one both ends."""
    text = _CODE.sub("\n", message)
    own = _QUOTE.sub("", text)
    lines = [line for line in (" ".join(line.split()) for line in own.split("\n")) if line]
    if sum(map(len, lines)) <= MAX_CHARS:
        return "\n".join(lines)
    return f"{_head(lines)}\n{_tail(lines)}"


def _head(lines: list[str]) -> str:
    text = "\n".join(lines)[: MAX_CHARS // 2]
    return text[: text.rfind(" ")] if " " in text else text


def _tail(lines: list[str]) -> str:
    text = "\n".join(lines)[-MAX_CHARS // 2 :]
    return text[text.find(" ") + 1 :] if " " in text else text
