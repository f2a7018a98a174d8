"""Evidence that a chunk answers a query, from its words: four figures from 0 to about 1. Pure.

All are shares of the query's weight, including terms that no chunk contains. So they mean the same
for every query, and a query about nothing in memory gets low figures.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from memoryd.search.lexical import Corpus
from memoryd.search.text_match import Finder, FoldedText, Occurrences, Places, read_folded
from memoryd.search.verbatim import (
    IN_A_TITLE,
    IN_THE_PATH,
    exactness,
    verbatim_strings,
    verbatim_units,
)
from memoryd.text.fold import is_unspaced
from memoryd.text.language import most_function_words
from memoryd.text.tokenize import Term, query_sequence, query_terms

K1, B = 1.2, 0.75
"""The usual parameters of BM25."""
CONTEXT_WEIGHT = 1.0
"""Weight of a word in the path or the headings; one in the text has 1."""
UNSEEN_BIGRAM = 0.5
"""Factor on the weight of a bigram that no chunk has, because half of them span two words."""
NEAR_WORDS = 1
NEAR_CHARS = 40
"""Maximum distance of two neighbours, in one line."""


@dataclass(slots=True, eq=False)
class ChunkText:
    """Text of a candidate, its path and headings (`context`), and its length in tokens.

    `folded` and `above` are the text and the context, folded. `titles` are the path, the names and
    the titles of its file, one a line.
    """

    text: str
    context: str
    folded: FoldedText
    above: FoldedText
    titles: str = ""
    tokens: int = 1

    @classmethod
    def of(cls, text: str, context: str, tokens: int) -> "ChunkText":
        """Return a candidate without titles."""
        return cls(text, context, read_folded(text), read_folded(context), tokens=tokens)


class Evidence(NamedTuple):
    """Evidence of one chunk.

    `bm25` is BM25 as a share of its maximum; `coverage` the weight of the query's terms that the
    chunk contains; `adjacency` the share of neighbours in the query that are neighbours in it;
    `verbatim` the exactness with which it contains a verbatim string, or all of a short query;
    `string` is the same without the short query; `title` is 1 for the first chunk of a file that
    the question names.
    """

    bm25: float
    coverage: float
    adjacency: float
    verbatim: float
    string: float = 0.0
    title: float = 0.0


NO_EVIDENCE = Evidence(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Question:
    """The terms and verbatim strings of a query.

    `pairs` are adjacent terms, `strings` the verbatim strings; `units` has these and a short query
    as a whole. `language` is the ISO 639-1 code of the language whose function words were left out.
    """

    terms: tuple[Term, ...]
    pairs: tuple[tuple[Term, Term], ...]
    units: tuple[str, ...]
    strings: frozenset[str]
    language: str = "en"

    @classmethod
    def read(cls, text: str) -> "Question":
        """Return the terms and verbatim strings of a query."""
        terms, sequence = query_terms(text), query_sequence(text)
        known = set(terms)
        pairs = [(a, b) for a, b in pairwise(sequence) if a != b and a in known and b in known]
        strings = verbatim_strings(text)
        return cls(
            tuple(terms),
            tuple(dict.fromkeys(pairs)),
            tuple(verbatim_units(text, strings)),
            frozenset(strings),
            most_function_words(text),
        )


def corpus_weights(question: Question, corpus: Corpus) -> dict[Term, float]:
    """Return the weights of a question's terms."""
    return {term: corpus.weight(term) for term in question.terms}


class Matched(NamedTuple):
    """A chunk's evidence, and the places of the question's terms in its folded text, if read."""

    evidence: Evidence
    places: Places | None = None


NOT_MATCHED = Matched(NO_EVIDENCE)


class Weigher:
    """Rates how well the words of chunks match one question. Each chunk is matched once."""

    def __init__(self, question: Question, corpus: Corpus) -> None:
        self._corpus, self._strings = corpus, question.strings
        self.weights = idf = corpus_weights(question, corpus)
        self._weights = tuple(idf.values())
        self._total = sum(idf[term] * _counted(term, corpus) for term in question.terms)
        self._finder = Finder(question.terms, corpus.forms, corpus.parts)
        number = {term: at for at, term in enumerate(question.terms)}
        self._pairs = [(number[a], number[b]) for a, b in question.pairs]
        self._units: list[tuple[str, float]] = []
        if self._total > 0:
            shares = [(unit, _share(unit, idf) / self._total) for unit in question.units]
            self._units = [(unit, share) for unit, share in shares if share > 0]
        self._crowd, self._crowd_of_token = K1 * (1 - B), K1 * B / corpus.mean_tokens
        self._matches: dict[ChunkText, _Matches] = {}
        self._contexts: dict[FoldedText, Places] = {}
        self._nowhere: Places = (None,) * len(question.terms)

    @property
    def highest_bm25(self) -> float:
        """Return about SQLite's bm25() of a chunk with all words, which is negative."""
        return -(K1 + 1) * self._total or -1.0

    def weigh(self, chunks: Sequence[ChunkText]) -> list[Matched]:
        """Return the evidence of each chunk; pairs count by how many of these chunks have them."""
        if self._total <= 0:
            return [NOT_MATCHED] * len(chunks)
        new = [chunk for chunk in chunks if chunk not in self._matches]
        above = {chunk.above for chunk in new}.difference(self._contexts)
        self._contexts |= self._finder.places_in_each(above)
        self._matches |= {chunk: self._match(chunk) for chunk in new}
        found = [self._matches[chunk] for chunk in chunks]
        having: dict[tuple[int, int], int] = {}
        for matches in found:
            for pair in matches.pairs:
                having[pair] = having.get(pair, 0) + 1
        most = self._corpus.idf(0) * len(self._pairs)
        weight = {pair: self._corpus.idf(count) / most for pair, count in having.items()}
        alone = not self._pairs
        weighed: list[Matched] = []
        for places, bm25, coverage, pairs, unit, string in found:
            # A single term has no neighbour that could be missing.
            near = coverage if alone else sum([weight[pair] for pair in pairs]) if pairs else 0.0
            evidence = _evidence((bm25, coverage, near, unit, string, 0.0))
            weighed.append(_matched((evidence, places)))
        return weighed

    def _match(self, chunk: ChunkText) -> "_Matches":
        """Match a chunk that was not matched yet."""
        places, context = self._finder.places_in(chunk.folded), self._contexts[chunk.above]
        bm25 = coverage = 0.0
        adjacent: Sequence[tuple[int, int]] = ()
        if places or context:
            matched = 0
            crowd = self._crowd + self._crowd_of_token * chunk.tokens
            nowhere = self._nowhere
            places, there = places or nowhere, context or nowhere
            for weight, here, above_it in zip(self._weights, places, there, strict=True):
                if above_it is not None:
                    count = _count(here, above_it)
                elif here is not None:
                    count = here.frequency
                else:
                    continue
                matched += 1
                bm25 += weight * count / (count + crowd)
                coverage += weight if count >= 1.0 else weight * count
            if matched > 1:
                adjacent = self._adjacent(places, chunk.folded)
                if context and (more := self._adjacent(context, chunk.above)):
                    adjacent = [pair for pair in self._pairs if pair in adjacent or pair in more]
        elif not self._units:
            return _NOTHING
        unit, string = self._exactness(chunk) if self._units else (0.0, 0.0)
        total = self._total
        return _matches((places, bm25 / total, coverage / total, adjacent, unit, string))

    def _adjacent(self, places: Places, text: FoldedText) -> list[tuple[int, int]]:
        """Return the pairs that are neighbours in a text."""
        return [
            (a, b)
            for a, b in self._pairs
            if (first := places[a]) is not None
            and (second := places[b]) is not None
            and first.line_bits & second.line_bits
            and _are_near(text.text, first, second)
        ]

    def _exactness(self, chunk: ChunkText) -> tuple[float, float]:
        """Return the exactness of the best unit, and of the best verbatim string."""
        exact = string = 0.0
        for unit, share in self._units:
            level = exactness(unit, chunk.text, chunk.folded.text)
            if level < IN_A_TITLE:
                level = max(level, IN_A_TITLE * exactness(unit, chunk.titles))
            if not level:
                level = IN_THE_PATH * exactness(unit, chunk.context, chunk.above.text)
            exact = max(exact, share * level)
            if unit in self._strings:
                string = max(string, share * level)
        return exact, string


def with_title(matched: Matched) -> Matched:
    """Return the match of a chunk of which the question is the title, which completes it."""
    evidence = matched.evidence._replace(coverage=1.0, adjacency=1.0, verbatim=1.0, title=1.0)
    return Matched(evidence, matched.places)


class _Matches(NamedTuple):
    """Matches in one chunk: positions of the terms, and what does not depend on other chunks.

    `pairs` are the adjacent ones, by the numbers of their terms; `unit` and `string` the exactness.
    """

    places: Places = ()
    bm25: float = 0.0
    coverage: float = 0.0
    pairs: Sequence[tuple[int, int]] = ()
    unit: float = 0.0
    string: float = 0.0


_NOTHING = _Matches()
_evidence = partial(tuple.__new__, Evidence)
_matched = partial(tuple.__new__, Matched)
_matches = partial(tuple.__new__, _Matches)
"""Make these of a tuple, in half the time."""


def _count(text: Occurrences | None, context: Occurrences) -> float:
    """Return how often a term occurs; parts of words count once, and less than a whole word."""
    in_context = CONTEXT_WEIGHT * context.frequency
    if text is None:
        return in_context
    if text.frequency < 1 and context.frequency < 1:
        return max(text.frequency, in_context)
    return text.frequency + in_context


def _are_near(text: str, first: Occurrences, second: Occurrences) -> bool:
    """Return whether one of `first` is shortly before one of `second`, in one line."""
    starts = second.starts
    for begin, end in zip(first.starts, first.ends, strict=True):
        index = bisect_right(starts, begin)
        for start in starts[index : index + 2]:
            if start < end:  # bigrams of one run share a character
                if start - begin <= NEAR_WORDS + 1:
                    return True
            elif start - end <= NEAR_CHARS:
                between = text[end:start]
                if between == " " or ("\n" not in between and _has_few_words(between)):
                    return True
    return False


def _has_few_words(between: str) -> bool:
    parts = between.split()
    if len(parts) <= NEAR_WORDS:
        return True
    words = 0
    for part in parts:
        words += part.isalnum() or any(map(str.isalnum, part))
        if words > NEAR_WORDS:
            return False
    return True


def _counted(term: Term, corpus: Corpus) -> float:
    unseen = corpus.frequency[term] == 0 and is_unspaced(term.text[0])
    return UNSEEN_BIGRAM if unseen else 1.0


def _share(unit: str, idf: dict[Term, float]) -> float:
    # In order: sums of floats depend on it.
    return sum(idf.get(term, 0.0) for term in dict.fromkeys(query_terms(unit)))
