"""How much a chunk's words say that it answers a question: four figures from 0 to about 1. Pure.

All are shares of what the question weighs, with what nobody has counted too: so they mean the same
from question to question, and a question about nothing in the memory gets little of any.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from memoryd.search.lexical import Corpus
from memoryd.search.text_match import (
    IN_THE_PATH,
    Finder,
    TermPosition,
    exactness,
    fold,
    verbatim_strings,
    verbatim_units,
)
from memoryd.text.tokenize import Term, is_unspaced, query_sequence, query_terms

K1, B = 1.2, 0.75
"""Of BM25, as usual."""
CONTEXT_WEIGHT = 1.0
"""Of a word in the path or the headings, against one in the text."""
UNSEEN_BIGRAM = 0.5
"""Share of its weight that a bigram counts which no chunk has: half of them span two words."""
NEAR_WORDS = 1
NEAR_CHARS = 40
"""Two words are neighbours with so much between them at most, in one line."""


class ChunkText(NamedTuple):
    """A candidate's words: its text, its path and headings, and its length in tokens."""

    text: str
    context: str
    tokens: int


class Evidence(NamedTuple):
    """What the words of one chunk say.

    `bm25` is BM25 as a share of the most there could be; `coverage` the weight of the question's
    terms that stand in it; `adjacency` the share of neighbours in the question that are neighbours
    in it; `verbatim` how exactly it has what the question means to the letter, or all of a short
    question; `string` the first of these alone.
    """

    bm25: float
    coverage: float
    adjacency: float
    verbatim: float
    string: float = 0.0


NO_EVIDENCE = Evidence(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, taken apart.

    `pairs` are terms that follow each other in it, `units` what it may mean to the letter,
    `strings` those of them that it surely does.
    """

    terms: tuple[Term, ...]
    pairs: tuple[tuple[Term, Term], ...]
    units: tuple[str, ...]
    strings: frozenset[str]

    @classmethod
    def read(cls, text: str) -> "Question":
        """Take a question apart."""
        sequence = query_sequence(text)
        terms = query_terms(text)
        known = set(terms)
        pairs = [(a, b) for a, b in pairwise(sequence) if a != b and known >= {a, b}]
        return cls(
            tuple(terms),
            tuple(dict.fromkeys(pairs)),
            tuple(verbatim_units(text)),
            frozenset(verbatim_strings(text)),
        )


def weigh(question: Question, corpus: Corpus, chunks: Sequence[ChunkText]) -> list[Evidence]:
    """Return what the words of each chunk say."""
    idf = {term: corpus.weight(term) for term in question.terms}
    total = sum(idf[term] * _counted(term, corpus) for term in question.terms)
    if total <= 0:
        return [NO_EVIDENCE] * len(chunks)
    finder = Finder(question.terms)
    units = [(unit, share) for unit in question.units if (share := _share(unit, idf) / total) > 0]
    found = [_look(question, finder, units, chunk) for chunk in chunks]
    having = Counter(pair for look in found for pair in look.pairs)
    pair_weight = {pair: corpus.idf(count) / corpus.idf(0) for pair, count in having.items()}
    evidence: list[Evidence] = []
    for look, chunk in zip(found, chunks, strict=True):
        crowd = K1 * (1 - B + B * chunk.tokens / corpus.mean_tokens)
        weights = list(zip(question.terms, look.counts, strict=True))
        bm25 = sum(idf[term] * count / (count + crowd) for term, count in weights)
        coverage = sum(idf[term] for term, count in weights if count)
        pairs = len(question.pairs)
        # One word has no neighbour that could be missing.
        near = sum(pair_weight[pair] for pair in look.pairs) / pairs if pairs else coverage / total
        evidence.append(Evidence(bm25 / total, coverage / total, near, look.unit, look.string))
    return evidence


class _Look(NamedTuple):
    """What stands in one chunk: how often each term, which pairs, and how exactly the units."""

    counts: list[float]
    pairs: list[tuple[Term, Term]]
    unit: float
    string: float


def _look(
    question: Question, finder: Finder, units: list[tuple[str, float]], chunk: ChunkText
) -> _Look:
    text = fold(chunk.text)
    places = finder.places(text)
    context = finder.places(fold(chunk.context))
    counts = [
        len(here) + CONTEXT_WEIGHT * len(there) for here, there in zip(places, context, strict=True)
    ]
    by_term = dict(zip(question.terms, places, strict=True))
    pairs = [(a, b) for a, b in question.pairs if _are_near(text, by_term[a], by_term[b])]
    exact = string = 0.0
    for unit, share in units:
        level = exactness(unit, chunk.text)
        level = share * (level or IN_THE_PATH * exactness(unit, chunk.context))
        exact = max(exact, level)
        if unit in question.strings:
            string = max(string, level)
    return _Look(counts, pairs, exact, string)


def _are_near(text: str, first: list[TermPosition], second: list[TermPosition]) -> bool:
    """Say whether the one stands shortly before the other, in one line."""
    starts = [place.start for place in second]
    for place in first:
        index = bisect_right(starts, place.start)
        for start in starts[index : index + 2]:
            if start < place.end:  # bigrams of one run share a character
                if start - place.start <= NEAR_WORDS + 1:
                    return True
                continue
            between = text[place.end : start]
            if len(between) <= NEAR_CHARS and "\n" not in between:
                words = sum(any(map(str.isalnum, part)) for part in between.split())
                if words <= NEAR_WORDS:
                    return True
    return False


def _counted(term: Term, corpus: Corpus) -> float:
    unseen = corpus.frequency[term] == 0 and is_unspaced(term.text[0])
    return UNSEEN_BIGRAM if unseen else 1.0


def _share(unit: str, idf: dict[Term, float]) -> float:
    return sum(idf.get(term, 0.0) for term in set(query_terms(unit)))
