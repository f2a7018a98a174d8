"""Diversity of results: near copies, maximal marginal relevance, share of transcripts. Pure.

Results that show nearly the same (copied notes, a block that notes repeat, overlapping chunks,
transcripts that quote a note) take one place. Maximal marginal relevance, an option, diversifies
further (Carbonell and Goldstein, 1998), with the reference's similarity: Jaccard over words, in
scripts without spaces over characters and bigrams.
"""

import re
from array import array
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd.search.fuse import Candidate, select
from memoryd.text.fold import SPACED_WORD, has_unspaced, is_unspaced

Runs = NDArray[np.uint32]
"""The runs of three words of a shown text, by their hashes. Of a million pairs of different texts,
four have one hash in common by chance, which makes no copy."""
RUN_WORDS = 3
COPY = 0.6
"""Least share of the shorter text's runs that a near copy contains."""
LEAST_WORDS = 20
"""Shorter texts are never copies, because one word, or the file, makes another fact."""
CHARS_PER_WORD = 2
"""Characters of a script without spaces that count as one word of `LEAST_WORDS`."""

_NONE: Runs = np.empty(0, np.uint32)
_FACTORS = np.array((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9), np.uint64)
"""Odd numbers, with which the hashes of the words of a run are multiplied."""
_UPPER = np.uint64(32)
"""Lower bits that are left out: a product changes its upper ones most."""
_OWNER_BITS, _OWNER = np.uint64(8), np.uint64(255)
"""Bits that tell, while runs are compared, which text one is of."""
_WORD = re.compile(r"[^\W_]+")
_ASCII_BETWEEN_WORDS = bytes(
    c if chr(c).isalnum() or chr(c) == "\n" else 32 for c in range(128)
).ljust(256)
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
_UNIT = re.compile(rf"({SPACED_WORD.pattern}|[{_HANGUL}]+)|[^\W_]")
"""A word, or a character of a script without spaces. Korean has spaces."""


class LineRuns(NamedTuple):
    """The runs of a text by line: one for each of its words but the last two.

    `units` are the words or characters before each line, and in all; `words` is the same, with
    characters as shares of a word.
    """

    runs: Runs
    units: Sequence[int]
    words: Sequence[float]

    def between(self, first: int, last: int) -> Runs:
        """Return the runs of some lines, none if these are too short to be a copy."""
        if self.words[last + 1] - self.words[first] < LEAST_WORDS:
            return _NONE
        return self.runs[self.units[first] : self.units[last + 1] - RUN_WORDS + 1]


def line_runs(text: str) -> LineRuns:
    """Return the runs of three words, in scripts without spaces of three characters, of a text."""
    found: list[bytes] = []
    units = array("I", (0,))
    words: array[float] | array[int] = units
    if text.isascii():
        # A fifth of the time of a regular expression, and half of that of `str.translate`.
        for bare in text.lower().encode().translate(_ASCII_BETWEEN_WORDS).split(b"\n"):
            found += bare.split()
            units.append(len(found))
    else:
        words = array("d", (0.0,))
        for line in text.lower().split("\n"):
            of_line, count = _units(line)
            found += of_line
            units.append(len(found))
            words.append(words[-1] + count)
    if len(found) < RUN_WORDS:
        return LineRuns(_NONE, units, words)
    hashes = np.fromiter(map(hash, found), np.int64, len(found)).view(np.uint64)
    runs = hashes[:-2] * _FACTORS[0] + hashes[1:-1] * _FACTORS[1] + hashes[2:] * _FACTORS[2]
    return LineRuns((runs >> _UPPER).astype(np.uint32), units, words)


def _units(lowered: str) -> tuple[list[bytes], float]:
    """Return the words or characters of a line, and how many words they count as."""
    if not has_unspaced(lowered):
        found = [word.encode() for word in _WORD.findall(lowered)]
        return found, float(len(found))
    found, words = [], 0.0
    for match in _UNIT.finditer(lowered):
        found.append(match[0].encode())
        words += 1 if match[1] else 1 / CHARS_PER_WORD
    return found, words


def runs_of(text: str) -> Runs:
    """Return the runs of a text; there are none if it is too short to be a copy."""
    return line_runs(text).between(0, text.count("\n"))


def in_common(texts: Sequence[Runs]) -> tuple[list[int], list[int]]:
    """Return how many runs of each text others have, at most, and how many different ones it has.

    At most 256 texts. Returns 0 for all if too few texts have runs, or too few runs occur twice,
    for any to be a copy.
    """
    lengths = list(map(len, texts))
    if sum(map(bool, lengths)) < 2:
        return [0] * len(texts), [0] * len(texts)
    every = np.concatenate([*texts, _NONE])
    every.sort()
    # A text repeats or shares the runs beside their like, a copy as many as `COPY` of its runs.
    if np.count_nonzero(every[1:] == every[:-1]) < COPY * min(filter(None, lengths), default=1):
        return [0] * len(texts), [0] * len(texts)
    sorted_runs = np.concatenate([*texts, _NONE]).astype(np.uint64) << _OWNER_BITS
    sorted_runs |= np.repeat(np.arange(len(texts), dtype=np.uint64), lengths)
    sorted_runs.sort()
    owners = (sorted_runs & _OWNER).astype(np.int64)
    is_next = sorted_runs[1:] ^ sorted_runs[:-1]  # 0 for a run that one text repeats
    repeated = np.bincount(owners[1:][is_next == 0], minlength=len(texts))
    shared = np.zeros(len(owners) + 1, np.bool_)
    shared[1:-1] = is_next <= _OWNER
    common = np.bincount(owners[shared[1:] | shared[:-1]], minlength=len(texts))
    return common.tolist(), (np.array(lengths, np.int64) - repeated).tolist()


def is_copy(one: Set[int], other: Set[int]) -> bool:
    """Return whether two texts are nearly the same, or one contains nearly all of the other.

    `one` and `other` are their different runs.
    """
    shorter = min(len(one), len(other))
    return shorter > 0 and len(one & other) >= COPY * shorter


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
