"""Searches of LoCoMo's conversations: through the socket, and in one process with known vectors.

Run by `python -m bench search` if `MEMORYD_BENCH_DATA` names the folder with the public sets.
"""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.corpus import open_store, unit_vectors
from bench.daemon import Place, daemon, place
from bench.figures import Report, at_least, at_most, percentile
from bench.quality import locomo
from bench.quality.options import QUIET, to_toml
from memoryd.config.load import AgentConfig
from memoryd.config.settings import QuerySettings
from memoryd.embed.local import CALIBRATION, WINDOW_UNITS, LocalProvider
from memoryd.embed.windows import window_of_each_line
from memoryd.index.driver import Connection
from memoryd.search.engine import SearchEngine
from memoryd.search.retrievers import VectorRetriever
from memoryd.text.tokenize import phrases, query_terms
from memoryd_client import Client
from memoryd_client.schema.search import SearchBody

DATA_ENV = "MEMORYD_BENCH_DATA"
CONVERSATIONS = 5
WARM_UP = 40
"""Questions before the first one that is measured."""
CLIENTS = 8
SIX, TWENTY, ONE, KEYWORDS = "six results", "twenty results", "one result", "six, keywords alone"
KINDS: dict[str, tuple[int, str]] = {
    SIX: (6, "hybrid"),
    TWENTY: (20, "hybrid"),
    ONE: (1, "hybrid"),
    KEYWORDS: (6, "keyword"),
}
"""Number of results and mode of each kind of search."""
_BARE_SQL = "SELECT rowid, rank FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank LIMIT 24"
Vector = NDArray[np.float32]


def measure(report: Report, *, quick: bool) -> None:
    """Measure the conversations if their folder is named."""
    data = os.environ.get(DATA_ENV)
    if data is None:
        report.note(f"skipping LoCoMo: ${DATA_ENV} names no folder with the public sets")
        return
    five = locomo.conversations(Path(data))[:CONVERSATIONS]
    notes = {path: text for each in five for path, text in each.notes.items()}
    questions = [question.text for each in five for question in each.questions]
    questions = questions[:: 8 if quick else 2]
    with place() as where:
        for path, text in notes.items():
            file = where.workspace / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        config = where.configure(to_toml(QUIET))
        report.note(f"indexing LoCoMo: {len(notes)} notes ...")
        _through_the_socket(report, where, questions)
        asyncio.run(_in_process(report, config, questions))


def _through_the_socket(report: Report, where: Place, questions: list[str]) -> None:
    with daemon(where) as process, where.client() as client:
        client.index()
        client.sync()
        for question in questions[:WARM_UP]:
            client.search(question)
        questions = questions[WARM_UP:]
        times_s: dict[str, list[float]] = {kind: [] for kind in KINDS}
        cpu_s: dict[str, list[float]] = {kind: [] for kind in KINDS}
        # All kinds of one question in turn, so that a change of the load affects all alike; each
        # question is new to one kind.
        order = list(KINDS)
        for question in questions:
            for kind in order:
                most, mode = KINDS[kind]
                before, started = _cpu_s(process.pid), time.perf_counter()
                client.search(question, max_results=most, mode=mode)
                times_s[kind].append(time.perf_counter() - started)
                cpu_s[kind].append(_cpu_s(process.pid) - before)
            order.append(order.pop(0))
        for kind in KINDS:
            report.add_times(f"through the socket, LoCoMo, {kind}", times_s[kind])
            report.add_times(f"CPU of the daemon, LoCoMo, {kind}", cpu_s[kind])
        ratio = percentile(cpu_s[TWENTY], 50) / percentile(cpu_s[SIX], 50)
        report.add("twenty results ÷ six, CPU, LoCoMo", ratio, "×", at_most(1.5))
        with ThreadPoolExecutor(CLIENTS) as threads:
            one = _per_second(threads, [client], questions)
            clients = [where.client() for _ in range(CLIENTS)]
            several = _per_second(threads, clients, questions)
        for each in clients:
            each.close()
        gain = several / one
        report.add(f"{CLIENTS} clients ÷ one, searches a second, LoCoMo", gain, "×", at_least(1.2))


def _per_second(threads: ThreadPoolExecutor, clients: list[Client], questions: list[str]) -> float:
    """Return how many searches a second clients get that ask at the same time."""

    def ask(number: int) -> None:
        for question in questions[number :: len(clients)]:
            clients[number].search(question)

    started = time.perf_counter()
    list(threads.map(ask, range(len(clients))))
    return len(questions) / (time.perf_counter() - started)


async def _in_process(report: Report, config: AgentConfig, questions: list[str]) -> None:
    """Compare whole searches with a bare FTS5 query and one product of a matrix."""
    provider = LocalProvider()
    vectors = {text: (await provider.embed_query(text)).reshape(-1) for text in questions}
    await provider.close()

    async def embed(text: str) -> Vector:
        return vectors[text] if text in vectors else next(iter(vectors.values()))

    lines = partial(window_of_each_line, units=WINDOW_UNITS)
    store = open_store(config)
    await store.open()
    try:
        await store.load_matrix()
        matrix = unit_vectors(0 if store.matrix is None else len(store.matrix))
        retriever = VectorRetriever(embed, CALIBRATION.apply, lambda: None, lines)
        engine = SearchEngine(store, QuerySettings(), retriever)
        for question in questions[:WARM_UP]:
            await engine.search(SearchBody(query=question))
        search_s: list[float] = []
        bare_s: list[float] = []
        for question in questions[WARM_UP:]:
            started = time.perf_counter()
            await engine.search(SearchBody(query=question))
            searched = time.perf_counter()
            await store.readers.read(partial(_bare, matrix, question, vectors[question]))
            search_s.append(searched - started)
            bare_s.append(time.perf_counter() - searched)
    finally:
        await store.close()
    report.add_times("whole search, LoCoMo, vector known", search_s)
    report.add_times("bare FTS5 query and one matrix product, LoCoMo", bare_s)
    whole, bare = percentile(search_s, 50), percentile(bare_s, 50)
    report.add("whole search ÷ bare, LoCoMo", whole / bare, "×", at_most(4))
    spread = percentile(search_s, 99) / whole
    report.add("p99 ÷ p50 of whole search, LoCoMo", spread, "×", at_most(2.5))


def _bare(matrix: Vector, question: str, vector: Vector, connection: Connection) -> None:
    expression = " OR ".join(text for term in query_terms(question) for text in phrases(term))
    connection.execute(_BARE_SQL, (expression,)).fetchall()
    np.argpartition(matrix @ vector, len(matrix) - 24)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process. Linux only."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total_ns += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue  # the thread has just ended
    return total_ns / 1e9
