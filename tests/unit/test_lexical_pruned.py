"""Ranking only the chunks that may be among the best gives the same result as ranking all.

The same holds for ranking in memory.
"""

import asyncio
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from memoryd.index.driver import Connection, sqlite
from memoryd.index.readers import ReaderPool
from memoryd.index.words import REPLACED
from memoryd.search import lexical, phrase_scores, postings, word_index
from memoryd.search.gather import exact_rows
from memoryd.search.keyword_bound import best_chunks
from memoryd.search.keyword_sql import BEST, RANKED
from memoryd.search.lexical import frequency, read_corpus
from memoryd.search.phrase_scores import PhraseScores
from memoryd.search.postings import KnownWords, Postings
from memoryd.text.tokenize import FTS5_TOKENIZE, phrases, query_terms

K = 10


T = TypeVar("T")
FEW = "+file_id % 6 = 0"


@pytest.fixture(scope="module")
def connection() -> Connection:
    return index_of_words()


def index_of_words() -> Connection:
    draw = random.Random(5)
    words = [f"w{n}" for n in range(400)]
    weights = [1 / (n + 1) for n in range(400)]
    made: Connection = sqlite.connect(":memory:", isolation_level=None)
    made.execute(
        f'CREATE VIRTUAL TABLE chunks_fts USING fts5(body, context, tokenize = "{FTS5_TOKENIZE}")'
    )
    made.execute("CREATE VIRTUAL TABLE chunks_fts_terms USING fts5vocab(chunks_fts, row)")
    made.execute("CREATE TABLE chunks (row_id INTEGER PRIMARY KEY, file_id, origin)")
    made.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value)")
    made.execute("CREATE TABLE files (file_id INTEGER PRIMARY KEY)")
    for row in range(3, 4500, 3):
        body = " ".join(draw.choices(words, weights, k=draw.randint(3, 60)))
        made.execute(
            "INSERT INTO chunks_fts (rowid, body, context) VALUES (?, ?, ?)",
            (row, body, draw.choice(words)),
        )
        origin = "untrusted" if row % 4 == 0 else "owner"
        made.execute("INSERT INTO chunks VALUES (?, ?, ?)", (row, row % 30, origin))
    made.execute("INSERT INTO files SELECT DISTINCT file_id FROM chunks")
    return made


def everything(connection: Connection, expression: str, where: str) -> list[float]:
    found = connection.execute(
        "SELECT bm25(chunks_fts, 1.0, 0.5) FROM chunks_fts"
        f" JOIN chunks ON row_id = chunks_fts.rowid WHERE chunks_fts MATCH ?"
        f" AND {where} ORDER BY 1 LIMIT ?",
        (expression, K),
    )
    return [round(score, 9) for (score,) in found]


def ask(
    connection: Connection,
    draw: random.Random,
    kept: Postings | None,
    *,
    file_ids: "range | list[int] | None" = None,
    trusted: bool = False,
    where: str = "true",
) -> bool:
    """Compare one question with ranking everything. Return whether it was answered in memory."""
    words = [f"w{int(400 ** draw.random())}" for _ in range(draw.randint(1, 7))]
    terms = query_terms(" ".join(words))
    known = None if kept is None else lexical.words_in_memory(connection, kept, 0)
    corpus = read_corpus(connection, terms, words=known)
    found = lexical.search(connection, corpus, K, file_ids=file_ids, trusted=trusted, words=known)
    expression = " OR ".join(phrase for term in terms for phrase in phrases(term))
    expected = everything(connection, expression, where)
    assert [round(score, 9) for _, score in found][: len(expected)] == expected
    counted = lexical._counted_phrases(connection, corpus)
    if isinstance(known, PhraseScores):
        return not known.missing(phrase for term in terms for phrase in phrases(term))
    return known is not None and known.words(connection, counted) is not None


def load(kept: Postings, connection: Connection, *, closed: bool = False) -> None:
    """Read the common words as an engine does in the background."""

    class Readers(ReaderPool):
        is_open = not closed

        async def read(self, function: Callable[[Connection], T]) -> T:
            return function(connection)

    async def run() -> None:
        kept.load(Readers(Path("unused"), extension=None))
        await kept.loaded()

    asyncio.run(run())


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Postings:
    """Keep the words of small indexes too, also those that most chunks have."""
    monkeypatch.setattr(postings, "MOST_CHUNKS", 99)
    monkeypatch.setattr(postings, "LEAST_CHUNKS", 100)
    monkeypatch.setattr(word_index, "_STOP_SHARE", 1.0)
    return Postings()


@pytest.mark.parametrize("kind", ["SQLite", "words in memory", "scores of phrases"])
@pytest.mark.parametrize(
    ("file_ids", "trusted", "where"),
    [
        (None, False, "true"),
        (range(0, 30, 6), False, FEW),
        (range(0, 30, 6), True, f"{FEW} AND origin = 'owner'"),
        ([3], False, "+file_id = 3"),
        ([3], True, "+file_id = 3 AND origin = 'owner'"),
        (range(0, 30, 2), True, "+file_id % 2 = 0 AND origin = 'owner'"),
    ],
    ids=["all", "many files", "trusted in many", "one file", "trusted in one", "half"],
)
def test_ranking_a_few_is_ranking_all(
    connection: Connection,
    kept: Postings,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    file_ids: "range | list[int] | None",
    trusted: bool,
    where: str,
) -> None:
    draw = random.Random(7)
    if kind == "scores of phrases":
        monkeypatch.setattr(postings, "MOST_CHUNKS", 2_000)
    elif kind == "words in memory":
        ask(connection, draw, kept)
        load(kept, connection)
    in_memory = set[bool]()
    for _ in range(75):
        of_all = None if kind == "SQLite" else kept
        in_memory.add(
            ask(connection, draw, of_all, file_ids=file_ids, trusted=trusted, where=where)
        )
    # Scores of common words are read after some questions.
    assert (
        in_memory
        == {
            "SQLite": {False},
            "words in memory": {True},
            "scores of phrases": {False, True},
        }[kind]
    )


def test_words_in_memory_outlast_new_and_deleted_chunks(kept: Postings) -> None:
    connection, draw = index_of_words(), random.Random(8)
    ask(connection, draw, kept)
    load(kept, connection)
    for row in range(4501, 4700, 3):
        body = " ".join(f"w{int(400 ** draw.random())}" for _ in range(20))
        connection.execute(
            "INSERT INTO chunks_fts (rowid, body, context) VALUES (?, ?, 'w1')", (row, body)
        )
        connection.execute("INSERT INTO chunks VALUES (?, ?, 'owner')", (row, row % 30))
        for table in ("chunks_fts WHERE rowid", "chunks WHERE row_id"):
            connection.execute(f"DELETE FROM {table} = ?", (row - 4200,))
    for _ in range(30):
        assert ask(connection, draw, kept)
        assert ask(connection, draw, kept, file_ids=range(0, 30, 6), where=FEW)
        assert ask(connection, draw, kept, file_ids=[4], trusted=True, where="+file_id = 4")


def test_no_words_are_read_from_a_closed_index(connection: Connection, kept: Postings) -> None:
    draw = random.Random(7)
    ask(connection, draw, kept)
    load(kept, connection, closed=True)
    assert not all(ask(connection, draw, kept) for _ in range(10))
    load(kept, connection)
    assert all(ask(connection, draw, kept) for _ in range(10))


def test_sqlite_ranks_chunks_that_got_other_words(
    kept: Postings, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, draw = index_of_words(), random.Random(9)
    ask(connection, draw, kept)
    load(kept, connection)
    connection.execute("UPDATE chunks_fts SET body = 'w1 w2 w3', context = '' WHERE rowid < 2000")
    connection.execute("INSERT INTO meta VALUES (?, '1')", (REPLACED,))
    for _ in range(20):
        assert not ask(connection, draw, kept)
    monkeypatch.setattr(postings, "_PAUSE_S_PER_CHUNK", 0.0)
    ask(connection, draw, kept)
    load(kept, connection)
    for _ in range(20):
        assert ask(connection, draw, kept)


def test_few_of_the_matching_chunks_are_ranked(connection: Connection) -> None:
    terms = query_terms("w1 w2 w3 w300")
    corpus = read_corpus(connection, terms)
    counted = [(phrases(term)[0], count) for term, count in corpus.frequency.items()]
    ranked: list[int] = []

    def rank(expression: str) -> list[tuple[int, float]]:
        found = connection.execute(
            "SELECT rowid, bm25(chunks_fts, 1.0, 0.5) FROM chunks_fts WHERE chunks_fts MATCH ?",
            (expression,),
        ).fetchall()
        ranked.append(len(found))
        return sorted(found, key=lambda each: each[1])[:K]

    best = best_chunks(counted, corpus.chunks, K, rank)
    every = " OR ".join(text for text, _ in counted)
    assert [round(score, 9) for _, score in best] == everything(connection, every, "true")
    assert (
        3 * sum(ranked)
        < connection.execute(
            "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", (every,)
        ).fetchone()[0]
    )


def test_words_in_memory_rule_out_chunks_with_all_words(
    connection: Connection, kept: Postings
) -> None:
    ask(connection, random.Random(7), kept)
    load(kept, connection)
    words = [f"w{n}" for n in (2, 7, 60, 150, 250, 390)]
    for pair in itertools.combinations(words, 2):
        known = lexical.words_in_memory(connection, kept, 0)
        assert isinstance(known, KnownWords)
        read_corpus(connection, query_terms(" ".join(pair)), words=known)
        together = " AND ".join(pair)
        assert known.rule_out(connection, [*pair, "Zoë"]) == (
            frequency(connection, [together]) == 0
        )
        assert not known.rule_out(connection, [pair[0]])
        if known.rule_out(connection, pair):
            assert exact_rows(connection, [" ".join(pair)], None, trusted=False, known=known) == []


def scores_of(connection: Connection, kept: Postings) -> PhraseScores:
    known = lexical.words_in_memory(connection, kept, 0)
    assert isinstance(known, PhraseScores)
    return known


def test_scores_of_phrases_add_up_to_those_of_sqlite(
    kept: Postings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MOST_CHUNKS", 2_000)
    monkeypatch.setattr(phrase_scores, "_MOST_BYTES", 30_000)  # some are read again
    connection, draw = index_of_words(), random.Random(10)
    first = scores_of(connection, kept)
    for _ in range(50):
        terms = query_terms(" ".join(f"w{int(400 ** draw.random())}" for _ in range(5)))
        every = [phrase for term in terms for phrase in phrases(term)]
        every.sort(key=lambda phrase: (frequency(connection, [phrase]), phrase))
        expected = connection.execute(f"{RANKED}{BEST} LIMIT ?", (" OR ".join(every), K)).fetchall()
        assert scores_of(connection, kept).best(connection, every, K) == expected
        assert first.having(connection, every) == frequency(connection, every)
    assert scores_of(connection, kept) is first
    assert not first.rule_out(connection, ["w1", "w2", "Zoë"])
    connection.execute("UPDATE chunks_fts SET body = 'w1', context = '' WHERE rowid < 2000")
    connection.execute("INSERT INTO meta VALUES (?, '1')", (REPLACED,))
    connection.execute("UPDATE chunks_fts SET body = 'w2', context = '' WHERE rowid >= 2000")
    changed = scores_of(connection, kept)
    assert changed is not first
    assert changed.having(connection, ['"w2"']) == frequency(connection, ['"w2"'])
    assert not changed.rule_out(connection, ["W1", "W2"])  # w1 was not looked for
    assert changed.having(connection, ['"w1"']) == changed.count(connection, "w1")
    assert changed.rule_out(connection, ["W1", "W2"])
    connection.execute("DELETE FROM chunks_fts WHERE rowid = 3")
    assert scores_of(connection, kept) is not changed


def test_scores_of_common_words_are_read_after_some_questions(
    kept: Postings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MOST_CHUNKS", 2_000)
    connection, terms = index_of_words(), query_terms("w1 w300")
    counts = {term: frequency(connection, phrases(term)) for term in terms}
    known = scores_of(connection, kept)
    waited = 0
    while known.missing(phrase for term in terms for phrase in phrases(term)):
        assert read_corpus(connection, terms, words=known).frequency == counts
        waited += 1
    assert waited == -(-sum(counts.values()) // 200)
    assert read_corpus(connection, terms, words=known).frequency == counts
