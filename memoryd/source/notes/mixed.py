"""Text of bytes in several encodings, decoded line by line: UTF-8, UTF-16, else what fits. Pure."""

import codecs
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field

from memoryd.text.legacy_encodings import FREQUENT_HAN, NAMES, EncodingChooser

_REPLACEMENT = "\ufffd"
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_DECODERS = {False: "utf-16-be", True: "utf-16-le"}
_WIDE_ENDS = {False: b"\0\r\0\n", True: b"\r\0\n\0"}
_MARKS = {codecs.BOM_UTF16_LE: True, codecs.BOM_UTF16_BE: False}
LEAST_CHARS = 4
"""Least characters of a line in UTF-16, so that a NUL or two make none."""
LEAST_SHARE = 0.5
"""Least share of ordinary characters in a line of UTF-16."""
LEAST_SHARE_IN_RUN = 0.2
"""Least share below other lines in UTF-16, whose characters may be rare."""
LEAST_SHARE_BEFORE_END = 0.3
"""Least share before the line end of Windows, which is hardly anything else."""
SURE_BYTES = 16
"""Least bytes of a line whose share says much."""
SHORT_BYTES = 8
SAMPLE_BYTES = 512
"""Bytes of a line that may be UTF-16 that are looked at."""
MAX_LINE_BYTES = 4_096
"""Maximum distance of the end of a line in UTF-16."""


@dataclass(slots=True)
class MixedText:
    """Decoded text, its lines, and the lines of each encoding but UTF-8.

    `bad_bytes` are those that are in no encoding, `bad_characters` those of UTF-16. Those
    of private use are hardly in texts, but one in ten of random bytes read as UTF-16.
    """

    text: str = ""
    lines: int = 0
    encodings: Counter[str] = field(default_factory=Counter)
    bad_bytes: int = 0
    bad_characters: int = 0
    private_characters: int = 0
    nuls: int = 0
    controls: int = 0


def decode_mixed(data: bytes, controls: bytes, *, is_whole: bool) -> MixedText:
    """Decode bytes line by line. `controls` are bytes that no text in another encoding has.

    `is_whole`: a byte order mark at their start counts, whatever follows.
    """
    found, parts = MixedText(), list[str]()
    little: bool | None = None
    chooser = EncodingChooser()
    wide_at = 0  # next line end that may be one of UTF-16
    at = marks = 0
    while at < len(data):
        mark = _MARKS.get(data[at : at + 2])
        if mark is not None and ((is_whole and at == 0) or _is_wide(data, at + 2, little=mark)):
            little, at, marks = mark, at + 2, marks + 1
            if at == len(data):
                break
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end]
        found.lines += 1
        loud = len(line) - len(line.translate(None, controls))
        text = None if loud else _utf8(line)
        if loud and wide_at < end:
            wide_at = data.find(b"\n\0", end)
            wide_at = len(data) if wide_at < 0 else wide_at
        blank = little is not None and line in (b"\n", b"\r\n")
        # The last characters of a run may look like a few letters.
        rest = little is not None and end == len(data) and len(line) < SHORT_BYTES
        has_nul = (
            little is not None
            or data[end : end + 1] == b"\0"
            or line[-2:] == b"\0\n"
            or (end == len(data) and b"\0" in line)
            # A character may have the byte of a line end, such as 上.
            or (loud > 0 and end <= wide_at < at + MAX_LINE_BYTES)
        )
        rest = rest and len(line) % 2 == 0 and not line.endswith(b"\n")
        if (text is None and has_nul) or blank or rest:
            is_sure = b"\0" in line or data[end : end + 1] == b"\0"
            wide = _wide_line(data, at, little, is_clean=blank, is_sure=is_sure)
            if wide is not None:
                little, end, decoded = wide
                bad = decoded.count(_REPLACEMENT)
                found.bad_characters += bad
                found.private_characters += len(_PRIVATE.findall(decoded))
                found.nuls += decoded.count("\0")
                found.controls += decoded.count("\0")
                found.encodings["UTF-16"] += 1
                parts.append(decoded.replace("\0", _REPLACEMENT))
                at = end
                continue
        little, at = None, end
        name = None
        if text is None and not loud:
            name = chooser.choose(line.rstrip(b"\r\n"))
        if name is not None:
            found.encodings[NAMES[name]] += 1
            text = line.decode(name, "replace")
        elif text is None:
            text = line.decode("utf-8", "replace")
            found.bad_bytes += len(line) - len(line.decode("utf-8", "ignore").encode())
            found.nuls += line.count(0)
            found.controls += loud
            text = text.replace("\0", _REPLACEMENT)
        parts.append(text)
    if found.lines and not found.encodings["UTF-16"]:
        found.bad_bytes += marks * len(codecs.BOM_UTF16)
    found.text = "".join(parts)
    return found


def _utf8(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def _wide_line(
    data: bytes, at: int, run: bool | None, *, is_clean: bool, is_sure: bool
) -> tuple[bool, int, str] | None:
    """Return the byte order, end and text of the line in UTF-16 at an offset, None if it is none.

    `run` is the byte order of the line before. In such a run, a line with broken characters is
    still UTF-16, unless it is `is_clean` UTF-8. A line with a NUL `is_sure` to be UTF-16.
    """
    best: tuple[float, bool, int] | None = None
    for little in (True, False) if run is None else (run,):
        end = _wide_end(data, at, little=little)
        raw = data[at:end]
        if run is None and (len(raw) < 2 * LEAST_CHARS or len(raw) % 2 or b"\0" not in raw):
            continue
        if run is None and b"\r\n" in raw:
            continue  # another line before it
        least = LEAST_SHARE_BEFORE_END if raw.endswith(_WIDE_ENDS[little]) else LEAST_SHARE
        first = raw[: raw.find(b"\n") // 2 * 2][:SAMPLE_BYTES]
        if run is None and len(first) >= 2 * LEAST_CHARS and _share(first, little=little) < least:
            continue  # another line before it
        share = _share(raw[:SAMPLE_BYTES], little=little)
        if (best is None or share > best[0]) and (share >= least or run is not None):
            best = share, little, end
    if best is None or (is_clean and best[0] < LEAST_SHARE):
        return None
    share, little, end = best
    if share < (LEAST_SHARE_IN_RUN if is_sure else LEAST_SHARE) and end - at >= SURE_BYTES:
        return None
    return little, end, data[at:end].decode(_DECODERS[little], "replace")


def _is_wide(data: bytes, at: int, *, little: bool) -> bool:
    raw = data[at : min(_wide_end(data, at, little=little), at + SAMPLE_BYTES)]
    return _share(raw, little=little) >= LEAST_SHARE


def _wide_end(data: bytes, at: int, *, little: bool) -> int:
    """Return the end of the line in UTF-16 at an offset."""
    sign = b"\n\0" if little else b"\0\n"
    end = at
    while (end := data.find(sign, end, at + MAX_LINE_BYTES)) >= 0:
        if (end - at) % 2 == 0:
            return end + 2
        end += 1
    return min(len(data), at + MAX_LINE_BYTES)


def _share(raw: bytes, *, little: bool) -> float:
    """Return the share of characters that are ordinary: ASCII, alphabets, frequent characters."""
    text = raw.decode(_DECODERS[little], "replace")
    return sum(map(_is_ordinary, text)) / max(1, len(text))


def _is_ordinary(char: str) -> bool:
    if char < "\x7f":
        return char >= " " or char in "\t\r\n"
    if char in FREQUENT_HAN:
        return True
    point = ord(char)
    if 0x100 <= point < 0x370:
        return False  # a few letters of a text, but most of packed data
    if point < 0x2100 or 0x3000 <= point <= 0x30FF or 0xAC00 <= point <= 0xD7A3 or point >= 0xFF00:
        return unicodedata.category(char)[0] in "LNPSZ" and point != 0xFFFD
    return False
