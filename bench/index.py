"""Indexing by a real daemon: throughput, delay after saving, and memory."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench import first, large
from bench.corpus import SECTIONS_PER_NOTE, Prose, build_index, write_notes
from bench.daemon import Place, daemon, place, until_ready
from bench.figures import Report, at_most
from memoryd.daemon.malloc import GIVE_BACK_EVERY_S
from memoryd.embed.local import LocalProvider
from memoryd_client import Client, MemorydError

FILES = 500
SECTIONS = 2
LARGE_CHUNKS = 10_000
SAVES = 40
DEBOUNCE_MS = 50
SETTLE_S = GIVE_BACK_EVERY_S + 5.0
GIVE_UP_S = 30.0
BARE_TEXTS = 100

IDLE_S = 8.0
"""After that the writer has emptied its log."""


def run(report: Report, *, quick: bool) -> None:
    """Measure first indexings, huge files, then edits and saves in a large workspace."""
    first.run(report, quick=quick)
    large.run(report, quick=quick)
    _first_indexing(report, files=FILES // 10 if quick else FILES)
    _large_workspace(report, chunks=LARGE_CHUNKS // 5 if quick else LARGE_CHUNKS)


def _first_indexing(report: Report, *, files: int) -> None:
    prose = Prose()
    with place() as where:
        where.configure('provider = "local"')
        write_notes(where.workspace, files, prose, sections=SECTIONS)
        report.note(f"indexing {files} files with the bundled model ...")
        started = time.perf_counter()
        with daemon(where), where.client() as client:
            searchable = client.sync(vectors=False)
            text_s = time.perf_counter() - started
            client.sync()
            vectors_s = time.perf_counter() - started
            time.sleep(IDLE_S)
            running = sum(file.stat().st_size for file in where.root.glob("index.sqlite*"))
        stored = (where.root / "index.sqlite").stat().st_size
        markdown = sum(file.stat().st_size for file in where.workspace.rglob("*.md"))
    chunks = searchable.chunks
    title = f"{searchable.files} files of {SECTIONS} chunks"
    report.add(f"cold start to keyword-searchable, {title}", text_s, "s")
    report.add(f"keyword-searchable from cold, {title}", chunks / text_s, "chunks/s")
    report.add(f"embedded from cold, {title}", chunks / vectors_s, "chunks/s")
    bare = asyncio.run(_bare_model(prose))
    share = chunks / (vectors_s - text_s) / bare
    report.add(f"index ÷ Markdown, with vectors, {title}", stored / markdown, "×", at_most(7.0))
    growth = running / stored
    report.add("all files of the index while running ÷ the index", growth, "×", at_most(1.3))
    report.add("embedded by the model alone", bare, "chunks/s", samples=BARE_TEXTS)
    report.add("embedding in the daemon ÷ the model alone", share, "×")


async def _bare_model(prose: Prose) -> float:
    """Return the chunks per second that the bundled model embeds by itself."""
    provider = LocalProvider()
    try:
        texts = [prose.note(1) for _ in range(BARE_TEXTS)]
        await provider.embed_documents(texts[:1])
        started = time.perf_counter()
        await provider.embed_documents(texts)
        return BARE_TEXTS / (time.perf_counter() - started)
    finally:
        await provider.close()


def _large_workspace(report: Report, *, chunks: int) -> None:
    with place() as where:
        sync = f"sync = {{ watch_debounce_ms = {DEBOUNCE_MS}, on_search = %s }}"
        config = where.configure(f'provider = "local"\n{sync % "false"}')
        report.note(f"building a workspace of {chunks:,} chunks ...")
        write_notes(
            where.workspace, chunks // SECTIONS_PER_NOTE, Prose(), sections=SECTIONS_PER_NOTE
        )
        asyncio.run(build_index(config))
        title = f"{chunks:,} chunks"
        with _started(report, where, title) as client:
            _memory(report, client, title)
            _edit(report, where, client, title)
            _saves(report, where, client, f"after the debounce, {title}", less_s=DEBOUNCE_MS / 1000)
        where.configure(f'provider = "local"\n{sync % "true"}')
        with daemon(where), where.client() as client:
            client.sync()
            _saves(report, where, client, f"a search does not wait for the debounce, {title}")


@contextmanager
def _started(report: Report, where: Place, title: str) -> Iterator[Client]:
    with daemon(where):
        report.add(f"cold start to answered ping, {title}", until_ready(where), "s")
        with where.client() as client:
            yield client


def _memory(report: Report, client: Client, title: str) -> None:
    client.sync()
    time.sleep(SETTLE_S)
    status = client.status()
    assert status.vector.in_memory == status.chunks, "a vector is missing"
    assert status.rss_bytes is not None
    report.add(
        f"resident memory when idle, {title}",
        status.rss_bytes / 2**20,
        "MiB",
        at_most(70.0, checked=False),
        chunks=status.chunks,
    )


def _edit(report: Report, where: Place, client: Client, title: str) -> None:
    """Change one line of one note; `sync` checks every file and indexes only that one."""
    note = where.workspace / "memory" / "000" / "note-00000.md"
    client.search("warm the model")
    times_s: list[float] = []
    for number in range(10):
        lines = note.read_text(encoding="utf-8").split("\n")
        lines[2] = f"edited {number} {lines[2]}"
        note.write_text("\n".join(lines), encoding="utf-8")
        started = time.perf_counter()
        client.sync(vectors=False)
        times_s.append(time.perf_counter() - started)
    client.sync()
    before = client.status().cache.misses
    note.write_text(note.read_text(encoding="utf-8") + "\nOne more line.\n", encoding="utf-8")
    client.sync()
    report.add_times(f"sync after an edit of one line, {title}", times_s)
    report.add(
        f"chunks embedded for one line, {title}",
        client.status().cache.misses - before,
        f"of {SECTIONS_PER_NOTE}",
        at_most(1.0),
    )


def _saves(
    report: Report, where: Place, client: Client, title: str, *, less_s: float = 0.0
) -> None:
    """Save new notes with a unique word each, and search until it is found."""
    folder = where.workspace / "memory" / "000"
    client.search("load the model")
    times_s: list[float] = []
    for number in range(SAVES):
        word = f"zq{number}x{time.monotonic_ns()}"
        started = time.perf_counter()
        note = folder / f"{word}.md"
        note.write_text(f"# A thought\n\nAbout {word}.\n", encoding="utf-8")
        while not any(word in hit.snippet for hit in client.search(word).results):
            if time.perf_counter() - started > GIVE_UP_S:
                raise MemorydError(f"{note} was not found within {GIVE_UP_S:g} s")
        times_s.append(time.perf_counter() - started - less_s)
        # Only one at a time, because all these words are alike to the model.
        note.unlink()
        client.sync()
    target = at_most(100.0, checked=False)
    report.add_times(f"saved to keyword-searchable, {title}", times_s, target)
