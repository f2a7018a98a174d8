"""Secrets in columns of Markdown tables whose heading names them."""

import re
from collections.abc import Iterator

from memoryd.text.named_secrets import linear
from memoryd.text.secret_rule import PASSWORD, is_short_word, is_word
from memoryd.text.secret_words import ASCII_WORDS, OTHER_WORDS
from memoryd.text.vendor_tokens import Secret

_DELIMITER_ROW = r"\n[ \t]{0,3}\|?[ \t]*:?-{2,}[ \t]*:?[ \t]*\|[-:| \t]*\r?\n"
_KINDS = {
    PASSWORD: rf"pass(?:word|wd|phrase|code|wort)?s?|pwd|pw|{'|'.join(ASCII_WORDS)}|{OTHER_WORDS}",
    "secret": "secrets?",
    "token": "tokens?",
    "key": "(?:api|access|private|secret|auth)[ _-]?keys?",
}
_HEADINGS = {
    kind: re.compile(
        rf"(?i)\W{{0,4}}(?:[^|]{{0,24}}[\s_-])?(?:{words})(?:\s?\([^|]{{1,20}}\))?\W{{0,4}}"
    )
    for kind, words in _KINDS.items()
}
_CELL = re.compile(r"(?:[^|\\\n]|\\.)*")
_VALUE = re.compile(r"[ \t]*[`*\"']{0,3}([^\s`*\"']{4,200})[`*\"']{0,3}[ \t]*\r?")


def secrets_in_columns(text: str, plain: bytes) -> Iterator[Secret]:
    """Yield the secrets of all tables. `plain` has one byte per character of the text."""
    line = 0
    for delimiter in linear(_DELIMITER_ROW).finditer(plain):
        if delimiter.start() < line:
            continue  # a row of the table before
        columns = {
            column: kind
            for column, cell in enumerate(_cells(text, text.rfind("\n", 0, delimiter.start()) + 1))
            for kind, heading in _HEADINGS.items()
            if heading.fullmatch(text, *cell)
        }
        line = delimiter.end()
        while columns and "|" in text[line : (end := _end_of_line(text, line))]:
            for column, cell in enumerate(_cells(text, line)):
                if kind := columns.get(column):
                    yield from _in_cell(text, *cell, kind)
            line = end + 1


def _in_cell(text: str, start: int, end: int, kind: str) -> Iterator[Secret]:
    if (value := _VALUE.fullmatch(text, start, end)) is None:
        return
    is_harmless = is_word if kind == PASSWORD else is_short_word
    if not is_harmless("", value[1]):
        yield Secret(*value.span(1), kind)


def _cells(text: str, line: int) -> Iterator[tuple[int, int]]:
    """Yield where the cells of a row begin and end."""
    end = _end_of_line(text, line)
    at = line
    while at < end:
        cell = _CELL.match(text, at, end)
        stop = end if cell is None else cell.end()
        if stop > line:  # a row may begin with a bar
            yield at, stop
        at = stop + 1


def _end_of_line(text: str, line: int) -> int:
    end = text.find("\n", line)
    return len(text) if end < 0 else end
