"""The keyword retriever on a real FTS5 table: matches, order, and no errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keywords import IDENTITY, LEGS

from memoryd.index import schema, statements
from memoryd.index.driver import Connection, run_at_once, sqlite
from memoryd.messages import Chunk, FileKey, FileStat, ParsedFile
from memoryd.search import lexical
from memoryd.search.index_answers import one_state, version_of
from memoryd.search.lexical import read_corpus
from memoryd.text.tokenize import Term, query_terms


class Notes:
    """A keyword index; each note is one chunk of one file."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def add(self, path: str, *texts: str, heading: str = "", source: str = "memory") -> int:
        chunks = [Chunk(n, n, text, heading) for n, text in enumerate(texts, start=1)]
        parsed = ParsedFile(FileKey(source, path), FileStat(1, 1, 1), path, chunks)
        return run_at_once(statements.write_files(self.connection, LEGS, [parsed]))[0].file_id

    def search(
        self, terms: list[Term], k: int, *, file_ids: set[int] | None = None
    ) -> list[tuple[int, float]]:
        corpus = read_corpus(self.connection, terms)
        return lexical.search(self.connection, corpus, k, file_ids=file_ids)

    def find(self, query: str, k: int = 20, *, file_ids: set[int] | None = None) -> list[str]:
        """Return the texts found, best first."""
        found = self.search(query_terms(query), k, file_ids=file_ids)
        ranks = [rank for _, rank in found]
        assert ranks == sorted(ranks)
        assert all(rank < 0 for rank in ranks)
        return [
            str(
                self.connection.execute(
                    "SELECT text FROM chunks WHERE row_id = ?", (row,)
                ).fetchone()[0]
            )
            for row, _ in found
        ]


@pytest.fixture
def notes() -> Iterator[Notes]:
    connection: Connection = sqlite.connect(":memory:", isolation_level=None)
    try:
        schema.prepare(connection, Path("/w"), IDENTITY)
        assert schema.ensure_fts(connection) is None
        yield Notes(connection)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("今天玩成语接龙游戏", "成语接龙"),
        ("今天玩成语接龙游戏", "游戏"),
        ("今天玩成语接龙游戏", "龙"),
        ("今天玩成语接龙游戏", "戏"),
        ("她怀孕了", "怀孕"),
        ("明天下午三点开项目评审会议", "项目评审"),
        ("重跑gen-itgc后", "itgc"),
        ("重跑gen-itgc后", "重跑"),
        ("重跑gen-itgc后", "'itgc'后"),
        ("今日は成語しりとりをした", "しりとり"),
        ("デプロイガイドを読む", "ガイド"),
        ("ﾃﾞﾌﾟﾛｲ", "デプロイ"),
        ("내일 오후에 회의록을 정리한다", "회의록"),
        ("내일 오후에 회의록을 정리한다", "회의"),
        ("พรุ่งนี้ไปเชียงใหม่", "เชียงใหม่"),
        ("यहाँ हिन्दी लिखा है", "हिन्दी"),
        ("தமிழ் மொழி", "தமிழ்"),
        ("שָׁלוֹם עולם", "שָׁלוֹם"),
        ("İstanbul'a gittik", "İstanbul"),
        ("İstanbul'a gittik", "istanbul"),
        ("Привет, мир", "МИР"),
        ("Café in Zürich", "cafe"),
        ("cafe in zurich", "Zürich"),
        ("cafe\u0301", "café"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("the pumps were running", "pump runs"),
        ("snake_case_name", "case"),
        ("key=value&x", "value"),
        ("error E1234-X", "e1234"),
        ("𠀀𠀁𠀂", "𠀀𠀁"),
    ],
)
def test_the_note_is_found(notes: Notes, text: str, query: str) -> None:
    notes.add("other.md", "nothing to do with it", "无关的内容", "関係のない話")
    notes.add("note.md", text)
    assert notes.find(query)[:1] == [text]


@pytest.mark.parametrize("query", ["接语", "龙成", "今玩", "游成"])
def test_characters_in_another_order_are_another_word(notes: Notes, query: str) -> None:
    notes.add("note.md", "今天玩成语接龙游戏")
    assert notes.find(query) == []


def test_words_that_live_in_different_notes_are_all_found(notes: Notes) -> None:
    notes.add("a.md", "the boiler", "the valve", "the gasket", "the garden")
    assert set(notes.find("boiler valve gasket")) == {"the boiler", "the valve", "the gasket"}


def test_more_and_rarer_terms_rank_higher(notes: Notes) -> None:
    notes.add("a.md", *(f"boiler number {n}" for n in range(20)), "boiler valve")
    assert notes.find("boiler valve")[0] == "boiler valve"


def test_a_word_in_the_text_beats_one_in_the_path_or_the_headings(notes: Notes) -> None:
    notes.add("filler.md", *(f"unrelated {n}" for n in range(20)))
    notes.add("boiler.md", "by path")
    notes.add("b.md", "by heading", heading="House > Boiler")
    notes.add("c.md", "boiler text")
    found = notes.find("boiler")
    assert found[0] == "boiler text"
    assert set(found[1:]) == {"by path", "by heading"}


def test_only_as_many_as_asked_for(notes: Notes) -> None:
    notes.add("a.md", *(f"boiler {n}" for n in range(20)))
    assert len(notes.find("boiler", 7)) == 7


def test_a_scope_is_not_starved_by_a_dominating_source(notes: Notes) -> None:
    notes.add("sessions/long", *(f"boiler boiler {n}" for n in range(500)), source="sessions")
    small = notes.add("memory/small.md", "one word about the boiler among several others")
    assert notes.find("boiler", 5, file_ids={small}) == [
        "one word about the boiler among several others"
    ]


def test_an_empty_scope_finds_nothing(notes: Notes) -> None:
    notes.add("a.md", "the boiler")
    assert notes.find("boiler", file_ids=set()) == []


def test_a_scope_ranks_as_the_whole_does(notes: Notes) -> None:
    ids = {notes.add(f"{n}.md", "boiler " * n + "filler " * (20 - n)) for n in range(1, 10)}
    assert notes.find("boiler", file_ids=ids) == notes.find("boiler")


def test_no_terms_find_nothing(notes: Notes) -> None:
    notes.add("a.md", "the boiler")
    assert notes.search([], 5) == []


@pytest.mark.parametrize(
    "query",
    [
        '"boiler',
        'boiler"""',
        "boiler AND",
        "AND OR NOT boiler",
        "NEAR(boiler",
        "NEAR(boiler valve, 3)",
        "boiler*",
        "*boiler",
        "^boiler",
        "-boiler",
        "body:boiler",
        "{body}: boiler",
        "body : (boiler + valve)",
        "boiler; DROP TABLE chunks; --",
        "boiler\0valve",
        "(((boiler",
        "boiler' OR '1'='1",
        "\ud800boiler",
    ],
)
def test_what_looks_like_an_operator_is_plain_text(notes: Notes, query: str) -> None:
    notes.add("a.md", "the boiler")
    assert notes.find(query) == ["the boiler"]


def test_not_is_no_operator(notes: Notes) -> None:
    notes.add("a.md", "boiler valve")
    assert notes.find("boiler NOT valve") == ["boiler valve"]


@pytest.mark.parametrize("query", ["", "   ", "\n", "?!", '""', "*", "・", "\u0301", "🎉"])
def test_a_query_without_words_finds_nothing(notes: Notes, query: str) -> None:
    notes.add("a.md", "the boiler 今天")
    assert notes.find(query) == []


def test_an_enormous_query_is_answered(notes: Notes) -> None:
    notes.add("a.md", "the boiler")
    assert notes.find("boiler " + "x" * 1_000_000 + " y" * 100_000) == ["the boiler"]


def test_a_prefix_finds_what_starts_with_it(notes: Notes) -> None:
    notes.add("a.md", "龙游戏", "boiler")
    assert len(notes.search([Term("龙", prefix=True)], 5)) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=80))
def test_no_query_raises(notes: Notes, query: str) -> None:
    notes.search(query_terms(query), 5)
    notes.search(query_terms(query), 5, file_ids={1})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    word=st.text(st.characters(categories=["L", "N"], max_codepoint=0x24F), min_size=3, max_size=12)
    | st.text("成语接龙ガイド회의록พรุ่งนี้", min_size=1, max_size=12),
)
def test_a_text_is_found_by_itself(notes: Notes, word: str) -> None:
    notes.add("a.md", f"filler {word} filler")
    assert notes.find(word, 1000), word


def test_one_state_has_one_version_that_is_asked_for_once(tmp_path: Path) -> None:
    asked: list[str] = []
    reader = sqlite.connect(str(tmp_path / "index"), isolation_level=None)
    writer = sqlite.connect(str(tmp_path / "index"), isolation_level=None)
    try:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE counts (n)")
        reader.set_trace_callback(asked.append)
        with one_state(reader):
            before = version_of(reader)
            writer.execute("INSERT INTO counts VALUES (1)")
            assert version_of(reader) == before
            assert reader.execute("SELECT count(*) FROM counts").fetchone() == (0,)
        assert asked.count("PRAGMA data_version") == 1
        assert version_of(reader) != before
    finally:
        reader.close()
        writer.close()
