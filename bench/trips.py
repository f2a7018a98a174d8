"""Modules and functions that one saved note and one hybrid search run through in the daemon.

`python -m bench trips [--list]` runs the daemon under a profile hook, saves one note, asks one
question and subtracts everything that an idle daemon runs in the same time. Only `memoryd` and
`memoryd_client` count; the process of the local model is not traced.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from bench.daemon import Place, daemon, place, until_ready
from bench.figures import Report, at_most

TARGETS = {"saved note": 40, "hybrid search": 50}
"""Maximum number of modules."""
TRIP_S = 4.0
"""Seconds of one trip, idle ones included: enough for the debounce and the embedding."""
ANSWER_S = 10.0
_PACKAGES = ("memoryd", "memoryd_client")
_OUTPUT = "MEMORYD_BENCH_TRIP"
"""Environment variable: the file that the traced daemon writes each trip to."""

Calls = set[tuple[str, str]]
"""(module, qualified name) of every function that ran."""


def main(argv: list[str]) -> int:
    """Measure both trips and print a line each. Returns 1 if one has too many modules."""
    parser = argparse.ArgumentParser(prog="python -m bench trips", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the modules of each trip")
    arguments = parser.parse_args(argv)
    with place() as where:
        trips = _measure(where)
    missed = False
    for name, calls in trips.items():
        modules = Counter(module for module, _ in calls)
        missed |= len(modules) > TARGETS[name]
        print(
            f"{name}: {len(modules)} modules (target ≤ {TARGETS[name]}), {len(calls)} functions",
            flush=True,
        )
        if arguments.list:
            print("\n".join(f"  {modules[module]:3} {module}" for module in sorted(modules)))
    return int(missed)


def run(report: Report, *, quick: bool) -> None:
    """Count the modules and functions of both trips; `quick` changes nothing."""
    with place() as where:
        for name, calls in _measure(where).items():
            modules = {module for module, _ in calls}
            report.add(f"modules, {name}", len(modules), "", at_most(TARGETS[name]))
            report.add(f"functions, {name}", len(calls), "")


def _measure(where: Place) -> dict[str, Calls]:
    """Return the calls of a saved note and of a search, without those of an idle daemon."""
    note = where.workspace / "memory" / "boiler.md"
    note.parent.mkdir()
    note.write_text("# Boiler\n\nThe pressure of the boiler is 1.5 bar.\n", encoding="utf-8")
    where.configure('provider = "local"')
    output = where.root / "trip.json"
    module = ("-m", "bench.trips")
    with daemon(where, {_OUTPUT: str(output)}, module) as process, where.client() as client:
        until_ready(where)
        client.sync()
        # Fills the caches that only the first search fills.
        client.search("boiler pressure")

        def trip(act: Callable[[], object]) -> Calls:
            os.kill(process.pid, signal.SIGUSR1)
            time.sleep(0.3)
            act()
            time.sleep(TRIP_S)
            os.kill(process.pid, signal.SIGUSR1)
            return _read(output)

        idle = trip(lambda: None) | trip(lambda: None)
        changed = "# Boiler\n\nThe boiler has a pressure of 1.7 bar now.\n"
        saved = trip(lambda: note.write_text(changed, encoding="utf-8"))
        searched = trip(lambda: client.search("how high is the pressure?"))
    return {"saved note": saved - idle, "hybrid search": searched - idle}


def _read(output: Path) -> Calls:
    deadline = time.monotonic() + ANSWER_S
    while not output.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    calls = {(module, name) for module, name in json.loads(output.read_bytes())}
    output.unlink()
    return calls


def _run_daemon() -> int:
    """Run memoryd with its calls recorded between one SIGUSR1 and the next."""
    output = Path(os.environ.pop(_OUTPUT))
    calls: Calls = set()
    recording = False

    def hook(frame: FrameType, event: str, _: object) -> None:
        if recording and event == "call":
            module = str(frame.f_globals.get("__name__"))
            if module.partition(".")[0] in _PACKAGES:
                calls.add((module, frame.f_code.co_qualname))

    def toggle(*_: object) -> None:
        nonlocal recording
        if recording:
            part = output.with_suffix(".part")
            part.write_text(json.dumps(sorted(calls)), encoding="utf-8")
            part.rename(output)
            calls.clear()
        recording = not recording

    signal.signal(signal.SIGUSR1, toggle)
    threading.setprofile(hook)
    sys.setprofile(hook)
    from memoryd.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(_run_daemon())
