"""Latency of `ping` while the daemon indexes, and of `memctl` as a process.

`ping` alternates with a bare asyncio echo server in a separate process, and `memctl search` with
`python -c pass`, so that both sides meet the same load.
"""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.corpus import SECTIONS_PER_NOTE, Prose, write_notes
from bench.daemon import READY_S, Place, daemon, environment, place, until_ready
from bench.figures import Report, at_most, percentile
from memoryd_client.schema.memory import Empty
from memoryd_client.wire.framing import HEADER_BYTES, pack
from memoryd_client.wire.protocol import PROTOCOL_MAX, PROTOCOL_MIN, Hello, Op, Request, raw

CHUNKS = 10_000
TIMES = 4
"""Number of repetitions, because one takes less than a second, too short for a p99."""
PROBE_PAUSE_S = 0.001
"""Pause between two probes, so that the prober itself is no load."""
IDLE_S = 2.0
EMBEDDING_S = 20.0
"""Seconds observed of the embedding, which takes minutes for 10,000 chunks."""
PROCESS_RUNS = 60
QUICK_RUNS = 30


def run(report: Report, *, quick: bool) -> None:
    """Measure with keywords only, with the local model, and `memctl`."""
    times = 1 if quick else TIMES
    _pings(report, "none", times, embedding_s=0.0)
    _pings(report, "local", times, embedding_s=EMBEDDING_S / 4 if quick else EMBEDDING_S)
    _processes(report, QUICK_RUNS if quick else PROCESS_RUNS)


@dataclass(slots=True)
class Rounds:
    """Round-trip seconds of the daemon and of the echo server."""

    ping_s: list[float] = field(default_factory=list)
    echo_s: list[float] = field(default_factory=list)


class Prober:
    """Two blocking connections, to the daemon and to the echo server, used in turn."""

    def __init__(self, daemon_socket: str, echo_socket: str) -> None:
        self._daemon = _connected(daemon_socket)
        self._echo = _connected(echo_socket)
        _ask(self._daemon, pack(Hello(PROTOCOL_MIN, PROTOCOL_MAX, "bench")))
        self._last_id = 0

    def rounds(self, under_way: Callable[[], bool], rounds: Rounds | None = None) -> Rounds:
        """Probe while `under_way()` is true; add to `rounds` if given."""
        rounds = rounds or Rounds()
        while under_way():
            self._last_id += 1
            frame = pack(Request(self._last_id, Op.PING, raw(Empty()), None))
            rounds.ping_s.append(_ask(self._daemon, frame))
            time.sleep(PROBE_PAUSE_S)
            rounds.echo_s.append(_ask(self._echo, frame))
            time.sleep(PROBE_PAUSE_S)
        return rounds

    def close(self) -> None:
        """Close both connections."""
        self._daemon.close()
        self._echo.close()


def _pings(report: Report, provider: str, times: int, *, embedding_s: float) -> None:
    """Probe while notes become searchable by keywords, then while they are embedded."""
    title = f"indexing {'without a provider' if provider == 'none' else 'with the bundled model'}"
    with place() as where, echo(where) as bare:
        where.configure(f'provider = "{provider}"')
        (where.workspace / "memory").mkdir()
        with daemon(where):
            until_ready(where)
            with contextlib.closing(Prober(where.socket, bare)) as prober:
                if not embedding_s:
                    _add(report, prober.rounds(_for(IDLE_S)), "idle")
                report.note(f"indexing {CHUNKS:,} chunks, provider {provider}, {times} times ...")
                busy = Rounds()
                for number in range(times):
                    notes = where.root / f"new{number}"
                    write_notes(notes, CHUNKS // SECTIONS_PER_NOTE, Prose(seed=number))
                    (notes / "memory").rename(where.workspace / "memory" / notes.name)
                    prober.rounds(indexing(where), busy)
                _add(report, busy, title)
                if embedding_s:
                    _add(report, prober.rounds(_for(embedding_s)), "embedding")


def _add(report: Report, rounds: Rounds, when: str) -> None:
    ratio = percentile(rounds.ping_s, 99) / percentile(rounds.echo_s, 99)
    report.add_times(f"ping, {when}", rounds.ping_s, None, at_most(20.0, checked=False))
    report.add_times(f"bare echo, {when}", rounds.echo_s)
    report.add(f"ping ÷ bare echo, p99, {when}", ratio, "×", at_most(3.0))
    report.add(f"longest ping, {when}", max(rounds.ping_s) * 1000, "ms")


def _for(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def indexing(where: Place) -> Callable[[], bool]:
    """Sync in a thread; return a function that tells whether the sync is still running."""
    done = threading.Event()

    def wait() -> None:
        try:
            with where.client() as client:
                client.sync(vectors=False)
        finally:
            done.set()

    threading.Thread(target=wait, daemon=True).start()
    return lambda: not done.is_set()


def _processes(report: Report, runs: int) -> None:
    memctl = Path(sys.executable).with_name("memctl")
    with place() as where:
        where.configure('provider = "local"')
        write_notes(where.workspace, 100, Prose(), sections=1)
        question = Prose().question()
        search = [str(memctl), "--socket", where.socket, "search", question]
        bare = [sys.executable, "-c", "pass"]
        with daemon(where):
            until_ready(where)
            with where.client() as client:
                client.sync()
            ours_s: list[float] = []
            bare_s: list[float] = []
            for _ in range(runs):
                ours_s.append(_process(search))
                bare_s.append(_process(bare))
    # The first runs compile modules and warm the system's caches.
    del ours_s[0], bare_s[0]
    ratio = percentile(ours_s, 50) / percentile(bare_s, 50)
    report.add_times("memctl search as a process", ours_s)
    report.add_times("python -c pass", bare_s)
    report.add("memctl search ÷ python -c pass, p50", ratio, "×", at_most(6.0))


def _process(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


@contextlib.contextmanager
def echo(where: Place) -> Iterator[str]:
    """Run the echo server; yield its socket."""
    path = str(where.root / "echo.sock")
    script = Path(__file__).with_name("echo.py")
    process = subprocess.Popen([sys.executable, str(script), path], env=environment())
    try:
        yield path
    finally:
        process.terminate()
        process.wait()


def _connected(path: str) -> socket.socket:
    end = time.perf_counter() + READY_S
    while True:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(path)
            return made
        except OSError:
            made.close()
            if time.perf_counter() > end:
                raise
            time.sleep(0.01)


def _ask(connection: socket.socket, frame: bytes) -> float:
    started = time.perf_counter()
    connection.sendall(frame)
    header = connection.recv(HEADER_BYTES, socket.MSG_WAITALL)
    connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)
    return time.perf_counter() - started
