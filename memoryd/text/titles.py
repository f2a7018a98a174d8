"""Titles as people type them: the titles that a question may consist of. Pure.

Case, accents, apostrophes and what separates words don't count, so `paleys-watch.md` asks for the
note `Paley's Watch`. Around a title, a question may have words that ask: `what is a watch?`.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from memoryd.text.fold import has_unspaced
from memoryd.text.tokenize import query_sequence

MOST_WORDS = 24
"""Maximum words of a question that may consist of a title."""
MOST_ASKING_WORDS = 8
"""Maximum words that ask, on each side."""
_ENDING = re.compile(r"\.(?:md|markdown|txt)$")
_APOSTROPHES = re.compile("['’‘ʼ＇`]")
_APART = re.compile(r"[^\w+#]+|_+")
"""Characters between words; `C++` and `C#` are names."""
_ACCENT_CLASS = 200
"""Combining classes from here on are accents; lower ones are letters of other scripts."""
_POINTS = range(10, 37)
"""Combining classes of the points of Hebrew and Arabic."""
_ASKING = frozenset(
    (
        *("what", "whats", "who", "whos", "where", "wheres", "is", "are", "was", "were", "tell"),
        *("define", "definition", "meaning", "explain", "describe", "show", "open", "find", "me"),
        *("about", "the", "a", "an", "of", "please", "note", "notes", "page", "my", "our"),
        *("nedir", "kimdir", "nerede", "demek", "چیست", "کیست", "क्या", "कौन", "là", "gì"),
    )
)
"""Words that ask, beside the stop words of the question's language."""
_SIGNS = re.compile("[+#]+")
_WIKILINK = re.compile(r"\[\[([^\[\]|#]+)(?:[|#].*)?\]\]")
_END = "?？!！.。…؟ \t"
_FRAMES = tuple(
    re.compile(frame)
    for frame in (
        r"(?:什么是|什麼是|何谓|何謂|谁是|誰是|介绍一下|介紹一下|关于|關於)(.+)",
        r"(.+?)\s*是(?:什么|什麼|啥|谁|誰|哪个|哪個)(?:意思)?[呢啊呀]?",
        r"(.+?)\s*(?:とは|って)(?:何|なに|なん|誰)?(?:ですか|でしょうか|だっけ)?",
        r"(.+?)\s*[はが](?:何|なに|なん|誰|どこ)(?:ですか|でしょうか)?",
        r"(.+?)\s*に(?:ついて|関して)(?:教えて)?(?:ください)?",
        r"(.+?)(?:이란|란|은|는|이|가|을|를)?\s*(?:무엇|뭐|뭔|누구)(?:인가요|입니까|인지|이야|이에요|예요|야|죠)?",
        r"(.+?)의?\s*(?:뜻|의미|정의|개념|설명)(?:[은는이가을를]|이란)?(?:\s*(?:무엇|뭐|뭔|알려|설명해).*)?",
        r"(.+?)的?(?:意思|含义|含義|定义|定義)(?:是(?:什么|什麼|啥))?",
        r"(.+?)の?(?:意味|定義|説明)(?:[はを]|って)?(?:何|なに|なん|教えて)?(?:ですか|ください)?",
        r"(.+?)에 (?:대해|대하여|관해)(?: 알려줘| 설명해줘)?",
        r"(.+?)\s*(?:คืออะไร|คือใคร)",
    )
)
"""Questions about a title in languages whose words that ask stand without spaces."""


def title_key(title: str) -> str:
    """Return the form in which titles are compared, "" only for a title of blanks."""
    if title.isascii():
        if title.isalnum():  # most are single words
            return title.lower()
        folded = title.lower()
    else:
        normal = unicodedata.normalize("NFKD", title.casefold())
        folded = unicodedata.normalize("NFC", "".join(filter(_counts, normal)))
    words = _APART.sub(" ", _APOSTROPHES.sub("", folded)).strip()
    return words or "".join(folded.split())


def _counts(char: str) -> bool:
    combining = unicodedata.combining(char)
    return not combining or (combining < _ACCENT_CLASS and combining not in _POINTS)


def file_key(name: str) -> str:
    """Return the key of a file name, without the ending of a note."""
    return title_key(_ENDING.sub("", name.lower() if name.isascii() else name))


@lru_cache(maxsize=64)
def asked_titles(question: str) -> tuple[str, ...]:
    """Return the keys of the titles that a question may consist of, the longest first."""
    whole = unicodedata.normalize("NFC", question).strip().strip('"“”„«»')
    if (link := _WIKILINK.fullmatch(whole)) is not None:
        whole = link[1]
    bare = whole.rstrip(_END)
    keys = [title_key(whole)]
    if "." in whole or not _has_word(whole):
        keys += [file_key(whole), file_key(bare)]  # else the same
    for frame in () if bare.isascii() else _FRAMES:
        if (found := frame.fullmatch(bare)) is not None:
            keys.append(file_key(found[1].strip('"“”„«»「」『』《》[] ')))
    words = (file_key(bare) if len(keys) > 1 else keys[0]).split()
    if len(words) <= MOST_WORDS:
        keys += _spans(words, whole)
    return tuple(key for key in dict.fromkeys(keys) if key)


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _is_dropped(word: str, meant: set[str]) -> bool:
    """Return whether a word is no term of the question; unspaced scripts have no such words."""
    if word in meant or (not word.isascii() and has_unspaced(word)):
        return False
    return word.isalnum() or meant.isdisjoint(_SIGNS.split(word))


def _asking(words: Iterable[str], meant: set[str]) -> int:
    """Return how many of the first words ask; none where all do, as in "what is it"."""
    for count, word in enumerate(words):
        if word not in _ASKING and not _is_dropped(word, meant):
            return count
    return 0


def _spans(words: list[str], question: str) -> list[str]:
    """Return the runs of words that leave out only words that ask, at both ends."""
    meant = {title_key(term.text) for term in query_sequence(question)}
    before = _asking(words, meant)
    after = _asking(reversed(words), meant)
    spans = [
        (first, len(words) - last)
        for first in range(min(before, MOST_ASKING_WORDS) + 1)
        for last in range(min(after, MOST_ASKING_WORDS) + 1)
    ]
    spans.sort(key=lambda span: span[0] - span[1])
    return [" ".join(words[first:end]) for first, end in spans]
