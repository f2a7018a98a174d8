"""Ranking only the chunks with a rare term gives the same result as ranking all."""

import random
import sqlite3

from memoryd.search import lexical
from memoryd.search.lexical import read_corpus
from memoryd.text.tokenize import FTS5_TOKENIZE, match_expression, query_terms


def test_ranking_the_rare_is_ranking_all() -> None:
    draw = random.Random(5)
    words = [f"w{n}" for n in range(400)]
    weights = [1 / (n + 1) for n in range(400)]
    connection = sqlite3.connect(":memory:")
    connection.execute(
        f'CREATE VIRTUAL TABLE chunks_fts USING fts5(body, context, tokenize = "{FTS5_TOKENIZE}")'
    )
    connection.execute("CREATE VIRTUAL TABLE chunks_fts_terms USING fts5vocab(chunks_fts, row)")
    connection.executemany(
        "INSERT INTO chunks_fts (rowid, body, context) VALUES (?, ?, ?)",
        (
            (row * 3, " ".join(draw.choices(words, weights, k=40)), draw.choice(words))
            for row in range(1, 1500)
        ),
    )
    pruned = 0
    for _ in range(600):
        terms = query_terms(" ".join(draw.choices(words, k=draw.randint(1, 5))))
        corpus = read_corpus(connection, terms)
        pruned += lexical._with_rare_terms(connection, corpus, 10) is not None
        found = lexical.search(connection, corpus, 10)
        everything = connection.execute(
            f"{lexical._RANKED} ORDER BY rank LIMIT 10", (match_expression(terms),)
        ).fetchall()
        assert [round(s, 9) for _, s in found] == [round(s, 9) for _, s in everything]
    assert pruned > 20
