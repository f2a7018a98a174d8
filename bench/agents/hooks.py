"""Times of `memctl hook`, from the start of its process to its end, as an agent sees them.

Cold: memoryd has just started, and neither its model nor its caches are warm. Busy: it indexes
notes, and clients search all the time. Warm: neither. A hook that is late says nothing, so the
share of those that answered counts too.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench.corpus import Prose, write_notes
from bench.daemon import Place, daemon, environment, place, until_ready
from bench.figures import Report, at_least, at_most

NOTES, NEW_NOTES = 300, 2_000
RUNS, QUICK_RUNS = 100, 20
STARTS = 10
"""Starts of a daemon for the cold runs; after each, a tenth of the runs follow at once."""
SEARCHERS = 2
_FACT = "- The Calda boiler in the pantry shows F28 when the pressure is low.\n"
_EVENTS = (
    ("SessionStart", {"source": "startup"}),
    ("UserPromptSubmit", {"prompt": "the Calda boiler in the pantry shows F28, what now?"}),
)


def run(report: Report, *, quick: bool) -> None:
    """Measure hooks that put text into a session, with a warm, a cold and a busy daemon."""
    runs = QUICK_RUNS if quick else RUNS
    with place() as where:
        where.configure('provider = "local"')
        write_notes(where.workspace, NOTES, Prose(), sections=1)
        (where.workspace / "MEMORY.md").write_text(_FACT, encoding="utf-8")
        with daemon(where), where.client() as client:
            client.index()
            _fire(where, 4)
            _report(report, "warm", _fire(where, runs))
            _report(report, "busy", _busy(where, runs))
        cold: list[tuple[float, bool]] = []
        for _ in range(STARTS):
            with daemon(where):
                until_ready(where)
                cold += _fire(where, max(2, runs // STARTS))
        _report(report, "cold", cold)


def _report(report: Report, state: str, fired: list[tuple[float, bool]]) -> None:
    limit = at_most(200.0, checked=False)
    report.add_times(f"hook, {state} daemon", [taken for taken, _ in fired], limit, limit)
    answered = sum(said for _, said in fired) / len(fired)
    goal = at_least(0.95, checked=False)
    report.add(f"hooks that answered, {state} daemon", answered, "", goal)


def _fire(where: Place, runs: int) -> list[tuple[float, bool]]:
    """Run hooks one after the other; return for each its seconds and whether it answered."""
    memctl = str(Path(sys.executable).with_name("memctl"))
    fired: list[tuple[float, bool]] = []
    for number in range(runs):
        name, more = _EVENTS[number % len(_EVENTS)]
        event = {"session_id": "s", "cwd": str(where.workspace), "hook_event_name": name, **more}
        command = [memctl, "hook", "claude", name, "--socket", where.socket]
        started = time.perf_counter()
        done = subprocess.run(
            command, input=json.dumps(event).encode(), capture_output=True, env=environment()
        )
        fired.append((time.perf_counter() - started, bool(done.stdout)))
        assert (done.returncode, done.stderr) == (0, b""), done
    return fired


def _busy(where: Place, runs: int) -> list[tuple[float, bool]]:
    """Run hooks while memoryd reads new notes and answers searches."""
    over = threading.Event()
    workers = [threading.Thread(target=_search, args=(where, over)) for _ in range(SEARCHERS)]
    write_notes(where.workspace, NEW_NOTES, Prose(seed=7), sections=2, first=NOTES)
    for worker in workers:
        worker.start()
    try:
        return _fire(where, runs)
    finally:
        over.set()
        for worker in workers:
            worker.join()


def _search(where: Place, over: threading.Event) -> None:
    prose = Prose(seed=3)
    with where.client() as client:
        while not over.is_set():
            client.search(prose.question())
