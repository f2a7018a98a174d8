"""SQL of the keyword retriever: BM25 over the FTS5 table, and its statistics."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from memoryd.index.driver import Connection, one_value
from memoryd.search.fts_sizes import read_averages
from memoryd.search.index_answers import answers_of, counts_of, once
from memoryd.search.keyword_bound import SATURATION, best_chunks, idf_of
from memoryd.search.keyword_sql import (
    AND_TRUSTED,
    BEST,
    IN_FILES,
    RANKED,
    Allowed,
    ranked_new,
)
from memoryd.search.phrase_scores import PhraseScores
from memoryd.search.postings import KnownWords, Postings, read_state
from memoryd.search.vocabulary import words_with
from memoryd.search.word_forms import read_forms, read_parts
from memoryd.search.word_index import best_of
from memoryd.text.stem import is_plain, stem
from memoryd.text.tokenize import Term, phrases

ENOUGH_CHUNKS = 24
"""Chunks with a whole word above which nobody looks for words that it begins."""
LEAST_LOOKED_UP, LEAST_ASKED, LOOKED_UP_TERMS = 4, 5, 2
"""Least characters of the beginning of a word, in a look-up of few terms and in a question.

In an English question, shorter ones begin too many words that mean something else."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Number of chunks, their mean length in tokens, and how many have each term of a query.

    `forms` are other forms of a term that the index has, which count as the term. `parts` are words
    that it begins, for terms that few chunks have.
    """

    chunks: int
    mean_tokens: float
    frequency: dict[Term, int]
    forms: Mapping[Term, tuple[str, ...]] = field(default_factory=dict)
    parts: Mapping[Term, tuple[str, ...]] = field(default_factory=dict)

    def idf(self, count: int) -> float:
        """Return the weight of a term that n of N chunks have: ln(1 + (N - n + ½) / (n + ½)).

        Unlike SQLite's it is never 0: a speaker's name in every other line says something. A term
        that no chunk has weighs as much as one that a single chunk has; otherwise it would weigh
        more than all others in a small memory.
        """
        count = max(1, count)
        return math.log(1 + (max(0, self.chunks - count) + 0.5) / (count + 0.5))

    def weight(self, term: Term) -> float:
        """Return the weight of a term of the query; without statistics, all weigh the same."""
        return term.weight * self.idf(self.frequency.get(term, 0))


UNKNOWN = Corpus(0, 1.0, {})


def words_in_memory(
    connection: Connection, postings: Postings, generation: int
) -> KnownWords | PhraseScores | None:
    """Return what is kept in memory about the words of an index, None if nothing is."""
    answers = answers_of(connection)
    chunks, mean = once(answers, read_averages, connection)
    state = once(answers, read_state, connection)
    scores = postings.scores(state, chunks, mean, generation)
    return scores or postings.index(connection, state, chunks, generation)


def read_corpus(
    connection: Connection,
    terms: Sequence[Term],
    language: str = "en",
    words: KnownWords | PhraseScores | None = None,
) -> Corpus:
    """Read the statistics that a query needs; `language` is that of the query.

    `words` is what is kept in memory.
    """
    answers = answers_of(connection)
    chunks, mean = once(answers, read_averages, connection)
    scored = words if isinstance(words, PhraseScores) else None
    look_up = partial(scored.vocabulary.words_with if scored else words_with, connection)
    read = {term: once(answers, read_forms, look_up, term, language) for term in terms}
    forms = {term: found for term, found in read.items() if found}
    looked_for = {term: tuple(phrases(term, found)) for term, found in read.items()}
    if scored and _read_scores(connection, scored, looked_for.values()):
        having = {term: scored.having(connection, every) for term, every in looked_for.items()}
    else:
        _count_words(connection, looked_for.values(), words)
        having = {term: _counted(connection, every) for term, every in looked_for.items()}
    looked_up = len(terms) <= LOOKED_UP_TERMS or language != "en"
    least = LEAST_LOOKED_UP if looked_up else LEAST_ASKED
    parts = {
        term: found
        for term, count in having.items()
        if count < ENOUGH_CHUNKS
        and (found := once(answers, read_parts, look_up, term, read[term], least))
    }
    return Corpus(chunks, mean, having, forms, parts)


def frequency(connection: Connection, phrases: Iterable[str]) -> int:
    """Return the number of chunks that have any of the phrases."""
    found = connection.execute(
        "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", (" OR ".join(phrases),)
    )
    return int(found.fetchone()[0])


def _read_scores(
    connection: Connection, scored: PhraseScores, looked_for: Iterable[tuple[str, ...]]
) -> bool:
    """Read the scores of phrases. Return False if SQLite takes less time for the question."""
    missing = scored.missing(phrase for every in looked_for for phrase in every)
    _count_words(connection, [(phrase,) for phrase in missing], scored)
    counts = counts_of(connection)
    return scored.read(connection, missing, sum(counts.get((each,), 0) for each in missing))


def _count_words(
    connection: Connection,
    looked_for: Iterable[tuple[str, ...]],
    known: KnownWords | PhraseScores | None,
) -> None:
    """Count what `_counted` will be asked for, as far as these are plain words."""
    counts = counts_of(connection)
    words = {
        every: word
        for every in looked_for
        if every not in counts and len(every) == 1 and is_plain(word := every[0].strip('"'))
    }
    if known is not None:
        kept = {every: known.count(connection, word) for every, word in words.items()}
        counts.update({every: count for every, count in kept.items() if count is not None})
        words = {every: word for every, word in words.items() if kept[every] is None}
    if words:
        having = count_plain(connection, words.values())
        counts.update({every: having[word] for every, word in words.items()})


def count_plain(connection: Connection, words: Collection[str]) -> dict[str, int]:
    """Return the number of chunks that have each of these plain words.

    One look-up in the index's own words, which are stems, takes half the time of counting matches.
    """
    stems = {word: stem(word) for word in words}
    found = connection.execute(
        "SELECT term, doc FROM chunks_fts_terms WHERE term IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(list(stems.values())).decode(),),
    )
    having = dict(found.fetchall())
    return {word: having.get(stemmed, 0) for word, stemmed in stems.items()}


def _counted(connection: Connection, phrases: tuple[str, ...]) -> int:
    """Return what `frequency` does, from the counts of this search's version of the index."""
    counts = counts_of(connection)
    if phrases not in counts:
        counts[phrases] = frequency(connection, phrases)
    return counts[phrases]


PART_OF_RANK = 0.4
"""Factor on the rank of a chunk that only has words which a term begins."""
_MANY = 0.2
"""Share of the files from which their chunks are looked for among the ranked ones; with fewer, only
chunks of these files are ranked. A list of the chunks of many files takes 0.1 µs for each."""
_LOOKED_UP = 4
"""Chunks whose files are looked up at once, for each chunk that is wanted."""
_LIKELY = 0.3
"""Share of the files with which so many chunks are likely to have as many as are wanted."""
_MOST_RANKINGS = 8
"""Remembered rankings of all files: a search needs two or three."""


def search(
    connection: Connection,
    corpus: Corpus,
    k: int,
    *,
    file_ids: Collection[int] | None = None,
    trusted: bool = False,
    words: KnownWords | PhraseScores | None = None,
) -> list[tuple[int, float]]:
    """Return the k best (row_id, bm25) with any of the terms, best (most negative) first.

    Behind them follow those that only have words which a term begins, k at most as well.
    With `file_ids`, others than the chunks of these files can't crowd them out, and with these and
    `trusted` no untrusted ones. Without terms, returns nothing. With `words`, ranks in memory.
    """
    if not corpus.frequency:
        return []
    share = 1.0 if file_ids is None else _share_of(connection, file_ids)

    def rank(expression: str) -> list[tuple[int, float]]:
        if file_ids is None:
            return connection.execute(f"{RANKED}{BEST} LIMIT ?", (expression, k)).fetchall()
        if share >= _MANY:
            allowed = Allowed(frozenset(file_ids), trusted)
            return _ranked_in_many(connection, expression, k, share, allowed)
        return connection.execute(
            f"{RANKED}{IN_FILES}{AND_TRUSTED if trusted else ''}{BEST} LIMIT ?",
            (expression, msgspec.json.encode(list(file_ids)).decode(), k),
        ).fetchall()

    allowed = None if file_ids is None else Allowed(frozenset(file_ids), trusted)
    found: list[tuple[int, float]] | None = None
    if isinstance(words, PhraseScores):
        found = _best_of_scored(connection, words, corpus, k, allowed, share)
    if found is None:
        counted = list(_counted_phrases(connection, corpus))
        if isinstance(words, KnownWords):
            found = _best_in_memory(connection, words, counted, corpus, k, allowed, share)
        if found is None:
            found = best_chunks(counted, corpus.chunks, k, rank, share=share)
    best = dict(found)
    if parts := {word for parts in corpus.parts.values() for word in parts}:
        for row, score in rank(" OR ".join(f'"{word}"' for word in sorted(parts))):
            best.setdefault(row, PART_OF_RANK * score)
    return list(best.items())


def _best_of_scored(
    connection: Connection,
    scores: PhraseScores,
    corpus: Corpus,
    k: int,
    allowed: Allowed | None,
    share: float,
) -> list[tuple[int, float]] | None:
    """Return what `best_chunks` does, None if the score of a phrase was not read."""
    looked_for = [
        each for term in corpus.frequency for each in phrases(term, corpus.forms.get(term, ()))
    ]
    if scores.missing(looked_for):
        return None
    if allowed is None:
        return scores.best(connection, looked_for, k)
    if share < _MANY:
        rows = frozenset(allowed.rows(connection).tolist())
        return scores.best(connection, looked_for, k, rows)
    best = partial(scores.best, connection, looked_for)
    return best_of(best, k, partial(allowed.among, connection))


def _best_in_memory(
    connection: Connection,
    known: KnownWords,
    counted: Sequence[tuple[str, int]],
    corpus: Corpus,
    k: int,
    allowed: Allowed | None,
    share: float,
) -> list[tuple[int, float]] | None:
    """Return what `best_chunks` does, None if a phrase is no word of the index.

    SQLite ranks the chunks that are newer than the words in memory, if any may be among the best.
    """
    index, mean = known.index, corpus.mean_tokens
    counted = sorted((each for each in counted if each[1]), key=lambda each: (each[1], each[0]))
    if (words := known.words(connection, counted)) is None:
        return None
    if allowed is None:
        best = index.best(words, mean, k, gone=known.gone)
    elif share < _MANY:
        best = index.best(words, mean, k, index.places_of(allowed.rows(connection))[0])
    else:
        best = best_of(partial(index.best, words, mean), k, partial(allowed.among, connection))
    most: dict[int, float] = {}
    for phrase, count in counted:
        for row in known.new_rows(connection, phrase):
            most[row] = most.get(row, 0.0) + SATURATION * idf_of(count, corpus.chunks)
    least = -best[-1][1] if len(best) == k else 0.0
    if most and max(most.values()) >= least:
        expression = " OR ".join(phrase for phrase, _ in counted)
        best += ranked_new(connection, expression, k, index.last_row, allowed)
        best = sorted(best, key=lambda each: (each[1], each[0]))[:k]
    return best


def _share_of(connection: Connection, file_ids: Collection[int]) -> float:
    """Return about the share of the chunks that are in some files."""
    return len(file_ids) / max(1, once(answers_of(connection), _count_files, connection))


def _count_files(connection: Connection) -> int:
    return int(one_value(connection, "SELECT count(*) FROM files"))


def _ranked_in_many(
    connection: Connection, expression: str, k: int, share: float, allowed: Allowed
) -> list[tuple[int, float]]:
    """Return the best k of some files by looking at the best of all, until there are k."""
    most = _LOOKED_UP * k
    if share >= _LIKELY:
        ranked = _best_of_all(connection, expression, most)
        found = allowed.among(connection, ranked)
        if len(found) >= k or len(ranked) < most:
            return found[:k]
    cursor = connection.execute(f"{RANKED}{BEST}", (expression,))
    found = []
    while len(found) < k and (ranked := cursor.fetchmany(most)):
        found += allowed.among(connection, ranked)
    cursor.close()  # an open one would block checkpoints
    return found[:k]


def _best_of_all(connection: Connection, expression: str, most: int) -> list[tuple[int, float]]:
    """Return the best chunks of all files.

    They are remembered for a moment: a search of notes and transcripts asks once for each.
    """
    last = once(answers_of(connection), _no_ranking_yet, connection)
    if (expression, most) not in last:
        if len(last) >= _MOST_RANKINGS:
            last.clear()
        found = connection.execute(f"{RANKED}{BEST} LIMIT ?", (expression, most)).fetchall()
        last[expression, most] = found
    return last[expression, most]


def _no_ranking_yet(connection: Connection) -> dict[tuple[str, int], list[tuple[int, float]]]:
    return {}


def _counted_phrases(connection: Connection, corpus: Corpus) -> Iterator[tuple[str, int]]:
    """Yield the phrases of a query, each with the number of chunks that have it."""
    for term, count in corpus.frequency.items():
        every = phrases(term, corpus.forms.get(term, ()))
        if len(every) == 1:
            yield every[0], count
        else:
            for phrase in every:
                yield phrase, _counted(connection, (phrase,))
