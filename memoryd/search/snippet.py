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
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from memoryd.search.text_match import Finder, FoldedText, TermPosition, terms_of_lines
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


class TextLines(NamedTuple):
    """Starts of the lines of a text, with one more behind the end.

    `blank` and `asking` are the numbers of lines that are blank, and of those with a question mark.
    """

    starts: Sequence[int]
    blank: Sequence[int]
    asking: Sequence[int]


def read_lines(text: str) -> TextLines:
    """Return the lines of a text."""
    starts, blank, asking, at = array("I"), array("I"), array("I"), 0
    for number, line in enumerate(text.split("\n")):
        starts.append(at)
        at += len(line) + 1
        if not line or line.isspace():
            blank.append(number)
        elif "?" in line or "？" in line:
            asking.append(number)
    starts.append(at)
    return TextLines(starts, blank, asking)


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

    def terms_of_lines(self, text: str) -> Mapping[int, Sequence[int]]:
        """Return the numbers of the terms in each line of a text that has any."""
        folded = FoldedText(fold(text))
        return terms_of_lines(folded, self.finder.places_in([folded])[0])


def cut_snippet(
    text: str,
    start_line: int,
    end_line: int,
    reader: LineReader,
    max_chars: int,
    near: Sequence[float] = (),
    found: Mapping[int, Sequence[int]] | None = None,
    lines: TextLines | None = None,
) -> Snippet:
    """Return the run of whole lines, at most `max_chars` long, that most likely answers.

    `near` has the lines' cosines with the query if there are vectors; `found` the numbers of the
    terms in each line that has any, and `lines` the lines, if they are known. If no line matches,
    returns the beginning. A single line that is too long is cut around its first term.
    """
    if found is None:
        found = reader.terms_of_lines(text)
    if lines is None:
        lines = read_lines(text)
    starts, blank, _ = lines
    likely = _likely(lines, found, reader, near)
    first, last = _best_run(starts, likely, found, reader.weights, max_chars)
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


def _likely(
    lines: TextLines,
    found: Mapping[int, Sequence[int]],
    reader: LineReader,
    near: Sequence[float],
) -> list[float]:
    """Return the likelihood of each line to be the answer; the maximum is 1."""
    weights, total, (starts, blank, asking) = reader.weights, reader.total, lines
    count = len(starts) - 1
    if len(blank) == count:
        return [0.0] * count
    having: dict[int, int] = {}
    for terms in found.values():
        for term in terms:
            having[term] = having.get(term, 0) + 1
    present = math.fsum([weights[term] for term in having]) or 1.0
    rarity = {term: weights[term] / lines_with for term, lines_with in having.items()}
    signs = [NEAR * cosine for cosine in near] if near else [0.0] * count
    signs += (0.0, 0.0)
    # Most lines have no term, and change nothing.
    for at in sorted(found):
        terms = found[at]
        if len(terms) == 1:
            share, rare = weights[terms[0]], rarity[terms[0]]
        else:
            share = math.fsum([weights[term] for term in terms])
            rare = math.fsum([rarity[term] for term in terms])
        share /= total
        rare /= present
        signs[at] += SHARE * share + RARE * rare
        signs[at + 1] += SHARE_BEFORE * share + RARE_BEFORE * rare
        if at in asking:
            signs[at + 1] += ASKED_BEFORE * share
        signs[at + 2] += SHARE_TWO_BEFORE * share
    del signs[count:]
    for at in blank:
        signs[at] = -math.inf
    most = max(signs)
    return [math.exp(sign - most) for sign in signs]


def _best_run(
    starts: Sequence[int],
    likely: Sequence[float],
    found: Mapping[int, Sequence[int]],
    weights: Sequence[float],
    max_chars: int,
) -> tuple[int, int]:
    """Return the first and the last line of the run with the highest value.

    The value is the sum of the likelihoods, times `1 + COVERED` x the share of the query, by
    weight, that the run has of what the chunk has: a run is paid for different words, not for many
    lines with one of them. `starts` is where each line starts.
    """
    final = len(likely) - 1
    if starts[-1] <= max_chars + 1:
        return 0, final
    before = list(accumulate(likely, initial=0.0))
    marked = list(found.items())
    total = math.fsum([weights[term] for term in set().union(*found.values())]) or 1.0
    best, best_value = (0, 0), -1.0
    for first, start in enumerate(starts[:-1]):
        # The last line has no end, and a single one may be too long.
        last = bisect_right(starts, start + max_chars + 1) - 2
        if last < first:
            last = first
        likelihood = before[last + 1] - before[first]
        if likelihood * (1 + COVERED) > best_value:  # else no word could make it the best
            has = {term for line, terms in marked if first <= line <= last for term in terms}
            covered = math.fsum([weights[term] for term in has]) / total
            value = likelihood * (1 + COVERED * covered)
            if value > best_value * (1 + 1e-9):
                best, best_value = (first, last), value
        if last == final:
            break
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
