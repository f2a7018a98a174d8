"""Chunks kept between searches: compared after writes, and bounded."""

import sqlite3

import pytest

from memoryd.search.chunk_cache import ChunkCache
from memoryd.search.evidence import Question
from memoryd.search.text_match import Finder
from memoryd.text.voice import NOTE, Voice, encode_voices
from memoryd_client.schema.search import Origin, Role

TABLES = """
CREATE TABLE files (file_id INTEGER PRIMARY KEY, source, path, title, date, transcript, properties);
CREATE TABLE chunks (
    row_id INTEGER PRIMARY KEY, id, file_id, heading, origin, start_line, end_line, line_map,
    voices, text
);
CREATE TABLE chunks_fts_docsize (id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO files VALUES (1, 'memory', 'a.md', 'A', '', NULL, '{}');
"""
ADD = "INSERT OR REPLACE INTO chunks VALUES (?1, ?2, 1, ?3, 'owner', 1, 1, '', '', ?4)"


@pytest.fixture
def connection() -> sqlite3.Connection:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    opened.executescript(TABLES)
    return opened


def add(connection: sqlite3.Connection, row: int, text: str, heading: str = "") -> None:
    connection.execute(ADD, (row, f"id of {text}", heading, text))
    connection.execute("INSERT OR REPLACE INTO chunks_fts_docsize VALUES (?, ?)", (row, b"\x07"))


def test_a_chunk_is_read_once_until_something_is_written(connection: sqlite3.Connection) -> None:
    add(connection, 1, "The boiler hums")
    cache = ChunkCache(connection)
    first = cache.read([1, 2], sized=True)
    assert (first[1].text, first[1].tokens, list(first)) == ("The boiler hums", 7, [1])
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    assert cache.read([1, 2], sized=True) == first
    assert statements == ["PRAGMA data_version"]
    add(connection, 2, "The valve drips")
    again = cache.read([1, 2], sized=True)
    assert again[1].folded is first[1].folded
    assert again[2].text == "The valve drips"
    assert not any(" text" in statement and "(1)" in statement for statement in statements)


def test_another_text_heading_or_file_is_noticed(connection: sqlite3.Connection) -> None:
    add(connection, 1, "The boiler hums", "House")
    cache = ChunkCache(connection)
    assert cache.read([1], sized=False)[1].above.text == "a\nhouse\n"
    add(connection, 1, "The boiler hums", "Cellar")
    assert cache.read([1], sized=False)[1].above.text == "a\ncellar\n"
    connection.execute("UPDATE files SET title = 'B'")
    assert cache.read([1], sized=False)[1].file.title == "B"
    add(connection, 1, "The boiler is new")
    assert cache.read([1], sized=False)[1].folded.text == "the boiler is new"
    connection.execute("DELETE FROM chunks")
    assert cache.read([1], sized=False) == {}


def test_the_voices_of_a_chunk_are_those_of_its_row(connection: sqlite3.Connection) -> None:
    add(connection, 1, "Ana: The boiler hums")
    cache = ChunkCache(connection)
    chunk = cache.read([1], sized=False)[1]
    assert list(chunk.voices) == [NOTE]
    size = chunk.size_bytes
    for speaker in ("Ana", "Ravi"):
        said = Voice(Role.USER, Origin.UNTRUSTED, speaker)
        connection.execute("UPDATE chunks SET voices = ?", (encode_voices([said]),))
        assert cache.read([1], sized=False)[1] is chunk
        assert list(chunk.voices) == [said]
        assert chunk.size_bytes == size + 110
    connection.execute("UPDATE chunks SET origin = 'untrusted', voices = ''")
    assert list(cache.read([1], sized=False)[1].voices) == [NOTE._replace(origin=Origin.UNTRUSTED)]
    assert chunk.size_bytes == size


def test_the_chunks_that_were_not_used_for_longest_go(connection: sqlite3.Connection) -> None:
    for row in range(1, 101):
        add(connection, row, f"Chunk {row} says the same as others. " * 40)
    cache = ChunkCache(connection, most_bytes=100_000)
    finder = Finder(Question.read("chunk others").terms)
    kept = cache.read([1], sized=True)[1]
    for row in range(2, 101):
        for chunk in cache.read([1, row], sized=True).values():
            finder.places_in(chunk.folded)
    assert cache.read([1], sized=True)[1] is kept
    assert cache.size_bytes <= 100_000


def test_a_chunk_loses_the_places_of_words_before_it_is_forgotten(
    connection: sqlite3.Connection,
) -> None:
    for row in range(1, 11):
        add(connection, row, f"Chunk {row} says the same as others. " * 40)
    cache = ChunkCache(connection, most_bytes=75_000)
    finder = Finder(Question.read("chunk others same").terms)
    kept = cache.read(range(1, 11), sized=True)
    for chunk in kept.values():
        finder.places_in(chunk.folded)
    found = cache.read(range(1, 11), sized=True)
    assert all(found[row] is chunk for row, chunk in kept.items())
    assert 0 < sum(bool(chunk.folded.positions) for chunk in found.values()) < len(found)
    assert cache.size_bytes <= 75_000
