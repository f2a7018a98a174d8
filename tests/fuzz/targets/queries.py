"""Search queries: operators, terms, FTS5's syntax, dates and globs."""

import datetime
import time
from pathlib import Path

from identities import KEYWORDS_ONLY

from memoryd.index import schema, statements
from memoryd.index.driver import Connection, run_at_once, sqlite
from memoryd.messages import Chunk, FileKey, FileStat, ParsedFile
from memoryd.search import lexical
from memoryd.search.lexical import read_corpus
from memoryd.search.query import parse
from memoryd.search.snippet import LineReader, cut_snippet, highlights
from memoryd.search.verbatim import exactness, verbatim_units
from memoryd.text.dated_names import period_of_name
from memoryd.text.dates import find_dates
from memoryd.text.tokenize import MAX_QUERY_TERMS, query_terms

SEEDS = [
    b'what did "the cat" eat -fish path:memory/*.md source:memory since:2026-01-01',
    b'" NEAR( a* OR b) AND NOT "" ^x {a}: col:b',
    "漢字 とは何か？ 한국어 ภาษาไทย हिन्दी".encode(),
    "don’t l'eau é\u0301 İstanbul ß ﬁ ǅ".encode(),
    b"v1.2.3 ~/src/app.py:12 foo_bar() a::b->c --flag x=y until:9999-99-99",
    b'path:"' + b"*" * 12 + b'" path:[a-z]?? since:20260101 until:2026-W01-1',
]
DICTIONARY = [b'"', b"NEAR(", b" OR ", b" AND ", b" NOT ", b"*", b"path:", b"source:", b"since:"]
DICTIONARY += [b"until:2026-01-01", b" -", b"^", b"'", b"\0", "’".encode(), "漢".encode(), b":"]
DICTIONARY += ["\u0301".encode(), "「".encode(), b"%", b"_", b"\\", b"\xf0\x90\x80\x80"]
MAX_BYTES = 1_024
TEXTS = (
    "The cat ate a fish.\nIt didn't like v1.2.3 of app.py.",
    "漢字とは何か。한국어 문장 ภาษาไทย हिन्दी क्षेत्र",
    "don't İSTANBUL straße ﬁn naïve e\u0301 \ufffd",
)
_IDENTITY = KEYWORDS_ONLY


def _index() -> Connection:
    connection: Connection = sqlite.connect(":memory:", isolation_level=None)
    schema.prepare(connection, Path("/w"), _IDENTITY)
    assert schema.ensure_fts(connection) is None
    legs = statements.DerivedTables(_IDENTITY, fts=True, vec=False)
    for number, text in enumerate(TEXTS):
        lines = text.count("\n") + 1
        key = FileKey("memory", f"memory/2026-01-0{number + 1}.md")
        parsed = ParsedFile(key, FileStat(1, 1, 1), str(number), [Chunk(1, lines, text, "H")])
        run_at_once(statements.write_files(connection, legs, [parsed]))
    return connection


_connection = _index()


def check(data: bytes) -> None:
    """Search as the engine does; no query raises an SQL error or takes long."""
    typed = data.decode("utf-8", "replace").strip()
    query = parse(typed)
    assert "\n" not in query.text
    assert all((*query.without, *query.required))
    terms = query_terms(query.text)
    assert len(terms) <= MAX_QUERY_TERMS
    corpus = read_corpus(_connection, terms)
    began = time.monotonic()
    found = lexical.search(_connection, corpus, 10)
    within = lexical.search(_connection, corpus, 10, file_ids=[1, 2, 3])
    assert {row for row, _ in within} == {row for row, _ in found}
    assert time.monotonic() - began < 10
    reader = LineReader(dict.fromkeys(terms, 1.0))
    for text in (*TEXTS, typed):
        for unit in verbatim_units(query.text):
            assert 0.0 <= exactness(unit, text) <= 1.0
        snippet = cut_snippet(text, 3, 3 + text.count("\n"), reader, 40)
        assert len(snippet.text) <= 40
        assert 3 <= snippet.start_line <= snippet.end_line <= 3 + text.count("\n")
        for start, end in highlights(text, reader):
            assert 0 <= start < end <= len(text)
    key = FileKey("memory", typed.replace("\0", ""))
    named = period_of_name(key.path)
    assert named is None or named.first <= named.last
    asked = find_dates(typed, datetime.date(2026, 11, 29))
    assert all(period.first <= period.last for period in asked.periods)
    query.filters.accept(key, FileStat(1, 1, 1))
