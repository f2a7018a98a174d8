"""Evidence that a chunk answers a query, from its words: four figures from 0 to about 1. Pure.

All are shares of the query's weight, including terms that no chunk contains. So they mean the same
for every query, and a query about nothing in memory gets low figures.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from memoryd.search.lexical import Corpus
from memoryd.search.text_match import Finder, FoldedText, TermPosition, read_folded
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
_FAR = sys.maxsize


class ChunkText(NamedTuple):
    """Text of a candidate, its path and headings (`context`), and its length in tokens.

    `folded` and `above` are the text and the context, folded. `titles` are the path, the names and
    the titles of its file, one a line. `opens`: it is the first chunk of a file that the question
    names.
    """

    text: str
    context: str
    tokens: int
    folded: FoldedText
    above: FoldedText
    titles: str = ""
    opens: bool = False

    @classmethod
    def of(cls, text: str, context: str, tokens: int) -> "ChunkText":
        """Return a candidate without titles."""
        return cls(text, context, tokens, read_folded(text), read_folded(context))


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
        pairs = [(a, b) for a, b in pairwise(sequence) if a != b and known >= {a, b}]
        return cls(
            tuple(terms),
            tuple(dict.fromkeys(pairs)),
            tuple(verbatim_units(text)),
            frozenset(verbatim_strings(text)),
            most_function_words(text),
        )


class Matched(NamedTuple):
    """A chunk's evidence, and the positions of the question's terms in its folded text."""

    evidence: Evidence
    places: Sequence[Sequence[TermPosition]] = ()


def weigh(question: Question, corpus: Corpus, chunks: Sequence[ChunkText]) -> list[Matched]:
    """Return the evidence of each chunk."""
    idf = {term: corpus.weight(term) for term in question.terms}
    total = sum(idf[term] * _counted(term, corpus) for term in question.terms)
    if total <= 0:
        return [
            Matched(_with_title(NO_EVIDENCE) if chunk.opens else NO_EVIDENCE) for chunk in chunks
        ]
    finder = Finder(question.terms, corpus.forms, corpus.parts)
    units = [(unit, share) for unit in question.units if (share := _share(unit, idf) / total) > 0]
    number = {term: at for at, term in enumerate(question.terms)}
    pairs = [(number[a], number[b]) for a, b in question.pairs]
    contexts = list({id(chunk.above): chunk.above for chunk in chunks}.values())
    above = dict(zip(map(id, contexts), finder.places_in(contexts), strict=True))
    texts = finder.places_in([chunk.folded for chunk in chunks])
    found = [
        _match(question, pairs, units, chunk, places, above[id(chunk.above)])
        for chunk, places in zip(chunks, texts, strict=True)
    ]
    having = Counter(pair for matches in found for pair in matches.pairs)
    pair_weight = {pair: corpus.idf(count) / corpus.idf(0) for pair, count in having.items()}
    weights = list(idf.values())
    weighed: list[Matched] = []
    for matches, chunk, of_terms in zip(found, chunks, texts, strict=True):
        crowd = K1 * (1 - B + B * chunk.tokens / corpus.mean_tokens)
        bm25 = coverage = near = 0.0
        for term, count in matches.counts:
            weight = weights[term]
            bm25 += weight * count / (count + crowd)
            coverage += weight if count >= 1.0 else weight * count
        if not pairs:  # a single term has no neighbour that could be missing
            near = coverage / total
        elif matches.pairs:
            near = sum(pair_weight[pair] for pair in matches.pairs) / len(pairs)
        evidence = Evidence(bm25 / total, coverage / total, near, matches.unit, matches.string)
        if chunk.opens:
            evidence = _with_title(evidence)
        weighed.append(Matched(evidence, of_terms))
    return weighed


def _with_title(evidence: Evidence) -> Evidence:
    """Return the evidence of a chunk of which the question is the title, which completes it."""
    return evidence._replace(coverage=1.0, adjacency=1.0, verbatim=1.0, title=1.0)


class _Matches(NamedTuple):
    """Matches in one chunk: adjacent pairs, exactness of units and strings, counts of the terms.

    Terms, and those of pairs, are given by their numbers.
    """

    counts: list[tuple[int, float]]
    pairs: Sequence[tuple[int, int]]
    unit: float = 0.0
    string: float = 0.0


_NOTHING = _Matches([], ())


def _match(
    question: Question,
    pairs: Sequence[tuple[int, int]],
    units: list[tuple[str, float]],
    chunk: ChunkText,
    places: list[list[TermPosition]],
    context: list[list[TermPosition]],
) -> _Matches:
    text, around = chunk.folded.text, chunk.above.text
    if any(context):
        counts = [
            (number, _count(here, there))
            for number, (here, there) in enumerate(zip(places, context, strict=True))
            if here or there
        ]
    else:
        counts = [(number, _occurrences(here)) for number, here in enumerate(places) if here]
    adjacent: Sequence[tuple[int, int]] = ()
    if len(counts) > 1:
        adjacent = [
            (a, b)
            for a, b in pairs
            if (places[a] and places[b] and _are_near(text, places[a], places[b]))
            or (context[a] and context[b] and _are_near(around, context[a], context[b]))
        ]
    if not units:
        return _Matches(counts, adjacent) if counts else _NOTHING
    exact = string = 0.0
    for unit, share in units:
        level = exactness(unit, chunk.text, text)
        if level < IN_A_TITLE:
            level = max(level, IN_A_TITLE * exactness(unit, chunk.titles))
        level = share * (level or IN_THE_PATH * exactness(unit, chunk.context, around))

        exact = max(exact, level)
        if unit in question.strings:
            string = max(string, level)
    return _Matches(counts, adjacent, exact, string)


def _count(text: list[TermPosition], context: list[TermPosition]) -> float:
    """Return how often a term occurs; parts of words count once, and less than a whole word."""
    if not context:
        return _occurrences(text)
    in_context = CONTEXT_WEIGHT * _occurrences(context)
    if not text:
        return in_context
    both = _occurrences(text), in_context
    return max(both) if text[0].share < 1 and context[0].share < 1 else sum(both)


def _occurrences(places: list[TermPosition]) -> float:
    share = places[0].share
    return len(places) if share == 1.0 else share


def _are_near(text: str, first: list[TermPosition], second: list[TermPosition]) -> bool:
    """Return whether one of `first` is shortly before one of `second`, in one line."""
    for place in first:
        index = bisect_right(second, (place.start, _FAR))
        for start, *_ in second[index : index + 2]:
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
