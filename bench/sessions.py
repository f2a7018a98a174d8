"""Transcripts: one appended message, and a first import of thousands beside some notes."""

import contextlib
import json
import time
from functools import partial
from pathlib import Path

from bench.corpus import Prose, write_notes
from bench.daemon import Place, daemon, peak_bytes, place, resident_bytes, until_ready
from bench.figures import Report, at_most, percentile
from bench.wire import Prober, echo, indexing
from memoryd.source.transcripts.delta import DeltaOptions, read_delta
from memoryd.source.transcripts.detect import by_name, detect
from memoryd.source.transcripts.spoken import ReadingRules
from memoryd.text.redact import Redactor
from memoryd_client import Client, MemorydError

MESSAGES = 10_000
TRANSCRIPTS = 4_000
TOTAL_BYTES = 2_000_000_000
NOTES = 50
MESSAGE_WORDS = 60
MESSAGE_CHARS = 4_000
TOOL_BYTES = 3_500
"""Tool output after each pair of messages, which is most of a transcript."""
MIB = 2**20
GIVE_UP_S = 1_800.0


def run(report: Report, *, quick: bool) -> None:
    """Mask text, append to a long transcript, then import many."""
    _mask(report)
    _append(report)
    part = 20 if quick else 1
    _import(report, TRANSCRIPTS // part, TOTAL_BYTES // part)


def _mask(report: Report) -> None:
    """Measure the masking of the documentation, whole and as messages, on one core."""
    texts = [file.read_text() for file in sorted(Path("docs").rglob("*.md"))]
    text = ("".join(texts) * (MIB // sum(map(len, texts)) + 1))[:MIB]
    redact = Redactor()
    for name, size in (("whole", MIB), (f"in messages of {MESSAGE_CHARS:,}", MESSAGE_CHARS)):
        times_s = []
        for _ in range(5):
            started = time.process_time()
            for at in range(0, MIB, size):
                redact(text[at : at + size])
            times_s.append(time.process_time() - started)
        report.add(f"masking 1 MB, {name}", min(times_s), "s", at_most(0.1, checked=False))


def _append(report: Report) -> None:
    """Measure that an appended message costs only the tail of its transcript."""
    prose = Prose()
    with place() as where:
        chats = _configure(where, provider="local")
        file = chats / "long.jsonl"
        with file.open("w", encoding="utf-8") as chat:
            for number in range(MESSAGES):
                chat.write(_line(number, f"{number} {' '.join(prose.words(20))}"))
        with daemon(where), where.client() as client:
            until_ready(where)
            report.note(f"indexing a transcript of {MESSAGES:,} messages ...")
            client.sync()
            before = client.status()
            times_s = []
            for number in range(20):
                with file.open("a", encoding="utf-8") as chat:
                    chat.write(_line(number, " ".join(prose.words(20))))
                started = time.perf_counter()
                client.sync()
                times_s.append(time.perf_counter() - started)
            after = client.status()
        read, chunks = _read_again(file, " ".join(prose.words(20)))
    title = f"a transcript of {MESSAGES:,} messages"
    report.add(f"bytes read for a message, {title}", read, "B", at_most(5_000))
    report.add(f"rows written for a message, {title}", chunks, "chunks", at_most(2))
    embedded = (after.cache.misses - before.cache.misses) / len(times_s)
    report.add_times(f"message appended → searchable, {title}", times_s)
    report.add(
        f"chunks embedded for a message, {title}",
        embedded,
        f"of {after.chunks:,}",
        at_most(1.5),
    )


def _read_again(file: Path, text: str) -> tuple[int, int]:
    """Return the bytes read and the chunks made for one more message."""
    options = DeltaOptions(
        detect=partial(detect, enabled=("plain",)),
        by_name=by_name,
        rules=ReadingRules(Redactor()),
        base=lambda path: path.parent,
        unpack_in=file.parent,
        tokens=400,
        max_bytes=8_000,
    )
    before = read_delta(file, base=None, options=options)
    with file.open("a", encoding="utf-8") as chat:
        chat.write(_line(MESSAGES, text))
    after = read_delta(file, base=before.state, options=options)
    return after.bytes_read, len(after.chunks)


def _import(report: Report, count: int, total: int) -> None:
    prose = Prose()
    texts = [" ".join(prose.words(MESSAGE_WORDS)) for _ in range(2_000)]
    with place() as where, echo(where) as bare:
        chats = _configure(where, provider="none")
        report.note(f"writing {count:,} transcripts, {total / 1e9:.1f} GB ...")
        for number in range(count):
            _write(chats / f"{number % 40:02}" / f"{number}.jsonl", number, total // count, texts)
        write_notes(where.workspace, NOTES, prose, sections=3)
        report.note("importing ...")
        started = time.perf_counter()
        with daemon(where) as process:
            until_ready(where)
            idle = resident_bytes(process.pid)
            with contextlib.closing(Prober(where.socket, bare)) as prober:
                with where.client() as client:
                    notes_s = _until(client, started, "memory", NOTES)
                rounds = prober.rounds(indexing(where))
                taken_s = time.perf_counter() - started
            with where.client() as client:
                status = client.status()
            peak = peak_bytes(process.pid)
    title = f"{count:,} transcripts of {total / 1e9:.1f} GB"
    report.add(f"until all notes are searchable, {title}", notes_s, "s")
    report.add(f"until all is searchable, {title}", taken_s, "s", chunks=status.chunks)
    report.add(f"imported, {title}", total / MIB / taken_s, "MiB/s")
    report.add_times(f"ping meanwhile, {title}", rounds.ping_s)
    report.add(
        f"ping ÷ echo meanwhile, p99, {title}",
        percentile(rounds.ping_s, 99) / percentile(rounds.echo_s, 99),
        "×",
        at_most(3.0),
    )
    report.add(f"memory above idle, at most, {title}", (peak - idle) / MIB, "MiB", at_most(200.0))


def _configure(where: Place, *, provider: str) -> Path:
    chats = where.root / "chats"
    chats.mkdir()
    where.configure(
        f'provider = "{provider}"\nsessions = {{ enabled = true, paths = ["{chats}"] }}'
    )
    return chats


def _line(number: int, text: str) -> str:
    return json.dumps({"role": ("user", "assistant")[number % 2], "content": text}) + "\n"


def _write(file: Path, seed: int, size: int, texts: list[str]) -> None:
    """Write a transcript: pairs of messages with tool output in between."""
    file.parent.mkdir(exist_ok=True)
    tool = json.dumps({"role": "toolResult", "content": "x" * TOOL_BYTES}) + "\n"
    with file.open("w", encoding="utf-8") as chat:
        written = number = 0
        while written < size:
            text = f"{seed} {number} {texts[(seed * 31 + number) % len(texts)]}"
            line = _line(number, text) + (tool if number % 2 else "")
            written += chat.write(line)
            number += 1


def _until(client: Client, started: float, source: str, count: int) -> float:
    while _indexed(client, source) < count:
        if time.perf_counter() - started > GIVE_UP_S:
            raise MemorydError(f"{source} was not indexed within {GIVE_UP_S:g} s")
        time.sleep(0.05)
    return time.perf_counter() - started


def _indexed(client: Client, source: str) -> int:
    return next((c.files for c in client.status().source_counts if c.source == source), 0)
