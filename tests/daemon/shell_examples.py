"""Examples of the documentation: commands, and the output that a page shows.

A fenced block that begins with `$ ` is a session: commands, each followed by its output up to the
next `$ `. A block marked `sh` has only commands, one per line. In the shown output, `…` alone on a
line stands for any lines, and within a line for any text. A last line `^C` means that the command
runs until it is interrupted. Numbers, hex digits, times, sizes and runs of spaces may differ.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

ELLIPSIS = "…"
INTERRUPT = "^C"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_ALIKE = (
    (re.compile(r"\b(?=[a-f]*[0-9])[0-9a-f]{8,}\b"), "#"),
    (re.compile(r"[0-9]+(?:[.,:][0-9]+)*(?:e[+-]?[0-9]+)?"), "#"),
    (re.compile(r"# (?:ms|s|min|h|d)\b(?: # (?:s|min|h)\b)?"), "# time"),
    (re.compile(r"# (?:B|KiB|MiB|GiB)\b"), "# size"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.M), ""),
)
_ERROR = re.compile(r"^(?:memctl|memoryd): ", re.M)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page. `language` is the tag of its fence; `line` counts from 1."""

    page: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Step:
    """One command and the output that the page shows."""

    where: str
    command: str
    shown: str

    @property
    def goes_on(self) -> bool:
        """Return whether the command must be interrupted."""
        return self.shown.endswith(INTERRUPT)

    @property
    def fails(self) -> bool:
        """Return whether an error is shown."""
        return _ERROR.search(self.shown) is not None


def blocks(page: str, text: str) -> list[Block]:
    """Return the fenced blocks of a page. Raises `AssertionError` for a fence of another kind."""
    found = [
        Block(page, text.count("\n", 0, match.start()) + 2, match[1], match[2])
        for match in _BLOCK.finditer(text)
    ]
    outside = _BLOCK.sub("", text)
    assert "```" not in outside, f"{page}: a fence that is indented, not closed, or marked oddly"
    assert not re.search(r"^ *~~~", outside, re.M), f"{page}: a fence of tildes"
    return found


def is_shell(block: Block) -> bool:
    """Return whether `steps` can read a block."""
    return block.language == "sh" or (not block.language and block.text.startswith("$ "))


def steps(block: Block) -> Iterator[Step]:
    """Yield the commands of a shell block."""
    if block.language == "sh":
        for at, line in enumerate(block.text.splitlines()):
            yield Step(f"{block.page}:{block.line + at}", line, ELLIPSIS)
        return
    at = block.line
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield Step(f"{block.page}:{at}", command, shown.rstrip())
        at += part.count("\n")


def is_shown(shown: str, printed: str) -> bool:
    """Return whether the real output matches the output that a page shows."""
    shown = _alike(shown.removesuffix(INTERRUPT).rstrip("\n"))
    pattern = "".join(
        r"(?:.*\n)*?"
        if line == ELLIPSIS
        else ".*".join(map(re.escape, line.split(ELLIPSIS))) + r"\n"
        for line in shown.split("\n")
    )
    return re.fullmatch(pattern, _alike(printed.rstrip("\n") + "\n")) is not None


def _alike(text: str) -> str:
    for pattern, replacement in _ALIKE:
        text = pattern.sub(replacement, text)
    return text
