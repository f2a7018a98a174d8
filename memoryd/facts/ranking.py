"""Scores of facts: by vectors on the scale of the reference, and by keywords. Pure."""

import re
import unicodedata
from collections.abc import Callable, Iterable

from memoryd.text.fold import fold
from memoryd.text.stem import stem
from memoryd.text.tokenize import query_sequence, query_terms
from memoryd_client.schema.facts import Fact, FactMatch

_NEGATION = re.compile(
    r"\b(?:not|no|never|cannot|nobody|nothing|without|nicht|keine?[rnms]?|nie|ohne|ne|pas|jamais|sin"
    r"|nunca|non|mai|não|niet|geen|inte|ikke|nie|нет|не|ni|nem|değil|yok)\b|n't\b"
)
MIN_SCORE = 0.5
SAME_SCORE = 0.95
"""Score from which two facts say nearly the same."""
SURE_SCORE = 0.9
"""Score above which a fact is the one that a request to forget means."""


def score_of(cosine: float, calibrate: Callable[[float], float]) -> float:
    """Return 1 / (1 + squared distance) of two texts, given the cosine of their vectors.

    Models differ in the cosine that means "related", which `calibrate` maps to 0.5. Cosines on both
    sides of it are stretched, so that it counts as 0.5 here too and equal texts keep 1. For a model
    that needs no calibration, the result is that of the plain vectors.
    """
    low, slope = calibrate(0.0), calibrate(1.0) - calibrate(0.0)
    related = min(0.95, max(0.05, (0.5 - low) / slope))
    if cosine < related:
        similar = 0.5 * cosine / related
    else:
        similar = 0.5 + 0.5 * (cosine - related) / (1.0 - related)
    return 1.0 / (1.0 + max(0.0, 2.0 - 2.0 * similar))


def by_keywords(query: str, facts: Iterable[Fact]) -> list[FactMatch]:
    """Return the facts that share words with a query, best first, newer ones first if equal.

    The score is the share of the query's words. A fact with the very text has 1.
    """
    terms = query_terms(query)
    found = []
    for fact in facts:
        folded, words = fold(fact.text), {stem(term.text) for term in query_sequence(fact.text)}
        hits = sum(t.text in folded if t.prefix else stem(t.text) in words for t in terms)
        score = 1.0 if same_text(query, fact.text) else hits / len(terms) if terms else 0.0
        if score:
            found.append(FactMatch(fact, score))
    return sorted(found, key=lambda match: (-match.score, -match.fact.created_at))


def same_text(first: str, second: str) -> bool:
    """Return whether two texts differ in case, spaces and the encoding of accents only."""
    return _plain(first) == _plain(second)


def same_claim(first: str, second: str) -> bool:
    """Return whether two texts, whose vectors are near, differ in small words only.

    Vectors alone don't tell a new port, another nut or a negation from the known one, nor tea that
    is preferred to coffee from coffee that is preferred to tea.
    """
    return _claim(first) == _claim(second)


def _claim(text: str) -> tuple[list[str], bool]:
    words = fold(text).replace("’", "'")
    return [stem(t.text) for t in query_sequence(text)], _NEGATION.search(words) is not None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).rstrip(".!")
