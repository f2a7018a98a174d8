"""Ranking only the chunks that may be among the best gives the same result as ranking all."""

import random
import sqlite3

import pytest

from memoryd.search import lexical
from memoryd.search.keyword_bound import best_chunks
from memoryd.search.lexical import read_corpus
from memoryd.text.tokenize import FTS5_TOKENIZE, phrases, query_terms

K = 10


@pytest.fixture(scope="module")
def connection() -> sqlite3.Connection:
    draw = random.Random(5)
    words = [f"w{n}" for n in range(400)]
    weights = [1 / (n + 1) for n in range(400)]
    made = sqlite3.connect(":memory:")
    made.execute(
        f'CREATE VIRTUAL TABLE chunks_fts USING fts5(body, context, tokenize = "{FTS5_TOKENIZE}")'
    )
    made.execute("CREATE VIRTUAL TABLE chunks_fts_terms USING fts5vocab(chunks_fts, row)")
    made.execute("CREATE TABLE chunks (row_id INTEGER PRIMARY KEY, file_id, origin)")
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


def everything(connection: sqlite3.Connection, expression: str, where: str) -> list[float]:
    found = connection.execute(
        "SELECT bm25(chunks_fts, 1.0, 0.5) FROM chunks_fts"
        f" JOIN chunks ON row_id = chunks_fts.rowid WHERE chunks_fts MATCH ?"
        f" AND {where} ORDER BY 1 LIMIT ?",
        (expression, K),
    )
    return [round(score, 9) for (score,) in found]


@pytest.mark.parametrize(
    ("file_ids", "trusted", "where"),
    [
        (None, False, "true"),
        (range(0, 30, 6), False, "+file_id % 6 = 0"),
        (range(0, 30, 6), True, "+file_id % 6 = 0 AND origin = 'owner'"),
        ([3], False, "+file_id = 3"),
        ([3], True, "+file_id = 3 AND origin = 'owner'"),
    ],
    ids=["all", "many files", "trusted in many", "one file", "trusted in one"],
)
def test_ranking_a_few_is_ranking_all(
    connection: sqlite3.Connection,
    file_ids: "range | list[int] | None",
    trusted: bool,
    where: str,
) -> None:
    draw = random.Random(7)
    for _ in range(150):
        words = [f"w{int(400 ** draw.random())}" for _ in range(draw.randint(1, 7))]
        terms = query_terms(" ".join(words))
        corpus = read_corpus(connection, terms)
        found = lexical.search(connection, corpus, K, file_ids=file_ids, trusted=trusted)
        expression = " OR ".join(phrase for term in terms for phrase in phrases(term))
        expected = everything(connection, expression, where)
        assert [round(score, 9) for _, score in found][: len(expected)] == expected


def test_few_of_the_matching_chunks_are_ranked(connection: sqlite3.Connection) -> None:
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
