"""The best chunks of a keyword query, of which only those are ranked that may be among them. Pure.

Ranking a chunk takes ten times as long as matching it. A common word is in half of the chunks and
says almost nothing, so a chunk is not ranked where its words provably give it too low a score. The
result is that of ranking all.

A word's part of SQLite's BM25 is below `SATURATION` times its IDF. So a chunk reaches a score only
if the words that it lacks could add no more than all words together exceed that score: their
`slack`. Words are divided into groups of more than the slack, and a chunk must have a word of each.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

SATURATION = 2.2
"""Upper bound of a phrase's part of SQLite's BM25, in units of its IDF: k1 + 1."""
_ROUNDING = 1e-9
_CAUTION = 1.5
"""Factor on the chunks that are likely to reach the score from which ranking begins. If fewer than
k reach it, ranking begins again with a lower one."""
_GRAIN, _NEGLIGIBLE = 0.1, 0.3
"""Accuracy of that score, and the number of chunks of a score that may be left out."""
_FEW = 300
"""Chunks that are ranked in less time than it takes to leave them out by another statement."""

Rank = Callable[[str], Iterable[tuple[int, float]]]
"""Returns the k best (row_id, bm25) of those that an FTS5 expression matches, most negative first.
"""


class _Phrase(NamedTuple):
    """A phrase, the number of chunks having it, and its IDF in SQLite's fts5_aux.c."""

    text: str
    having: int
    idf: float

    @property
    def most(self) -> float:
        """Return what the phrase adds to a score at most."""
        return SATURATION * self.idf


class _Best:
    """The best chunks found so far, with the score by those phrases that were asked for."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._ranks: dict[int, float] = {}

    def add(self, found: Iterable[tuple[int, float]]) -> None:
        """Add chunks; with more of the phrases, the rank of a known one is lower."""
        for row, rank in found:
            self._ranks[row] = min(rank, self._ranks.get(row, 0.0))

    @property
    def least(self) -> float:
        """Return the k-th best score, 0 if there are fewer."""
        return -sorted(self._ranks.values())[self._k - 1] if len(self._ranks) >= self._k else 0.0

    def ranked(self) -> list[tuple[int, float]]:
        """Return the k best, best first."""
        return sorted(self._ranks.items(), key=lambda each: each[1])[: self._k]


def best_chunks(
    counted: Iterable[tuple[str, int]], chunks: int, k: int, rank: Rank, *, share: float = 1.0
) -> list[tuple[int, float]]:
    """Return the k best (row_id, bm25) of the chunks that have any of the phrases.

    `counted` are phrases with the number of chunks, of `chunks`, that have each. `share` is about
    the part of them that `rank` returns.
    """
    phrases = sorted(
        (_Phrase(text, count, idf_of(count, chunks)) for text, count in counted if count),
        key=lambda phrase: (phrase.having, phrase.text),
    )
    hoped = _likely_score(phrases, chunks, _CAUTION * k / share) if share > 0 else 0.0
    best = _Best(k)
    _rank_from(phrases, hoped, best, rank)
    if (least := best.least) < hoped:
        _rank_from(phrases, least, best, rank)
    return best.ranked()


def idf_of(count: int, chunks: int) -> float:
    """Return SQLite's IDF of a phrase that `count` chunks have."""
    return max(1e-6, math.log((max(chunks, count) - count + 0.5) / (count + 0.5)))


def _rank_from(phrases: Sequence[_Phrase], score: float, best: _Best, rank: Rank) -> None:
    """Rank all chunks that may reach a score. The phrases are in order, the rarest first.

    Each expression has each phrase once: BM25 would count it twice.
    """
    while phrases:
        groups, left = _in_groups(phrases, sum(phrase.most for phrase in phrases) - score)
        if not groups:
            return
        if len(groups) > 1 or not left:
            groups[-1] += left
            best.add(rank(" AND ".join(map(_any, groups))))
            return
        if sum(phrase.having for phrase in left) < _FEW:
            best.add(rank(_any(phrases)))
            return
        # Those with any of the phrases that are left have their whole score. The others score
        # without these phrases, as they would score with them.
        phrases = groups[0]
        best.add(rank(f"{_any(phrases)} AND {_any(left)}"))
        score = max(score, best.least)


def _in_groups(
    phrases: Iterable[_Phrase], slack: float
) -> tuple[list[list[_Phrase]], list[_Phrase]]:
    """Divide phrases into groups that add more than the slack; return these and what is left.

    No groups if no chunk reaches the score.
    """
    groups: list[list[_Phrase]] = []
    group: list[_Phrase] = []
    most = 0.0
    if slack < -_ROUNDING:
        return [], []
    for phrase in phrases:
        group.append(phrase)
        most += phrase.most
        if most > slack + _ROUNDING:
            groups.append(group)
            group, most = [], 0.0
    return (groups, group) if groups else ([group], [])


def _any(phrases: Iterable[_Phrase]) -> str:
    return f"({' OR '.join(phrase.text for phrase in phrases)})"


def _likely_score(phrases: Iterable[_Phrase], chunks: int, k: float) -> float:
    """Return the sum of IDFs that k chunks have if phrases are independent.

    What people ask for stands together more often, so the k-th best score is mostly higher.
    """
    having = {0: float(chunks)}  # the chunks by the sum of the IDFs of their phrases, in grains
    for phrase in phrases:
        share, grains = min(1.0, phrase.having / max(1, chunks)), int(phrase.idf / _GRAIN)
        split: dict[int, float] = {}
        for total, count in having.items():
            if (without := count * (1 - share)) > _NEGLIGIBLE:
                split[total] = split.get(total, 0.0) + without
            if (having_it := count * share) > _NEGLIGIBLE:
                split[total + grains] = split.get(total + grains, 0.0) + having_it
        having = split
    found = 0.0
    for total in sorted(having, reverse=True):
        found += having[total]
        if found >= k:
            return total * _GRAIN
    return 0.0
