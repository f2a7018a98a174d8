"""Snippets: the lines of a chunk that answer a question. Pure.

A snippet consists of whole lines, with their own line range. Each line
gets a probability of being the answer, by a model that was fitted to the evidence lines of half of
LoCoMo's questions; the run of lines with the highest sum, weighed by the share of the query's words
that it has, is shown. The model uses the line's share of the query's terms, the share that few
other lines have, the cosine of its window, and whether the line before asks with these terms.
"""

import math
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from memoryd.search.text_match import Finder, FoldedText, Places, TermPosition
from memoryd.text.fold import fold
from memoryd.text.tokenize import NO_FORMS, Term

SHARE, RARE, NEAR = 3.0, 3.0, 4.0
SHARE_BEFORE, RARE_BEFORE, SHARE_TWO_BEFORE, ASKED_BEFORE = -3.0, 3.0, 2.0, 4.0
"""Weights of the figures of a line, of the line before, and of the one before that."""
COVERED = 2.0
"""Factor on the likelihood of a run for the share of the query's words that it has."""


class Snippet(NamedTuple):
    """Lines of a chunk; `start_line` and `end_line` are 1-based lines of the file, inclusive.

    `best` is the likeliest of the lines, counted from the first line of the chunk (0), and `whole`
    are the first and the last of them, None if the line is cut.
    """

    text: str
    start_line: int
    end_line: int
    best: int = 0
    whole: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class TextLines:
    """Starts of the lines of a text, with one more behind the end.

    `blank` and `asking` are the numbers of lines that are blank, and of those with a question mark.
    """

    starts: Sequence[int]
    blank: Sequence[int]
    asking: Sequence[int]
    _runs: tuple[int, Sequence[int]] = (-1, ())

    def run_ends(self, max_chars: int) -> Sequence[int]:
        """Return the last line of each longest run, by its first, until a run ends the text.

        A run has at most `max_chars`, or one line.
        """
        if self._runs[0] != max_chars:
            ends: list[int] = []
            for first, start in enumerate(self.starts[:-1]):
                # The last line has no end.
                last = bisect_right(self.starts, start + max_chars + 1) - 2
                ends.append(max(first, last))
                if ends[-1] == len(self.starts) - 2:
                    break
            self._runs = max_chars, tuple(ends)
        return self._runs[1]


def read_lines(text: str) -> TextLines:
    """Return the lines of a text."""
    lines = text.split("\n")
    starts = array("I", accumulate([len(line) + 1 for line in lines], initial=0))
    blank = [number for number, line in enumerate(lines) if not line or line.isspace()]
    marks = [mark for mark in ("?", "？") if mark in text]
    asking = (
        [number for number, line in enumerate(lines) if any(map(line.__contains__, marks))]
        if marks
        else ()
    )
    return TextLines(starts, tuple(blank), tuple(asking))


class LineReader:
    """Terms to find in the lines of a chunk, their weights, and the words that stand for them."""

    def __init__(
        self,
        weights: Mapping[Term, float],
        forms: Mapping[Term, Sequence[str]] = NO_FORMS,
        parts: Mapping[Term, tuple[str, ...]] = NO_FORMS,
    ) -> None:
        self.weights = tuple(weights.values())
        self.total = math.fsum(self.weights) or 1.0
        self._find = weights, forms, parts

    @cached_property
    def finder(self) -> Finder:
        """The finder of the terms, which most searches don't need: the evidence has matched."""
        return Finder(*self._find)

    def found_in(self, text: str) -> Set[int]:
        """Return the numbers of the terms that stand in a text."""
        places = self.finder.places(fold(text))
        return {number for number, found in enumerate(places) if found}

    def places(self, text: str) -> Places:
        """Return the places of the terms in a text."""
        return self.finder.places_in(FoldedText(fold(text)))


def cut_snippet(
    text: str,
    start_line: int,
    end_line: int,
    reader: LineReader,
    max_chars: int,
    near: Sequence[float] = (),
    places: Places | None = None,
    lines: TextLines | None = None,
) -> Snippet:
    """Return the run of whole lines, at most `max_chars` long, that most likely answers.

    `near` has the lines' cosines with the query if there are vectors; `places` are those of the
    terms, and `lines` the lines, if they are known. If no line matches, returns the beginning. A
    single line that is too long is cut around its first term.
    """
    if places is None:
        places = reader.places(text)
    if lines is None:
        lines = read_lines(text)
    starts, blank = lines.starts, lines.blank
    having = [
        (weight, here.lines, here.line_bits)
        for weight, here in zip(reader.weights, places, strict=False)  # there may be no places
        if here is not None
    ]
    present = math.fsum([weight for weight, _, _ in having]) or 1.0
    likely = _likely(lines, having, reader.total, present, near)
    first, last = 0, len(likely) - 1
    if starts[-1] > max_chars + 1:
        first, last = _best_run(lines.run_ends(max_chars), likely, having, present)
    while first < last and first in blank:
        first += 1
    while last > first and last in blank:
        last -= 1
    shown = text[starts[first] : starts[last + 1] - 1]
    whole: tuple[int, int] | None = (first, last)
    if len(shown) > max_chars:
        shown, whole = _cut_line(shown, reader.finder.places(fold(shown)), max_chars), None
    best = first if first == last else max(range(first, last + 1), key=likely.__getitem__)
    start, end = min(start_line + first, end_line), min(start_line + last, end_line)
    return Snippet(shown, start, end, best, whole)


def highlights(text: str, reader: LineReader) -> list[tuple[int, int]]:
    """Return the positions of the terms in a text, as (start, end) in characters, in order.

    Skips lines whose length changes by folding, as in some scripts.
    """
    found: set[tuple[int, int]] = set()
    at = 0
    for line in text.split("\n"):
        folded = fold(line)
        if len(folded) == len(line):
            for places in reader.finder.places(folded):
                found.update((at + place.start, at + place.end) for place in places)
        at += len(line) + 1
    return sorted(found)


_Having = Sequence[tuple[float, Sequence[int], int]]
"""The weight of each term in a chunk, the lines that have it, and these as bits."""


def _likely(
    lines: TextLines, having: _Having, total: float, present: float, near: Sequence[float]
) -> list[float]:
    """Return the likelihood of each line to be the answer; the maximum is 1.

    `total` is the weight of all terms, and `present` of those in the chunk.
    """
    blank, asking, count = lines.blank, lines.asking, len(lines.starts) - 1
    if len(blank) == count:
        return [0.0] * count
    signs = [NEAR * cosine for cosine in near] if near else [0.0] * count
    signs += (0.0, 0.0)
    # Most lines have no term, and change nothing.
    for weight, of_term, _ in having:
        share, rare = weight / total, weight / len(of_term) / present
        own = SHARE * share + RARE * rare
        before = SHARE_BEFORE * share + RARE_BEFORE * rare
        two_before = SHARE_TWO_BEFORE * share
        asked = before + ASKED_BEFORE * share
        for at in of_term:
            signs[at] += own
            signs[at + 1] += asked if at in asking else before
            signs[at + 2] += two_before
    del signs[count:]
    for at in blank:
        signs[at] = -math.inf
    most, exp = max(signs), math.exp
    return [exp(sign - most) for sign in signs]


def _best_run(
    ends: Sequence[int], likely: Sequence[float], having: _Having, present: float
) -> tuple[int, int]:
    """Return the first and the last line of the run with the highest value.

    The value is the sum of the likelihoods, times `1 + COVERED` x the share of the query, by
    weight, that the run has of what the chunk has: a run is paid for different words, not for many
    lines with one of them. `ends` are the last lines of the runs.
    """
    before = list(accumulate(likely, initial=0.0))
    best, best_value = (0, 0), -1.0
    for first, last in enumerate(ends):
        likelihood = before[last + 1] - before[first]
        if likelihood * (1 + COVERED) > best_value:  # else no word could make it the best
            run, covered = (2 << last) - (1 << first), 0.0
            for weight, _, lines in having:
                if lines & run:
                    covered += weight
            value = likelihood * (1 + COVERED * covered / present)
            if value > best_value * (1 + 1e-9):
                best, best_value = (first, last), value
    return best


def _cut_line(line: str, places: Sequence[Sequence[TermPosition]], max_chars: int) -> str:
    """Cut one long line around its first term, at spaces if there are any."""
    at = min((found[0].start for found in places if found), default=0)
    # Folding may have shifted the position a little, which does no harm here.
    start = max(0, min(at, len(line)) - max_chars // 3)
    start = min(start, max(0, len(line) - max_chars))
    if start > 0:
        space = line.find(" ", start, start + 40)
        start = space + 1 if space >= 0 else start
        while start < len(line) and unicodedata.combining(line[start]):
            start += 1
    piece = line[start : start + max_chars]
    if start + max_chars < len(line) and (space := piece.rfind(" ", max_chars - 40)) > 0:
        piece = piece[:space]
    return piece
