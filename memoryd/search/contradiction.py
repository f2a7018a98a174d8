"""Two notes that contradict each other: the newer one comes first, at any age. Pure.

Lines are compared, not chunks, because a long note has one line on the subject. Two lines
contradict each other if they make the same statement with another value, whatever the value is; or
if they have different numbers for the same name, which the question names, whatever the wording.
"""

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from memoryd.search.ageing import GIVES_WAY
from memoryd.search.evidence import Question
from memoryd.search.fuse import Candidate, strength_of_score
from memoryd.search.gather import ReadChunk
from memoryd.search.lexical import Corpus
from memoryd.search.text_match import FoldedText
from memoryd.text.fold import SPACED_WORD, fold, has_unspaced
from memoryd.text.language import function_words
from memoryd.text.tokenize import CONTRACTED, Term, query_sequence

SAME_STATEMENT, SAME_LENGTH = 0.65, 0.45
"""Least share of the words of the shorter line, and of the longer one, that both have. Function
words don't count."""
ON_THE_SUBJECT = 0.6
"""Least weight of the question's words in a line, as a share of the line with most of them."""
ANSWERS = 0.35
"""Least weight of the question's words in the older line, as a share of those that any note has."""
SAME_MEANING = 0.2
"""Least share of the older chunk's cosine that a chunk with the name and another number has."""
RARE = 12
"""Most chunks that have a name which stands for one thing."""
LEAST_COVERED = 0.5
"""Least weight of the question's words in a chunk whose lines are read, as a share of `best`."""
FIRST = 6
"""Results that give way: those that are shown by default."""
MOST_NEWER = 16
MOST_LINES = 3
"""Lines of a chunk that are compared, those with most of the question's words."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


@dataclass(slots=True, eq=False)
class Statement:
    """A line of a text, by its number, that is compared with others."""

    text: FoldedText
    number: int
    _numbers: frozenset[str] | None = None
    _words: frozenset[str] | None = None

    @property
    def numbers(self) -> frozenset[str]:
        """Return the numbers in the line."""
        if self._numbers is None:
            self._numbers = frozenset(_NUMBER.findall(self.text.text, *self.text.span(self.number)))
        return self._numbers

    def words(self, language: str) -> frozenset[str]:
        """Return the words of the line without function words."""
        if self._words is None:
            text, number = self.text, self.number
            if text.text.isascii() or not has_unspaced(text.line(number)):
                self._words = _content_words(text.words_of_line(number), language)
            else:
                self._words = _words(text.line(number), language)
        return self._words


Weighed = tuple[float, int, int]
"""The weight of the question's terms in a line, the line's number, and these terms, as bits."""


class _TermWeights(dict[int, float]):
    """The weight of each set of terms, as bits, added up when it is first asked for."""

    def __init__(self, weights: Sequence[float]) -> None:
        super().__init__({0: 0.0} | {1 << number: each for number, each in enumerate(weights)})

    def __missing__(self, terms: int) -> float:
        rest = terms & (terms - 1)
        self[terms] = weight = self[rest] + self[terms ^ rest]
        return weight


class Statements:
    """The lines of candidates that speak of what is asked."""

    def __init__(
        self, question: Question, asked: str, corpus: Corpus, weights: Mapping[Term, float]
    ) -> None:
        of_terms = list(weights.values())
        self._weights, self._total = _TermWeights(of_terms), sum(of_terms)
        known = [weight for term, weight in weights.items() if corpus.frequency.get(term)]
        self._least = ANSWERS * sum(known)
        names = _names(asked)
        self._names = sum(
            1 << number
            for number, term in enumerate(question.terms)
            if term.text in names and 0 < corpus.frequency.get(term, 0) <= RARE
        )
        self._asked = asked
        self._language = question.language
        self._statements: dict[tuple[FoldedText, int], Statement] = {}

    def lines_of(self, chunk: ReadChunk) -> list[Weighed]:
        """Return the lines of a chunk with most of the question's words."""
        weights = self._weights
        weighed = [(weights[asked], line, asked) for line, asked in chunk.terms_of_lines.items()]
        weighed.sort(reverse=True)
        return weighed[:MOST_LINES]

    def that_answer(self, lines: Iterable[Weighed], best: float) -> list[Weighed]:
        """Return the lines that may answer; `best` is the weight of the best line."""
        least = max(self._least, ON_THE_SUBJECT * best)
        return [line for line in lines if line[0] >= least]

    def that_may_differ(self, lines: Iterable[Weighed], best: float) -> list[Weighed]:
        """Return the lines that may have another answer."""
        least, names = ON_THE_SUBJECT * best, self._names
        return [line for line in lines if line[0] >= least or names & line[2]]

    def contradict_any(
        self,
        old: tuple[FoldedText, Iterable[Weighed]],
        new: tuple[FoldedText, Iterable[Weighed]],
        best: float,
        *,
        same_meaning: bool,
    ) -> bool:
        """Return whether a line that answers and some line of another text can't both hold.

        `best` is the weight of the best line; `same_meaning`: the vectors of the chunks are near.
        """
        least = ON_THE_SUBJECT * best
        (old_text, answering), (new_text, others) = old, new
        for _, number, asked in answering:
            named = self._names & asked if same_meaning else 0
            for weight, other, asked_there in others:
                missing = asked & ~asked_there
                # What differs must not be what is asked for.
                may_differ = weight >= least and not missing
                may_be_like = named != 0 and not named & missing
                if (may_differ or may_be_like) and self._contradict(
                    self._statement(old_text, number),
                    self._statement(new_text, other),
                    may_be_like=may_be_like,
                    may_differ=may_differ,
                ):
                    return True
        return False

    def _statement(self, text: FoldedText, number: int) -> Statement:
        """Return a line to compare; few are, and each is read once."""
        if (statement := self._statements.get((text, number))) is None:
            statement = self._statements[text, number] = Statement(text, number)
        return statement

    def _contradict(
        self, old: Statement, new: Statement, *, may_be_like: bool, may_differ: bool
    ) -> bool:
        # Few lines are worded alike, so most need not be searched for numbers.
        language = self._language
        is_other = may_differ and _have_other_value(old.words(language), new.words(language))
        if not (is_other or may_be_like):
            return False
        gone, come = old.numbers, new.numbers
        if own := _numbers(self._asked):
            gone, come = gone - own, come - own
        if gone and gone == come:
            return False
        return is_other or _are_like(gone, come)

    def may_contradict(self, coverage: float, best: float) -> bool:
        """Return whether a chunk may have such a line, by its share of the question's weight."""
        return self._names != 0 or coverage * self._total >= LEAST_COVERED * best


@lru_cache(maxsize=256)
def _numbers(line: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(line))


@lru_cache(maxsize=256)
def _words(line: str, language: str) -> frozenset[str]:
    """Return the words of a line, in scripts without spaces the pairs, without function words."""
    if has_unspaced(line):
        return frozenset(term.text for term in query_sequence(line))
    return _content_words(SPACED_WORD.findall(line), language)


def _content_words(words: Iterable[str], language: str) -> frozenset[str]:
    return frozenset(words) - _empty_words(language)


@lru_cache(maxsize=8)
def _empty_words(language: str) -> frozenset[str]:
    """Return the words of a language without a meaning of their own."""
    return function_words(language) | CONTRACTED


def _have_other_value(gone: Set[str], come: Set[str]) -> bool:
    """Return whether the words of two lines make the same statement with another value."""
    shorter, longer = sorted((len(gone), len(come)))
    least = max(SAME_STATEMENT * shorter, SAME_LENGTH * longer)
    return least < shorter and least <= len(gone & come) < shorter


def disagree(old: str, new: str, language: str) -> bool:
    """Return whether two folded lines make the same statement with another value, unasked.

    Without a question, the first word of the older line must be in both: what a line begins with is
    its subject.
    """
    gone, come = _numbers(old), _numbers(new)
    if gone and gone == come:
        return False
    own, others = _words(old, language), _words(new, language)
    return _first_word(old, language) in others and _have_other_value(own, others)


def agree(old: str, new: str, language: str) -> bool:
    """Return whether a folded line says all that an older one says."""
    gone = _words(old, language)
    return bool(gone) and gone <= _words(new, language)


def _first_word(line: str, language: str) -> str | None:
    if has_unspaced(line):
        return next((term.text for term in query_sequence(line)), None)
    own = _words(line, language)
    return next((word for word in SPACED_WORD.findall(line) if word in own), None)


def _are_like(old: frozenset[str], new: frozenset[str]) -> bool:
    """Return whether two sets have as many different numbers, of about the same lengths."""
    gone, come = sorted(map(len, old - new)), sorted(map(len, new - old))
    if not gone or len(gone) != len(come):
        return False
    return all(abs(a - b) <= 1 for a, b in zip(gone, come, strict=True))


def _names(asked: str) -> frozenset[str]:
    """Return the words of a question that may be names, folded.

    Those with a capital or a digit, and Latin ones among unspaced scripts.
    """
    unspaced = has_unspaced(asked)
    return frozenset(
        fold(word)
        for word in SPACED_WORD.findall(asked)
        if (unspaced or word != word.lower() or (not word.isalpha() and _has_digit(word)))
        and not word.isdigit()
    )


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_near(old: Candidate, new: Candidate) -> bool:
    return (new.cosine or 0.0) >= SAME_MEANING * (old.cosine or 0.0)


def newer_first(
    candidates: list[Candidate],
    chunks: Mapping[int, ReadChunk],
    dates: Mapping[int, datetime.date],
    statements: Statements,
) -> list[Candidate]:
    """Return the candidates with each newer one directly before the older that it contradicts.

    It gets the older one's score if that is higher: it answers the same question. Candidates
    without a date in `dates` stay.
    """
    older = [c for c in candidates[:FIRST] if c.row_id in dates]
    later = [c for c in candidates if c.row_id in dates and c.evidence.coverage > 0][:MOST_NEWER]
    if not older or len(later) < 2:
        return candidates
    lines = {c.row_id: statements.lines_of(chunks[c.row_id]) for c in older}
    best = max((of_row[0][0] for of_row in lines.values() if of_row), default=0.0)
    answering = {row: statements.that_answer(of_row, best) for row, of_row in lines.items()}
    older = [c for c in older if answering[c.row_id]]
    if not older:
        return candidates
    earliest = min(dates[c.row_id] for c in older)
    rivals = {
        c.row_id: statements.that_may_differ(
            lines.get(c.row_id) or statements.lines_of(chunks[c.row_id]), best
        )
        for c in later
        if dates[c.row_id] > earliest and statements.may_contradict(c.evidence.coverage, best)
    }
    later = [c for c in later if rivals.get(c.row_id)]
    if not later:
        return candidates
    texts = {row: chunk.stored.folded for row, chunk in chunks.items()}
    scores = {c.row_id: c.score for c in candidates}
    gave_way = False
    # Oldest first, so that each of three gives way to the one after it.
    for old in sorted(older, key=lambda c: dates[c.row_id]):
        date, own = dates[old.row_id], (texts[old.row_id], answering[old.row_id])
        newer = [
            c
            for c in later
            if dates[c.row_id] > date
            and statements.contradict_any(
                own, (texts[c.row_id], rivals[c.row_id]), best, same_meaning=_is_near(old, c)
            )
        ]
        if not newer:
            continue
        gave_way = True
        newer.sort(key=lambda c: dates[c.row_id], reverse=True)
        score = scores[old.row_id]
        for rank, candidate in enumerate(newer):
            least = score * (1 - GIVES_WAY) ** rank
            scores[candidate.row_id] = max(scores[candidate.row_id], least)
        lowest = min(scores[c.row_id] for c in newer)
        scores[old.row_id] = min(score, lowest * (1 - GIVES_WAY))
    if not gave_way:
        return candidates
    changed = [_with_score(c, scores[c.row_id]) for c in candidates]
    changed.sort(key=lambda c: -c.score)
    return changed


def _with_score(candidate: Candidate, score: float) -> Candidate:
    if score >= candidate.score:
        return candidate._replace(score=score, unaged_score=max(candidate.unaged_score, score))
    decay = candidate.decay * strength_of_score(score) / strength_of_score(candidate.score)
    return candidate._replace(score=score, decay=decay)
