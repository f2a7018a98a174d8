"""Weights of pairs of characters in questions without spaces between words. Pure.

In 第784次训练的主题是什么, 主题 and 训练 say what is asked for; 的主, 题是 and 什么 stand there by
chance. A pair of characters of function words weighs little.
"""

import re
from functools import cache

from memoryd.text.language import function_words

ONE_OF_TWO, BOTH = 0.3, 0.1
"""Weight of a pair with one or two characters of function words."""
_KANA = re.compile("[\u3040-\u30ff]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_LONGEST = 8
"""Characters of the longest function word."""


def language_of_runs(question: str) -> str:
    """Return the language whose function words a question without spaces has: zh, ja or ko."""
    if _KANA.search(question):
        return "ja"
    return "ko" if _HANGUL.search(question) else "zh"


def pair_weights(run: str, language: str) -> list[float]:
    """Return the weight of each pair of neighbours in a run; of the character, if it is alone."""
    marks = _marks_of_korean(run) if language == "ko" else _marks(run, language)
    if len(run) == 1:
        return [BOTH if marks[0] else 1.0]
    return [(1.0, ONE_OF_TWO, BOTH)[marks[at] + marks[at + 1]] for at in range(len(run) - 1)]


def _marks(run: str, language: str) -> list[bool]:
    """Return which characters belong to a function word; the longest ones are found first."""
    words = function_words(language)
    marks = [False] * len(run)
    at = 0
    while at < len(run):
        for length in range(min(_LONGEST, len(run) - at), 0, -1):
            word = run[at : at + length]
            if word in words and not (length == 1 and language == "ja" and _inside(run, at)):
                marks[at : at + length] = [True] * length
                at += length
                break
        else:
            at += 1
    return marks


def _inside(run: str, at: int) -> bool:
    """Return whether a character may be part of a word in hiragana, such as か in さかな."""
    around = run[max(0, at - 1) : at], run[at + 1 : at + 2]
    return run[at] != "を" and all(char and "\u3041" <= char <= "\u3096" for char in around)


def _marks_of_korean(run: str) -> list[bool]:
    """Return the same for Korean, whose spaces divide phrases: particles stand at their ends."""
    words, endings = function_words("ko"), _korean_endings()
    if run in words:
        return [True] * len(run)
    for length in range(min(_LONGEST, len(run) - 1), 0, -1):
        if run[-length:] in endings:
            return [False] * (len(run) - length) + [True] * length
    return [False] * len(run)


@cache
def _korean_endings() -> frozenset[str]:
    return frozenset(word[1:] for word in function_words("ko") if word.startswith("-"))
