"""Transcripts that may contain a text: none is missed, wherever its chunks are cut."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from identities import KEYWORDS_ONLY

from memoryd.chunk.transcript import Position, TranscriptChunker
from memoryd.index import schema, statements
from memoryd.index.driver import run_at_once, sqlite
from memoryd.index.queries import find_text
from memoryd.messages import FileKey, FileStat, ParsedFile
from memoryd.text.voice import ASSISTANT

IDENTITY = KEYWORDS_ONLY
WORDS = [
    "one",
    "two",
    "ß",
    "É",
    "e\u0301",
    "漢字",
    "한국어",
    "👩‍👩‍👧",
    "🇩🇪",
    "x" * 200,
    " ",
    "  ",
    "。",
]


def index_of(*transcripts: Sequence[str], max_bytes: int = 8_000) -> sqlite3.Connection:
    """Return an index of transcripts `sessions/0`, `sessions/1` …, in small chunks."""
    connection: sqlite3.Connection = sqlite.connect(":memory:", isolation_level=None)
    schema.prepare(connection, Path("/w"), IDENTITY)
    for number, messages in enumerate(transcripts):
        chunker = TranscriptChunker(tokens=8, max_bytes=max_bytes)
        for line, message in enumerate(messages, start=1):
            chunker.add(Position(line, line), [(message, ASSISTANT)])
        chunks, _ = chunker.finish(Position(0, 1))
        parsed = ParsedFile(
            FileKey("sessions", f"sessions/{number}"), FileStat(1, 1, 1), str(number), chunks
        )
        run_at_once(
            statements.write_files(
                connection, statements.DerivedTables(IDENTITY, fts=False, vec=False), [parsed]
            )
        )
    return connection


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=60).map("".join), min_size=1, max_size=5),
    st.data(),
)
def test_every_part_of_every_message_is_found(messages: list[str], data: st.DataObject) -> None:
    spoken = [" ".join(message.split()) for message in messages]
    message = data.draw(st.sampled_from(spoken))
    start = data.draw(st.integers(0, len(message)))
    part = message[start : data.draw(st.integers(start, len(message)))]
    if part.strip():
        connection = index_of(["another one"], spoken, max_bytes=data.draw(st.integers(64, 400)))
        try:
            assert "sessions/1" in find_text(connection, part.swapcase())
        finally:
            connection.close()


@pytest.mark.parametrize(
    "text", ["no such text", "mulberriesX", "two three", "ab" * 9, "9" * 3_000, "bc"]
)
def test_what_stands_nowhere_is_not_found(text: str) -> None:
    connection = index_of(["two " * 300 + "mulberries"], ["one", "ab" * 4], ["a", "b c"])
    expected = ["sessions/2"] if text == "bc" else []  # the search for candidates ignores spaces
    assert find_text(connection, text) == expected
    connection.close()
