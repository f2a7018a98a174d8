"""Sentences of a message that are worth keeping, by the trigger words of the reference. Pure.

The words are English, Czech, Chinese, Japanese and Korean. They ask to remember something, state a
preference, a decision or a property, or stress that something holds always.
"""

import re
from collections.abc import Iterator

from memoryd.facts.refusal import marks, refusal
from memoryd_client.schema.facts import FactCategory

MOST_OF_A_TURN = 3
LEAST_CHARS, MOST_CHARS = 10, 500
LEAST_UNSPACED_CHARS = 5
"""Least characters of a sentence with Chinese, Japanese or Korean words, which are shorter."""
MAX_MESSAGE_CHARS = 10_000
"""Characters of a message that are looked at, because what follows was pasted."""

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_CODE = re.compile(r"```.*?(?:```|\Z)|^(?: {4}|\t|>).*$", re.DOTALL | re.MULTILINE)
_QUESTION = re.compile(r"[?？]\s*$")
_TRIGGERS: tuple[tuple[FactCategory, str], ...] = (
    (
        "decision",
        r"\b(?:we|i)(?:'ve| have)? decided\b|\bwe(?:'ll| will| are going to) use\b|\bfrom now on\b"
        r"|\brozhodli jsme\b|\bbudeme používat\b"
        r"|决定|決定|以后(?:都)?用"
        r"|ことにし(?:た|ます)|결정했|하기로 했",
    ),
    (
        "preference",
        r"\bi (?:really |don't |do not )?(?:like|love|prefer|hate|dislike|want|need|can't stand)\b"
        r"|\bprefer(?:s|red)?\b|\bpreferuji\b|\bradši\b|\bnechci\b|\bmám ráda?\b"
        r"|喜欢|偏好|讨厌|我不?想要"
        r"|好き|嫌い|好む|の方がいい|좋아(?:해|하|합)|싫어|선호",
    ),
    (
        "entity",
        r"\bmy [\w' -]{1,40} is\b|\bis my\b|\bis called\b"
        r"|\bm(?:ůj|oje) [\w ]{1,40} je\b|\bje můj\b|\bjmenuje se\b"
        r"|我的.{1,20}是|我叫|私の.{1,20}は|という名前"
        r"|이름은|나의 .{1,20}(?:은|는)"
        r"|(?<!\w)\+\d[\d -]{8,16}\d|[\w.+-]+@[\w-]+\.[\w.-]+",
    ),
    (
        "other",
        r"\bremember\b|\bdon't forget\b|\bkeep in mind\b|\b(?:always|never|important)\b"
        r"|\bzapamatuj\b|\bpamatuj\b|\bvždy\b|\bnikdy\b|\bdůležité\b"
        r"|记住|記住|別忘了|别忘了|总是|从不|重要"
        r"|覚えて|忘れないで|いつも|決して|기억해|잊지 ?마|항상|절대",
    ),
)
_PATTERNS = [(category, re.compile(words, re.IGNORECASE)) for category, words in _TRIGGERS]


def captured(message: str) -> list[tuple[str, FactCategory]]:
    """Return at most three sentences of a message to keep as facts, with their categories.

    A message with marks of a prompt or of outside content has none, and neither do code, quoted
    lines and questions.
    """
    message = message[:MAX_MESSAGE_CHARS]
    if marks(message) is not None:
        return []
    found: dict[str, FactCategory] = {}
    for sentence in _sentences(message):
        for category, pattern in _PATTERNS:
            if pattern.search(sentence):
                found.setdefault(sentence, category)
                break
        if len(found) == MOST_OF_A_TURN:
            break
    return list(found.items())


def _sentences(message: str) -> Iterator[str]:
    for part in _END.split(_CODE.sub("\n", message)):
        sentence = " ".join(part.strip(" \t-*•").split())
        least = LEAST_UNSPACED_CHARS if _UNSPACED.search(sentence) else LEAST_CHARS
        fits = least <= len(sentence) <= MOST_CHARS and not _QUESTION.search(sentence)
        if fits and refusal(sentence) is None:
            yield sentence
