"""Turns the bytes of a file into lines, block by block.

Nothing here takes a whole file in one call: such a call holds up every thread for as long as it
takes. `memoryd.messages.split_lines` is the definition of lines.
"""

import codecs
from collections.abc import Callable

_UTF8_BOM = codecs.BOM_UTF8
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))
"""What texts don't hold, NUL among them; in what is packed they are every tenth byte."""
_REPLACEMENT = "\ufffd"

_Decode = Callable[[bytes, str, bool], tuple[str, int]]


class Lines:
    """Splits a text that comes in pieces into lines, as `split_lines` does."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[str] = []
        self._carriage_return = ""

    def __len__(self) -> int:
        return len(self._lines)

    def feed(self, text: str) -> None:
        """Take the next piece."""
        text = self._carriage_return + text
        self._carriage_return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")  # it may be half of a line end
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._open.append(first)
        if others:
            self._lines.append("".join(self._open))
            self._open = [others.pop()]
            self._lines += others

    def finish(self) -> list[str]:
        """Return all lines."""
        if self._carriage_return:
            self.feed("\n")
        if last := "".join(self._open):
            self._lines.append(last)
        return self._lines


class Decoder:
    """Reads UTF-8, and UTF-16 that says so; replaces what can't be read by U+FFFD.

    A byte order mark is dropped. NUL is replaced too, which SQLite takes for the end of a text.
    """

    def __init__(self) -> None:
        self.lines = Lines()
        self._begun = False
        self._decode: _Decode = codecs.utf_8_decode
        self._encoding = "UTF-8"
        self._rest = b""
        self._bytes = 0
        self._controls = 0
        self._nuls = 0
        self._bad = 0

    def feed(self, block: bytes, *, last: bool = False) -> None:
        """Take the next bytes; `last` says that these are all."""
        data = self._rest + block
        if not self._begun:
            if len(data) < len(_UTF8_BOM) and not last:
                self._rest = data
                return
            data = self._begin(data)
        text, used = self._decode(data, "replace", last)
        self._rest = data[used:]
        self._count(text, data[:used])
        self.lines.feed(text.replace("\0", _REPLACEMENT))

    def is_text(self) -> bool:
        """Say whether what came so far looks like text in some encoding, not like an image."""
        if self._encoding != "UTF-8":
            # Of any two bytes, one in 32 is half of a pair that is not there.
            return self._bad * 100 <= self._bytes and self._controls * 3 <= self._bytes
        # Texts in old encodings may have more bad bytes than good ones, but no controls.
        return self._controls * 50 <= self._bytes or (self._controls + self._bad) * 3 <= self._bytes

    def remarks(self) -> tuple[str, ...]:
        """Return what people should know about the bytes."""
        found: list[str] = []
        if self._encoding != "UTF-8":
            found.append(f"{self._encoding}, not UTF-8; it is read all the same")
            if self._bad:
                found.append(f"{_counted(self._bad, 'character')} can't be read")
        elif self._bad:
            found.append(
                f"not UTF-8: {_counted(self._bad, 'byte')} can't be read; save it as UTF-8"
            )
        if self._nuls:
            found.append(f"{_counted(self._nuls, 'NUL byte')}, read as U+FFFD")
        return tuple(found)

    def _begin(self, data: bytes) -> bytes:
        self._begun = True
        if data.startswith(_UTF8_BOM):
            return data[len(_UTF8_BOM) :]
        for mark, decode in (
            (codecs.BOM_UTF16_LE, codecs.utf_16_le_decode),
            (codecs.BOM_UTF16_BE, codecs.utf_16_be_decode),
        ):
            if data.startswith(mark):
                self._decode, self._encoding = decode, "UTF-16"
                return data[len(mark) :]
        return data

    def _count(self, text: str, data: bytes) -> None:
        replaced = text.count(_REPLACEMENT)
        if self._encoding != "UTF-8":
            self._bad += replaced
            data = text.encode()
        elif replaced:
            # Good bytes come out as they went in, and a replacement as three.
            good = data.count(_REPLACEMENT.encode())
            self._bad += len(data) - len(text.encode()) + 3 * (replaced - good)
        self._bytes += len(data)
        self._nuls += data.count(0)
        self._controls += len(data) - len(data.translate(None, _CONTROLS))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
