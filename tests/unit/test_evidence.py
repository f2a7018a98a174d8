"""Evidence from the words of a chunk, and the word statistics of the index."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keywords import IDENTITY, LEGS

from memoryd.index import schema, statements
from memoryd.index.driver import Connection, run_at_once, sqlite
from memoryd.messages import Chunk, FileKey, FileStat, ParsedFile
from memoryd.search.evidence import NEAR_CHARS, NO_EVIDENCE, ChunkText, Evidence, Question, Weigher
from memoryd.search.fts_sizes import read_lengths, varints
from memoryd.search.lexical import UNKNOWN, Corpus, frequency, read_corpus
from memoryd.search.text_match import Finder
from memoryd.text.fold import fold
from memoryd.text.tokenize import Term, index_text, phrases, query_terms

VOCABULARY = (
    "boiler",
    "valve",
    "tap",
    "code",
    "F28",
    "MAN-2184",
    "成语接龙",
    "医院",
    "the",
    "v1.2",
)
TEXTS = st.lists(st.sampled_from((*VOCABULARY, "\n", "filler", "。")), max_size=20).map(" ".join)


def chunk(text: str, context: str = "", *, tokens: int | None = None) -> ChunkText:
    size = len(index_text(f"{text} {context}").split()) if tokens is None else tokens
    return ChunkText.of(text, context, max(1, size))


def corpus_of(question: Question, chunks: list[ChunkText]) -> Corpus:
    """Return the corpus statistics of an index of only these chunks."""
    finder = Finder(question.terms)
    having = dict.fromkeys(question.terms, 0)
    for each in chunks:
        here, there = finder.places(fold(each.text)), finder.places(fold(each.context))
        for term, *found in zip(question.terms, here, there, strict=True):
            having[term] += any(found)
    mean = sum(each.tokens for each in chunks) / len(chunks)
    return Corpus(len(chunks), max(1.0, mean), having)


def weighed(query: str, *chunks: ChunkText | str) -> list[Evidence]:
    question = Question.read(query)
    made = [chunk(each) if isinstance(each, str) else each for each in chunks]
    return [each.evidence for each in Weigher(question, corpus_of(question, made)).weigh(made)]


def test_a_question_is_taken_apart() -> None:
    question = Question.read("when was MAN-2184 closed by the team")
    man, number, closed, team = map(Term, ("man", "2184", "closed", "team"))
    assert question.terms == (man, number, closed, team)
    assert question.pairs == ((man, number), (number, closed), (closed, team))
    assert question.units == ("MAN-2184",)
    assert question.strings == {"MAN-2184"}


def test_terms_and_pairs_are_distinct() -> None:
    question = Question.read("tap valve tap valve valve")
    tap, valve = Term("tap"), Term("valve")
    assert question.terms == (tap, valve)
    assert question.pairs == ((tap, valve), (valve, tap))


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
def test_all_figures_are_shares(query: str, texts: list[tuple[str, str]]) -> None:
    for evidence in weighed(query, *(chunk(text, context) for text, context in texts)):
        for figure in evidence:
            assert 0.0 <= figure <= 1.0 + 1e-9
        assert evidence.string <= evidence.verbatim
        assert evidence.bm25 <= evidence.coverage + 1e-9


@given(TEXTS, TEXTS, st.sampled_from(VOCABULARY), st.integers(1, 50))
def test_one_more_word_never_lowers_bm25_or_coverage(
    query: str, text: str, word: str, tokens: int
) -> None:
    question = Question.read(query)
    corpus = Corpus(10, 8.0, dict.fromkeys(question.terms, 2))
    less, more = Weigher(question, corpus).weigh(
        [chunk(text, tokens=tokens), chunk(f"{text}\n{word}", tokens=tokens)]
    )
    assert more.evidence.bm25 >= less.evidence.bm25 - 1e-12
    assert more.evidence.coverage >= less.evidence.coverage - 1e-12
    assert more.evidence.verbatim >= less.evidence.verbatim - 1e-12


@given(TEXTS, TEXTS)
def test_a_word_that_nobody_has_lowers_all(query: str, text: str) -> None:
    without = weighed(f"{query} boiler", text, "boiler")
    having = weighed(f"{query} boiler zzyzx", text, "boiler")
    for less, more in zip(having, without, strict=True):
        assert less.bm25 <= more.bm25 + 1e-12
        assert less.coverage <= more.coverage + 1e-12
        assert less.adjacency <= more.adjacency + 1e-12


def test_a_word_that_nobody_has_takes_its_share() -> None:
    (known,) = weighed("boiler", "the boiler hums")
    (half,) = weighed("boiler zzyzx", "the boiler hums")
    assert known.coverage == pytest.approx(1.0)
    assert half.coverage == pytest.approx(0.5)
    assert half.bm25 == pytest.approx(known.bm25 / 2)


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    common = ["valve"] * 8
    *_, by_common, by_rare = weighed("valve tap", *common, "valve", "tap")
    assert by_rare.coverage > 0.5 > by_common.coverage
    assert by_rare.bm25 > by_common.bm25


def test_a_long_chunk_says_less_by_one_word() -> None:
    short, long = weighed("boiler", "the boiler", "boiler " + "filler " * 200)
    assert short.bm25 > long.bm25
    assert short.coverage == long.coverage


def test_a_word_in_the_path_or_a_heading_counts() -> None:
    by_text, by_context, neither = weighed(
        "boiler",
        chunk("the boiler", tokens=4),
        chunk("it hums", "memory/boiler\nHouse", tokens=4),
        chunk("it hums", "memory/house", tokens=4),
    )
    assert by_context.bm25 == pytest.approx(by_text.bm25)
    assert by_context.coverage == 1.0
    assert neither == NO_EVIDENCE


def test_a_string_in_the_path_counts_less_than_in_the_text() -> None:
    by_text, by_path = weighed("MAN-2184", chunk("MAN-2184"), chunk("closed", "tickets/MAN-2184"))
    assert by_text.string > by_path.string > 0


@pytest.mark.parametrize(
    "text",
    [
        *(
            "filling tap",
            "FILLING TAP",
            "filled taps",
            "filling-tap",
            "filling the tap",
            "filling,tap",
        ),
        "x\nfilling tap\ny",
    ],
)
def test_neighbours_in_a_line_are_near(text: str) -> None:
    (evidence,) = weighed("filling tap", text)
    assert evidence.adjacency == pytest.approx(1.0)


@pytest.mark.parametrize(
    "text",
    [
        *("filling\ntap", "tap filling", "filling of the tap", "filling", "tap", "filling. \n tap"),
        f"filling {'-' * NEAR_CHARS} tap",
    ],
)
def test_what_is_in_two_lines_or_far_or_the_other_way_round_is_not(text: str) -> None:
    (evidence,) = weighed("filling tap", text)
    assert evidence.adjacency == 0.0


def test_any_place_will_do_for_neighbours() -> None:
    (evidence,) = weighed("filling tap", "tap\nfilling\nfilling and so on\nthe filling tap")
    assert evidence.adjacency == pytest.approx(1.0)


def test_each_missing_neighbour_takes_its_share() -> None:
    (evidence,) = weighed("boiler filling tap", "the filling tap of the boiler")
    assert evidence.adjacency == pytest.approx(0.5)


def test_neighbours_that_all_candidates_have_say_less() -> None:
    alone = weighed("filling tap", "filling tap", "tap", "filling", "other")[0]
    among = weighed("filling tap", "filling tap", "filling tap", "filling tap", "other")[0]
    assert among.adjacency < alone.adjacency


def test_one_word_misses_no_neighbour() -> None:
    found, missing = weighed("boiler", "the boiler", "the valve")
    assert found.adjacency == found.coverage == 1.0
    assert missing == NO_EVIDENCE


def test_bigrams_of_one_run_are_neighbours() -> None:
    whole, apart = weighed("成语接龙", "今天玩成语接龙游戏", "成语\n语接\n接龙")
    assert whole.coverage == apart.coverage == 1.0
    assert whole.adjacency > apart.adjacency
    assert whole.verbatim > apart.verbatim == 0.0


def test_a_bigram_that_nobody_has_counts_half() -> None:
    """A bigram may span two words that are separate in the answer: the hospital's number."""
    (evidence,) = weighed("医院号码", "医院的号码")
    assert evidence.coverage == pytest.approx(2 / 2.5)
    (spaced,) = weighed("hospital main number", "the hospital's number")
    assert spaced.coverage == pytest.approx(2 / 3)


def test_a_question_about_nothing_gets_nothing() -> None:
    assert weighed("", "text") == [NO_EVIDENCE]
    assert weighed("???", "text") == [NO_EVIDENCE]
    assert weighed("zzyzx", "text", "") == [NO_EVIDENCE, NO_EVIDENCE]


def test_the_exact_string_sets_a_chunk_apart() -> None:
    exact, longer, parts = weighed(
        "what changed in 2026.4.1", "in 2026.4.1 it did", "in 2026.4.10 it did", "1 of 4, 2026"
    )
    assert exact.string > longer.string > parts.string == 0.0


def test_all_of_a_short_question_is_verbatim_but_no_string() -> None:
    (evidence,) = weighed("filling tap", "the filling tap")
    assert evidence.verbatim == pytest.approx(1.0)
    assert evidence.string == 0.0


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_no_word_weighs_nothing(chunks: int, count: int) -> None:
    corpus = Corpus(chunks, 10.0, {})
    assert corpus.idf(count) > 0
    assert corpus.idf(count) >= corpus.idf(count + 1)


def test_the_weight_of_a_word() -> None:
    corpus = Corpus(100, 10.0, {Term("a"): 3, Term("b"): 0, Term("c"): 1, Term("d"): 100})
    assert corpus.weight(Term("a")) == pytest.approx(math.log(1 + 97.5 / 3.5))
    assert corpus.weight(Term("b")) == corpus.weight(Term("c")) == corpus.weight(Term("unknown"))
    assert 0 < corpus.weight(Term("d")) < 0.01
    assert UNKNOWN.weight(Term("a")) == UNKNOWN.weight(Term("b")) > 0


def encoded(number: int) -> bytes:
    """Return SQLite's varint: 7 bits a byte, most significant first, the ninth byte has 8."""
    if number >= 1 << 56:
        high, last = number >> 8, number & 0xFF
        return bytes(0x80 | (high >> shift & 0x7F) for shift in range(49, -1, -7)) + bytes([last])
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(0x80 | number & 0x7F)
    return bytes(reversed(groups))


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_varints_come_back(numbers: list[int]) -> None:
    assert varints(b"".join(map(encoded, numbers))) == numbers


@pytest.fixture
def connection() -> Iterator[Connection]:
    made: Connection = sqlite.connect(":memory:", isolation_level=None)
    try:
        schema.prepare(made, Path("/w"), IDENTITY)
        assert schema.ensure_fts(made) is None
        yield made
    finally:
        made.close()


def put(connection: Connection, path: str, *texts: str, heading: str = "") -> None:
    chunks = [Chunk(n, n, text, heading) for n, text in enumerate(texts, start=1)]
    parsed = ParsedFile(FileKey("memory", path), FileStat(1, 1, 1), path, chunks)
    run_at_once(statements.write_files(connection, LEGS, [parsed]))


def counted(connection: Connection) -> dict[int, int]:
    """Return the number of tokens of each row as FTS5 itself lists them."""
    connection.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, chunks_fts, instance)")
    found = connection.execute("SELECT doc, count(*) FROM v GROUP BY doc").fetchall()
    connection.execute("DROP TABLE v")
    return {int(row): int(count) for row, count in found}


def test_lengths_are_those_of_fts5(connection: Connection) -> None:
    put(connection, "a.md", "boiler " * 5, "tap " * 300, heading="House > Boiler")
    put(connection, "b.md", "成语接龙 and more", "x " * 20_000)
    put(connection, "c.md", "gone soon")
    put(connection, "c.md", "here to stay for good")
    tokens = counted(connection)
    assert len(tokens) == 5
    assert max(tokens.values()) > 20_000  # three bytes of a varint
    assert read_lengths(connection, list(tokens)) == tokens
    assert read_lengths(connection, [*tokens, 9_999]) == tokens
    corpus = read_corpus(connection, query_terms("boiler 成语 zzyzx"))
    assert corpus.chunks == len(tokens)
    assert corpus.mean_tokens == pytest.approx(sum(tokens.values()) / len(tokens))


def test_frequencies_count_chunks_that_have_a_word_anywhere(connection: Connection) -> None:
    put(connection, "boiler.md", "it hums", "it is a boiler: boilers hum", heading="House")
    put(connection, "other.md", "no such thing", heading="The boilers")
    put(connection, "zh.md", "接龙", "龙")
    assert frequency(connection, phrases(Term("boiler"))) == 3
    assert frequency(connection, phrases(Term("hums"))) == 2
    assert frequency(connection, phrases(Term("龙", prefix=True))) == 2
    assert frequency(connection, phrases(Term("zzyzx"))) == 0
    corpus = read_corpus(connection, query_terms("boiler hums zzyzx"))
    assert [corpus.frequency[Term(word)] for word in ("boiler", "hums", "zzyzx")] == [3, 2, 0]
    put(connection, "boiler.md", "it hums")
    corpus = read_corpus(connection, query_terms("boilers humming 接龙"))
    assert list(corpus.frequency.values()) == [2, 1, 1]


def test_an_empty_index_has_no_chunks_and_every_word_a_weight(connection: Connection) -> None:
    corpus = read_corpus(connection, [Term("boiler")])
    assert (corpus.chunks, corpus.mean_tokens) == (0, 1.0)
    assert corpus.weight(Term("boiler")) > 0
    put(connection, "a.md", "boiler")
    put(connection, "a.md")
    assert read_corpus(connection, []).chunks == 0
