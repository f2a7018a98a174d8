"""Diversity of results: near duplicates, maximal marginal relevance, share of transcripts. Pure.

Near duplicates (copied notes, overlapping chunks, transcripts that quote a note) take one place.
Maximal marginal relevance, an option, diversifies further (Carbonell and Goldstein, 1998), with the
reference's similarity: Jaccard over words, in scripts without spaces over characters and bigrams.
"""

import re
from collections.abc import Mapping

from memoryd.search.fuse import Candidate, select
from memoryd.text.fold import is_unspaced

SHINGLE_WORDS = 3
LEAST_WORDS = 20
"""Shorter texts are never duplicates, because one word, or the file, makes another fact."""
MOST_CHARS_PER_WORD = 20
SAME = 0.9
"""Least share of the shorter text's runs of three words that a duplicate contains."""

_WORD = re.compile(r"[^\W_]+")


def without_duplicates(
    candidates: list[Candidate], texts: Mapping[int, str], *, most: int
) -> list[Candidate]:
    """Return at most `most` candidates, best first, without near duplicates of better ones."""
    kept: list[Candidate] = []
    shown: list[tuple[frozenset[str], list[str]]] = []
    for candidate in candidates:
        if len(kept) == most:
            break
        words = _words(texts.get(candidate.row_id, ""))
        if len(words) >= LEAST_WORDS:
            distinct = frozenset(words)
            if any(_is_same(distinct, words, *other) for other in shown):
                continue
            shown.append((distinct, words))
        kept.append(candidate)
    return kept


def spread(
    candidates: list[Candidate], texts: Mapping[int, str], *, balance: float, most: int
) -> list[Candidate]:
    """Return at most `most` candidates by maximal marginal relevance.

    The next one has the highest `balance` x score - (1 - `balance`) x similarity to those already
    taken; scores are min-max normalized.
    """
    scores = [candidate.score for candidate in candidates]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    span = (high - low) or 1.0
    tokens = {c.row_id: _tokens(texts.get(c.row_id, "")) for c in candidates}
    left, taken = list(candidates), list[Candidate]()
    nearest = dict.fromkeys(tokens, 0.0)
    while left and len(taken) < most:
        best = max(
            left, key=lambda c: balance * (c.score - low) / span - (1 - balance) * nearest[c.row_id]
        )
        left.remove(best)
        taken.append(best)
        for other in left:
            similar = _jaccard(tokens[best.row_id], tokens[other.row_id])
            nearest[other.row_id] = max(nearest[other.row_id], similar)
    return taken


def _words(text: str) -> list[str]:
    """Return the words of a text, or its characters if it has no spaces between words."""
    words = text.lower().split()
    return list("".join(words)) if len(text) > MOST_CHARS_PER_WORD * len(words) else words


def _is_same(
    distinct: frozenset[str], words: list[str], others: frozenset[str], other: list[str]
) -> bool:
    # Most pairs differ in their words already, which is cheaper to compare than runs of words.
    if len(distinct & others) < SAME * min(len(distinct), len(others)):
        return False
    one, two = _shingles(words), _shingles(other)
    return len(one & two) >= SAME * min(len(one), len(two))


def _shingles(words: list[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(zip(*(words[at:] for at in range(SHINGLE_WORDS)), strict=False))


def _tokens(text: str) -> frozenset[str]:
    tokens: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if is_unspaced(word[0]):
            tokens.update(word)
            tokens.update(word[at : at + 2] for at in range(len(word) - 1))
        else:
            tokens.add(word)
    return frozenset(tokens)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def balance(
    notes: list[Candidate],
    sessions: list[Candidate],
    *,
    min_score: float,
    max_results: int,
    fill: bool = True,
) -> list[Candidate]:
    """Return the best of both; transcripts get half of the places, rounded up.

    They get more only if notes with at least `min_score` leave places free, because transcripts
    repeat themselves, and notes were worth writing down. With `fill`, `select` then fills free
    places with keyword results below `min_score`, notes first.
    """
    passed = [(c, False) for c in notes if c.unaged_score >= min_score]
    passed += [(c, True) for c in sessions if c.unaged_score >= min_score]
    passed.sort(key=lambda pair: (-pair[0].score, pair[1], pair[0].row_id))
    limit = (max_results + 1) // 2
    chosen: list[Candidate] = []
    spare: list[Candidate] = []
    for candidate, is_session in passed:
        if not is_session or limit > 0:
            chosen.append(candidate)
            limit -= is_session
        else:
            spare.append(candidate)
    chosen = sorted(
        [*chosen[:max_results], *spare[: max(0, max_results - len(chosen))]],
        key=lambda candidate: -candidate.score,
    )
    for group in (notes, sessions) if fill else ():
        below = [c for c in group if c.unaged_score < min_score]
        room = max_results - len(chosen)
        chosen += select(below, min_score=min_score, max_results=room) if room > 0 else []
    return chosen
