"""Two notes that contradict each other: the newer one first, at any age."""

import datetime

import pytest

from memoryd.search.chunk_cache import ChunkFacts, StoredFile, stored_chunk
from memoryd.search.contradiction import Statements, newer_first
from memoryd.search.evidence import ChunkText, Evidence, Question, Weigher, corpus_weights
from memoryd.search.fuse import Candidate
from memoryd.search.gather import ReadChunk
from memoryd.search.lexical import Corpus

OLD, NEW = datetime.date(2025, 1, 5), datetime.date(2025, 9, 1)
FOUND = Evidence(0.5, 1.0, 0.5, 0.0)


def chunks(question: Question, corpus: Corpus, texts: dict[int, str]) -> dict[int, ReadChunk]:
    matched = Weigher(question, corpus).weigh(
        [ChunkText.of(text, "", 9) for text in texts.values()]
    )
    file = StoredFile.of("memory", "notes.md", "", "", None, "{}")
    facts = ChunkFacts("", 1, "", "owner", 1, 2, "", "")
    return {
        row: ReadChunk(stored_chunk(facts, file, text), each.evidence, each.places)
        for (row, text), each in zip(texts.items(), matched, strict=True)
    }


def statements_of(question: Question, asked: str, corpus: Corpus) -> Statements:
    return Statements(question, asked, corpus, corpus_weights(question, corpus))


def first(asked: str, old: str, new: str, *, cosine: float = 0.3) -> str:
    """Return which of two old notes comes first: the older one has the higher score."""
    question = Question.read(asked)
    corpus = Corpus(100, 50.0, dict.fromkeys(question.terms, 2))
    candidates = [
        Candidate(row, score, score, score, 1.0, unaged_score=score, cosine=near, evidence=FOUND)
        for row, score, near in ((1, 0.8, 0.3), (2, 0.6, cosine))
    ]
    texts = {1: f"# Notes\n{old}\nNothing else.", 2: f"Other things.\n{new}"}
    statements = statements_of(question, asked, corpus)
    found = newer_first(candidates, chunks(question, corpus, texts), {1: OLD, 2: NEW}, statements)
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    return "old" if found[0].row_id == 1 else "new"


@pytest.mark.parametrize(
    ("asked", "old", "new"),
    [
        ("which port does Gorum use", "Gorum uses port 8080.", "Gorum uses port 9090."),
        ("where is the spare key", "The spare key is at Ana's.", "The spare key is at Ravi's."),
        ("Wo sitzt Jonas?", "- Jonas sitzt an Tisch 12.", "- Jonas sitzt an Tisch 31."),
        ("¿cuánto cuesta el abono?", "El abono cuesta 20 euros.", "El abono cuesta 25 euros."),
        ("Сколько стоит подписка", "Подписка стоит 200 рублей.", "Подписка стоит 300 рублей."),
        ("健身房几点开门", "健身房早上七点开门。", "健身房早上九点开门。"),
        ("会議室はどこですか", "会議室は三階にあります。", "会議室は五階にあります。"),
        ("which port does Gorum use", "Gorum uses port 8080.", "We moved Gorum: now on 9090."),
        ("Gorum 监听哪个端口", "Gorum 监听端口 8080。", "Gorum 搬家了，现在用 9090 应答。"),
    ],
)
def test_the_same_statement_with_another_value_gives_way(asked: str, old: str, new: str) -> None:
    assert first(asked, old, new) == "new"


@pytest.mark.parametrize(
    ("asked", "old", "new"),
    [
        # what differs is what is asked for
        ("what was training 784 about", "Training 784 was about sails.", "Training 785: sails."),
        ("port of db-03.fra", "Port of db-03.fra is 8080.", "Port of db-30.fra is 9090."),
        # the same value
        ("which port does Gorum use", "Gorum uses port 8080.", "Gorum uses the port 8080 still."),
        # another statement on the same subject
        ("which stain did we use on the deck", "The deck: stain 3 oak.", "Swept the deck today."),
        ("which port does Gorum use", "Gorum uses port 8080.", "Gorum is slow on 2026-01-03."),
        ("when is the dentist", "The dentist is on Friday at ten.", "Dentist, the bill is paid."),
    ],
)
def test_anything_else_stays(asked: str, old: str, new: str) -> None:
    assert first(asked, old, new) == "old"


def test_a_name_with_another_number_needs_a_similar_meaning() -> None:
    lines = ("Gorum uses port 8080.", "Gorum fan replaced, ticket 5512.")
    assert first("which port does Gorum use", *lines, cosine=0.0) == "old"


def test_of_three_the_latest_comes_first_and_the_oldest_last() -> None:
    question = Question.read("which port does Gorum use")
    corpus = Corpus(100, 50.0, dict.fromkeys(question.terms, 3))
    candidates = [
        Candidate(row, score, score, score, 1.0, unaged_score=score, cosine=0.3, evidence=FOUND)
        for row, score in ((1, 0.9), (3, 0.8), (2, 0.7))
    ]
    texts = {row: f"Gorum uses port {row}{row}{row}{row}." for row in (1, 2, 3)}
    dates = {row: datetime.date(2025, row, 1) for row in (1, 2, 3)}
    read = chunks(question, corpus, texts)
    found = newer_first(candidates, read, dates, statements_of(question, "port of Gorum", corpus))
    assert [candidate.row_id for candidate in found] == [3, 2, 1]


def test_without_dates_nothing_changes() -> None:
    question = Question.read("port")
    corpus = Corpus(10, 5.0, dict.fromkeys(question.terms, 2))
    candidates = [Candidate(1, 0.5, None, 0.5, evidence=FOUND), Candidate(2, 0.4, None, 0.4)]
    texts = {1: "port 1234", 2: "port 4321"}
    read = chunks(question, corpus, texts)
    assert newer_first(candidates, read, {}, statements_of(question, "port", corpus)) == candidates
