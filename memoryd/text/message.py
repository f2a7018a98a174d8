"""The part of a message to an agent that says what it is about, and phrases in it. Pure."""

import re

from memoryd.text.fold import fold, has_unspaced
from memoryd.text.language import most_function_words
from memoryd.text.stem import has_stems, stem, stem_in

MAX_CHARS = 600
"""Characters that are kept of a long message, half from its beginning and half from its end."""
MAX_READ_CHARS = 100_000
_CODE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_QUOTE = re.compile(r"^[ \t]*>[^\n]*$", re.M)
_WORD = re.compile(r"\w+")


def essence(message: str) -> str:
    """Return what a message says: no fenced code, no quotes, and of a long one both ends."""
    if len(message) > MAX_READ_CHARS:
        message = f"{message[: MAX_READ_CHARS // 2]}\n{message[-MAX_READ_CHARS // 2 :]}"
    text = message.encode("utf-8", "replace").decode()
    text = _QUOTE.sub("", _CODE.sub("\n", text))
    kept = "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line)
    if len(kept) <= MAX_CHARS:
        return kept
    head, tail = kept[: MAX_CHARS // 2], kept[-MAX_CHARS // 2 :]
    return f"{head.rpartition(' ')[0] or head}\n{tail.partition(' ')[2] or tail}"


def has_phrase(message: str, phrase: str) -> bool:
    """Return whether a message has the words of a phrase in a row, in any form of each."""
    wanted, said = fold(phrase), fold(message)
    if has_unspaced(wanted):
        return wanted in said
    language = most_function_words(message)
    stems = [_stem(language, word) for word in _WORD.findall(said)]
    looked_for = [_stem(language, word) for word in _WORD.findall(wanted)]
    size = len(looked_for)
    return size > 0 and any(
        stems[at : at + size] == looked_for for at in range(len(stems) - size + 1)
    )


def _stem(language: str, word: str) -> str:
    return stem_in(language, word) if has_stems(language) else stem(word)
