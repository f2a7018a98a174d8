"""Language of the asker: among results that answer nearly as well, those in it come first. Pure."""

from collections.abc import Mapping
from functools import lru_cache

from memoryd.search.fuse import Candidate, strength_of_score
from memoryd.text.language import language_of

NEARLY = 0.9
"""Least strength of a result, as a share of the highest, that answers nearly as well."""
MOST = 8
"""Results whose language is looked at."""
MOST_CHARS = 400
"""Characters of a result that tell its language, in 0.1 ms."""


def asker_first(
    candidates: list[Candidate], texts: Mapping[int, str], query: str
) -> list[Candidate]:
    """Return the candidates with near-equals in another language than the query behind the others.

    They change places and scores. A text without a known language counts as one in the query's;
    a query without one changes nothing.
    """
    if len(candidates) < 2 or not (language := language_of(query)):
        return candidates
    least = NEARLY * strength_of_score(candidates[0].score)
    equals = [c for c in candidates[:MOST] if strength_of_score(c.score) >= least]
    own = [c for c in equals if _language_of(texts[c.row_id]) in ("", language)]
    ordered = own + [c for c in equals if c not in own]
    if not own or ordered == equals:
        return candidates
    placed = [
        c._replace(score=place.score, unaged_score=max(c.unaged_score, place.score))
        for c, place in zip(ordered, equals, strict=True)
    ]
    return placed + candidates[len(placed) :]


@lru_cache(maxsize=256)
def _language_of(text: str) -> str:
    return language_of(text[:MOST_CHARS])
