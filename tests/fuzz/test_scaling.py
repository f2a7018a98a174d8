"""Doubling a text about doubles the time, whatever its content.

A quadratic algorithm hangs on a long text. The tests measure the processor time of this thread and
use the best of several attempts.
"""

import gc
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from fuzz.targets.transcripts import OPTIONS
from memoryd.chunk.markdown import chunk_markdown
from memoryd.embed.provider import ProviderError
from memoryd.embed.vendors.http_errors import refusal
from memoryd.embed.vendors.openai import OpenAiApi
from memoryd.messages import split_lines
from memoryd.search.query import parse
from memoryd.search.snippet import LineReader, cut_snippet, highlights
from memoryd.search.verbatim import exactness, verbatim_units
from memoryd.source.notes.decode import Decoder
from memoryd.source.notes.read import mask_private
from memoryd.source.transcripts import delta
from memoryd.source.transcripts.strip import clean
from memoryd.text.redact import Redactor
from memoryd.text.tokenize import Term, index_text, query_terms

SMALL_BYTES = 50_000
LEAST_S = 0.02
"""Seconds below which a measurement is too imprecise."""
MOST = 3.0
"""Maximum ratio; a quadratic algorithm has 4.0, n log n has 2.1."""
ATTEMPTS = 4

RUNS = [
    *("`", "~", "<", "[", "]", "(", "{", '"', "'", "\\", "=", "%", "*", "|", "4", "-", "."),
    *("\n", "\r", "\t", "  ", "a", "a ", "a.", "a=", "- ", "> ", "# ", "# x\n", "\n```\n", "x:\n"),
    *("漢", "漢。", "\u0301", "e\u0301", "\u200d", "👩\u200d", "🇩", "İ", "\ufffd", "…[redacted]"),
    *("<private>", "</private>", "<private ", "<a ", "<think>", "<system-reminder>\n", "[cron:"),
    *("key=", "key:", "token", "password: ", "sk-", "eyJaaaaaaaa.", "4111 ", "cookie: a=b; "),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n", "://", "://x:", "://a:b@"),
    *("bearer ", "auth=Basic ", "hooks.slack.com/services/", "SG.a.", "[[reply_to:", "1:AA"),
    *("[Chat messages since your last reply]", "# Context from my IDE setup:", "System: [x\n"),
    *(
        "[media attached",
        "To send an image back, prefer the message tool",
        "\n## My request for Codex:",
    ),
    *(
        "A (untrusted metadata):\n```json\n",
        "Untrusted context (metadata, x):\n",
        "[media attached",
    ),
    *("path:a ", "-word ", '"" ', "NEAR(", "a_b", "::", "[a]\n", "[[a]]\n", "a.b\n", "'''", '"""'),
    *("too many ", "maximum ", "api key ", "<title>", 'retryDelay":"'),
]
_redact = Redactor()
_own = Redactor([r"\w{1,40}@\w{1,40}", "[^x]{3,20}y"])
_reader = LineReader({Term("a"): 1.0, Term("漢", prefix=True): 1.0, Term("key"): 1.0})


def decode(text: str) -> None:
    decoder = Decoder()
    decoder.feed(text.encode(), last=True)
    decoder.lines.finish()


def read_transcript(folder: Path, text: str) -> None:
    path = folder / "t.jsonl"
    path.write_text(json.dumps({"role": "user", "content": text}) + "\n")
    delta.read_delta(path, base=None, options=OPTIONS)


def read_answer(text: str) -> None:
    with suppress(ProviderError):
        OpenAiApi().read(text.encode(), 1)
    refusal("vendor", 429, {"retry-after": text}, text, key="KEY", now_s=0.0)


READERS: dict[str, Callable[[str], object]] = {
    "chunks": lambda text: chunk_markdown(split_lines(text)),
    "small chunks": lambda text: chunk_markdown(
        split_lines(text), tokens=8, overlap=7, max_bytes=64
    ),
    "private": lambda text: mask_private(split_lines(text)),
    "decode": decode,
    "redact": _redact,
    "redact with patterns": _own,
    "redact lines": lambda text: _redact.lines(split_lines(text)),
    "what users say": partial(clean, "user"),
    "what assistants say": partial(clean, "assistant"),
    "index": index_text,
    "snippet": lambda text: cut_snippet(text, 1, text.count("\n") + 1, _reader, 700),
    "highlights": lambda text: highlights(text, _reader),
    "verbatim": partial(exactness, "漢a"),
    "query": parse,
    "terms": query_terms,
    "strings": verbatim_units,
    "vendor": read_answer,
}


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_twice_as_much_takes_no_more_than_some_twice_as_long(name: str) -> None:
    assert _worse(READERS[name]) == []


@pytest.mark.long
def test_a_transcript_takes_time_as_its_length(tmp_path: Path) -> None:
    assert _worse(partial(read_transcript, tmp_path)) == []


@pytest.mark.parametrize(("power", "is_seen"), [(2.0, True), (1.0, False)])
def test_the_square_is_seen(power: float, is_seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def read(text: str) -> None:
        nonlocal now_s
        now_s += LEAST_S * (len(text) / SMALL_BYTES) ** power

    monkeypatch.setattr(time, "thread_time", lambda: now_s)
    assert (_grows_too_fast(read, "a" * 20) > MOST) is is_seen


def _worse(reader: Callable[[str], object]) -> list[tuple[str, float]]:
    """Return the texts that take too long, with the ratio of their time to that of their half."""
    found = ((run, _grows_too_fast(reader, run)) for run in RUNS)
    return [(run, times) for run, times in found if times > MOST]


def _grows_too_fast(reader: Callable[[str], object], run: str) -> float:
    """Return the ratio of the times for the doubled and the single text; 0.0 if too short."""
    text = run * (SMALL_BYTES // len(run.encode()))
    growth = float("inf")
    for _ in range(ATTEMPTS):
        twice_s = _seconds(reader, text * 2)
        if twice_s < LEAST_S:
            return 0.0
        growth = min(growth, twice_s / _seconds(reader, text))
        if growth <= MOST:
            break
    return growth


def _seconds(reader: Callable[[str], object], text: str) -> float:
    gc.disable()  # a collection at a random moment takes as long as the whole small text
    try:
        began = time.thread_time()
        reader(text)
        return time.thread_time() - began
    finally:
        gc.enable()
