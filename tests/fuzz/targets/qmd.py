"""Output and answers of QMD, with noise, terminal codes and arbitrary JSON."""

from contextlib import suppress

from memoryd.backends.backend import BackendError
from memoryd.backends.qmd.answers import read_answer, read_counts, read_printed

SEEDS = [
    b'[{"docid":"#a1b2c3","score":0.93,"file":"qmd://notes/a%20b.md","line":42}]',
    b'{"results":[{"file":"qmd://notes/a.md","line":1e400,"score":NaN},null,7]}',
    b"\x1b[?25l[llama] loading\n[]\nNo results found.\n",
    b"Documents\n  Total:    1,200 files indexed\n  Vectors:  7 embedded\n",
    b"[" * 500,
]
DICTIONARY = [b'"file":', b'"line":', b'"score":', b'"results":[', b"NaN", b"1e999", b"\x1b[0m"]
DICTIONARY += [b"No results found", b"9" * 40, b"\n[", b"Total:", b"files indexed", b"\\ud800"]


def check(data: bytes) -> None:
    """Read the bytes as output and as an answer: places within bounds, or one kind of error."""
    text = data.decode("utf-8", "replace")
    places = []
    with suppress(BackendError):
        places += read_printed(text, "")
    with suppress(BackendError):
        places += read_answer(data)
    for place in places:
        assert 0 <= place.score <= 1
        assert place.line is None or 0 < place.line <= 2**31
    assert all(count is None or count >= 0 for count in read_counts(text))
