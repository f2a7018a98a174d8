"""Text of Markdown as a reader sees it, for phrases that marks interrupt. Pure."""

import re

_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^()\s]{0,500}(?:[ \t]+[^()\n]{0,200})?\)")
_TARGET_AND_NAME = re.compile(r"\[\[([^\[\]|\n]{0,300})\|([^\[\]|\n]{1,300})\]\]")
_REFERENCE = re.compile(r"\[([^\[\]\n]{1,300})\]\[[^\[\]\n]{0,100}\]")
_WIKILINK = re.compile(r"!?\[\[(?:[^\[\]|\n]{0,300}\|)?([^\[\]|\n]{1,300})\]\]")
_MARKS = re.compile(
    r"[*`]+|~~|==|\|\||(?<![^\W_])_{1,3}(?=\S)|(?<=\S)_{1,3}(?![^\W_])|</?[a-z]{1,6}>"
)
_SOFT_BREAK = re.compile(r"(?<=\S)[ \t]*\n[ \t]*(?=[^\s#>*+|\d-])")
_HAS_MARKS = re.compile(r"[*`~=_\[<\n]")
_BETWEEN_WORDS = str.maketrans("", "", "*`~=|_ \t\n")


def has_marks(text: str) -> bool:
    """Return whether a text may read otherwise than it is written."""
    return _HAS_MARKS.search(text) is not None


def may_read(text: str, phrase: str) -> bool:
    """Return whether `as_read` may show a phrase in a text that has its words; both in lower case.

    It takes a hundredth of the time, but does not look at links, tags and other alphabets.
    """
    if "[" in text or "<" in text or not (text.isascii() and phrase.isascii()):
        return True
    return phrase.translate(_BETWEEN_WORDS) in text.translate(_BETWEEN_WORDS)


def as_read(text: str, *, targets: bool = False) -> str:
    """Return a text without emphasis, code marks and targets of links, with lines joined.

    Lines of one paragraph are joined; headings, lists and quotes stay apart. With `targets`, the
    target of a wikilink stands before its name.
    """
    if targets:
        text = _TARGET_AND_NAME.sub(r"\1 \2", text)
    shown = _WIKILINK.sub(r"\1", _IMAGE_OR_LINK.sub(r"\1", text))
    shown = _MARKS.sub("", _REFERENCE.sub(r"\1", shown))
    return _SOFT_BREAK.sub(" ", shown)
