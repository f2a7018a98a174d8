"""Decoder of a note's bytes into lines. Parts in other encodings than UTF-8 are read as well."""

import codecs
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memoryd.source.notes.mixed import MixedText

_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))
"""Control bytes that text files don't contain; in packed files, every tenth byte is one."""
_LOUD = _CONTROLS.replace(b"\0", b"")
LOOKED_AT_BYTES = 64 * 1024
"""Bytes from which a file that is not UTF-8 may be given up before its end."""


class Lines:
    """Incremental `split_lines`."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[str] = []
        self._carriage_return = ""

    def __len__(self) -> int:
        return len(self._lines)

    def feed(self, text: str) -> None:
        """Add the next piece."""
        text = self._carriage_return + text
        self._carriage_return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")  # perhaps half of a line end
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
    """Decoder of UTF-8 and of parts in other encodings.

    UTF-8 is decoded block by block. From the first line on that is something else, the rest of the
    file is kept until its end, because the lines around it help to tell its encoding. Bytes in no
    encoding become U+FFFD, and NUL too, because SQLite takes it for the end of a text.
    """

    def __init__(self) -> None:
        self.lines = Lines()
        self._begun = False
        self._open: list[bytes] = []
        """Bytes since the last line end."""
        self._kept: list[bytes] = []
        self._is_mixed = False
        self._bytes = 0
        self._loud = 0
        self._nuls = 0
        self._controls = 0
        self._mixed: MixedText | None = None

    def feed(self, block: bytes, *, last: bool = False) -> None:
        """Decode the next bytes; `last` marks the end."""
        if self._is_mixed:
            self._keep(block)
        else:
            end = len(block) if last else block.rfind(b"\n") + 1
            self._open.append(block[:end] if end else block)
            if end or last:
                data, self._open = b"".join(self._open), [block[end:]]
                self._feed_lines(data)
        if last and self._is_mixed:
            from memoryd.source.notes.mixed import decode_mixed  # few workspaces need it

            self._mixed = decode_mixed(
                b"".join(self._kept), _CONTROLS, is_whole=not len(self.lines)
            )
            self._kept = []
            self.lines.feed(self._mixed.text)

    def _feed_lines(self, data: bytes) -> None:
        """Decode whole lines, and keep them from the first one on that is not UTF-8.

        So the result does not depend on how the file is cut into blocks.
        """
        if not self._begun and data:
            self._begun = True
            data = data.removeprefix(codecs.BOM_UTF8)
        bad = data.find(b"\0")
        try:
            text = data[: None if bad < 0 else bad].decode()
        except UnicodeDecodeError as error:
            bad = error.start
        if bad >= 0:
            self._is_mixed = True
            first = data.rfind(b"\n", 0, bad) + 1
            self._keep(data[first:] + b"".join(self._open))
            data, text = data[:first], data[:first].decode()
        self._bytes += len(data)
        self._controls += len(data) - len(data.translate(None, _CONTROLS))
        self.lines.feed(text)

    def _keep(self, data: bytes) -> None:
        self._kept.append(data)
        self._bytes += len(data)
        self._nuls += data.count(0)
        self._loud += len(data) - len(data.translate(None, _LOUD))

    def is_text(self) -> bool:
        """Return whether the bytes so far look like text in some encoding."""
        if self._mixed is None:
            if not self._is_mixed:
                return self._controls * 3 <= self._bytes
            # Chinese in UTF-16 has one control in 20 bytes, English one NUL in 2.
            few = self._loud * 14 <= self._bytes and self._nuls * 9 <= self._bytes * 5
            return few or self._bytes < LOOKED_AT_BYTES
        controls, bad = self._controls + self._mixed.controls, self._mixed.bad_bytes
        wide = self._mixed.bad_characters + self._mixed.private_characters
        return (
            controls * 50 <= self._bytes or (controls + bad) * 3 <= self._bytes
        ) and wide * 100 <= self._bytes

    def remarks(self) -> tuple[str, ...]:
        """Return remarks about the encoding for the user."""
        if self._mixed is None:
            return ()
        mixed, found = self._mixed, list[str]()
        if mixed.encodings == Counter({"UTF-16": mixed.lines}):
            found.append("UTF-16, not UTF-8; it is read anyway")
        elif mixed.encodings:
            parts = (
                f"{_counted(lines, 'line')} in {name}"
                for name, lines in sorted(mixed.encodings.items())
            )
            found.append(f"not UTF-8: {', '.join(parts)}; read anyway")
        if mixed.bad_characters:
            found.append(f"{_counted(mixed.bad_characters, 'character')} can't be read")
        if mixed.bad_bytes:
            bad = _counted(mixed.bad_bytes, "byte")
            found.append(f"not UTF-8: {bad} can't be read; save it as UTF-8")
        if mixed.nuls:
            found.append(f"{_counted(mixed.nuls, 'NUL byte')}, read as U+FFFD")
        return tuple(found)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
