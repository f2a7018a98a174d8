"""Language of the asker: among results that answer nearly as well, those in it come first. Pure."""

from collections.abc import Callable

from memoryd.search.fuse import Candidate, strength_of_score
from memoryd.text.language import language_of

NEARLY = 0.9
"""Least strength of a result, as a share of the highest, that answers nearly as well."""
MOST = 8
"""Results whose language is looked at."""


def asker_first(
    candidates: list[Candidate],
    language_of_row: Callable[[int], str],
    known_language: Callable[[int], str | None],
    query: str,
) -> list[Candidate]:
    """Return the candidates with near-equals in another language than the query behind the others.

    They change places and scores. A chunk without a language, for which `language_of_row` returns
    "", counts as one in the query's; a query without one changes nothing. `known_language` returns
    the same as far as it was found out.
    """
    if not candidates:
        return candidates
    least = NEARLY * strength_of_score(candidates[0].score)
    equals = [c for c in candidates[:MOST] if strength_of_score(c.score) >= least]
    if len(equals) < 2:
        return candidates
    known = {known_language(c.row_id) for c in equals}
    if len(known) == 1 and None not in known:  # all are in one language
        return candidates
    if not (language := language_of(query)):
        return candidates
    own: list[Candidate] = []
    others: list[Candidate] = []
    for c in equals:
        (own if language_of_row(c.row_id) in ("", language) else others).append(c)
    ordered = own + others
    if not own or not others or ordered == equals:
        return candidates
    placed = [
        c._replace(score=place.score, unaged_score=max(c.unaged_score, place.score))
        for c, place in zip(ordered, equals, strict=True)
    ]
    return placed + candidates[len(placed) :]
