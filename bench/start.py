"""The first question: right after a start, and after the idle model was unloaded.

The model's cache is made before. A search waits `local.load_wait_ms` for the model; then keywords
answer alone, which counts as an answer without vectors.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from bench.corpus import Prose, write_notes
from bench.daemon import Place, daemon, environment, place, until_ready
from bench.figures import Report, at_least, at_most
from memoryd.embed import worker
from memoryd.embed.model_cache import make
from memoryd_client import Client, SearchResult

NOTES = 100
STARTS, QUICK_STARTS = 20, 5
GREETED_S = 0.5
"""Pause between the connection of a client that stays and its first question."""
_BARE = "import numpy"
_LOADED = (
    "import sys; from pathlib import Path\n"
    f"from {worker.__name__} import load\n"
    "load(1, Path(sys.argv[1])).encode(['Which boiler?'])"
)


def run(report: Report, *, quick: bool) -> None:
    """Measure the processor time of loading, then first questions in both states."""
    starts = QUICK_STARTS if quick else STARTS
    with place() as where:
        cache = where.root / "memoryd" / "model-cache"
        make(cache)
        bare = min(_cpu_s(_BARE) for _ in range(starts))
        loaded = min(_cpu_s(_LOADED, str(cache)) for _ in range(starts))
        report.add("processor time until the model's first vector", loaded * 1000, "ms")
        report.add("÷ that of importing numpy, with Python's start", loaded / bare, "×", at_most(2))
        settings = 'provider = "local"\nlocal.idle_unload_seconds = 1'
        where.configure(settings)
        write_notes(where.workspace, NOTES, Prose(), sections=1)
        with _daemon(where), where.client() as client:
            client.sync()
        _report(report, "after a start", _after_starts(where, starts))
        _report(report, "after idle unloading", _after_unloading(where, starts))


def _report(report: Report, when: str, asked: list[tuple[float, bool]]) -> None:
    most = at_most(300.0, checked=False)
    report.add_times(f"first question, {when}", [taken for taken, _ in asked], most)
    share = sum(found for _, found in asked) / len(asked)
    report.add(f"first questions with vectors, {when}", share, "", at_least(0.95, checked=False))


def _after_starts(where: Place, starts: int) -> list[tuple[float, bool]]:
    """Ask each daemon one question as soon as it answers a ping."""
    asked = []
    for number in range(starts):
        with _daemon(where):
            until_ready(where)
            with where.client() as client:
                asked.append(_ask(client, number))
    return asked


def _after_unloading(where: Place, times: int) -> list[tuple[float, bool]]:
    """Ask when the model is unloaded and a client that stays has just connected."""
    asked = []
    with _daemon(where) as process:
        until_ready(where)
        for number in range(times):
            _until(lambda: not _children(process.pid))
            with where.client() as client:
                client.ping()
                time.sleep(GREETED_S)
                asked.append(_ask(client, number))
    return asked


def _daemon(where: Place) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Return a daemon with a state folder of its own, whose cache no other memoryd changes."""
    return daemon(where, {"XDG_STATE_HOME": str(where.root)})


def _ask(client: Client, number: int) -> tuple[float, bool]:
    """Return the seconds of a new question, and whether vectors took part."""
    question = Prose(seed=number).question()
    started = time.perf_counter()
    result: SearchResult = client.search(question)
    return time.perf_counter() - started, result.mode == "hybrid"


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def _until(holds: Callable[[], bool]) -> None:
    end = time.perf_counter() + 60.0
    while not holds() and time.perf_counter() < end:
        time.sleep(0.05)


def _cpu_s(code: str, *arguments: str) -> float:
    """Return the processor time of a Python process."""
    before = _cpu_of_children_s()
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment(), check=True)
    return _cpu_of_children_s() - before


def _cpu_of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
