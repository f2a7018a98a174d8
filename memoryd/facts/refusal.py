"""Texts that give an agent orders instead of stating a fact. Pure.

A fact goes into prompts unasked, so a stored order would be repeated in every conversation.
"""

import re

from memoryd.text.fold import fold
from memoryd.text.outside import outside_lines

_RULES = r"(?:instructions?|rules?|prompts?|directions?|guidelines?|messages?|anweisungen|regeln)"
_EARLIER = (
    r"(?:previous|prior|earlier|above|preceding|foregoing|former|existing|system|vorherigen?)"
)
_ORDERS = (
    (
        rf"\b(?:ignore|disregard|forget|override|bypass|neglect|ignoriere?|vergiss)\b.{{0,30}}"
        rf"\b{_EARLIER}\b.{{0,20}}\b{_RULES}\b",
        "it asks to disregard instructions",
    ),
    (
        rf"\b(?:ignore|disregard|forget|override)\b.{{0,20}}\b(?:all|any|your|these|those)\b"
        rf".{{0,20}}\b{_RULES}\b",
        "it asks to disregard instructions",
    ),
    (
        r"\b(?:do not|don'?t|never) (?:follow|obey|listen to)\b.{0,20}"
        r"\b(?:system|developer|user)\b",
        "it asks to disregard somebody",
    ),
    (
        r"\b(?:system|developer) (?:prompt|message)\b",
        "it names the messages that control an agent",
    ),
    (
        r"\byou are (?:now|from now on)\b|\bfrom now on,? (?:you|always|never|act)\b"
        r"|\b(?:act|behave) as (?:if you|an? (?:unrestricted|different))\b",
        "it tells an agent what to be",
    ),
    (
        r"\b(?:run|execute|call|invoke|use)\b.{0,40}\b(?:tool|command|function|shell)s?\b",
        "it asks to run something",
    ),
    (
        r"\b(?:do not|don'?t|never) (?:tell|inform|mention (?:this|it) to) the (?:user|owner)\b",
        "it asks to hide something",
    ),
)
_PATTERNS = [(re.compile(pattern), why) for pattern, why in _ORDERS]
_MARKUP = re.compile(
    r"<\s*/?\s*(?:system|assistant|developer|user|tool|function|instructions?|relevant-memories)\b"
    r"|\[/?inst\]|<\|[a-z_]+\|>",
    re.IGNORECASE,
)


def marks(text: str) -> str | None:
    """Return why a text can't be its author's own words, None if it can."""
    if _MARKUP.search(text):
        return "it has marks of a prompt"
    return "it quotes marked content from outside" if outside_lines(text.splitlines()) else None


def refusal(text: str) -> str | None:
    """Return why a text is refused as a fact, None if it may be one."""
    if (why := marks(text)) is not None:
        return why
    folded = fold(text)
    return next((why for pattern, why in _PATTERNS if pattern.search(folded)), None)
