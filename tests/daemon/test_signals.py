"""Signals at any time: graceful stop, immediate stop, configuration reload."""

import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from harness import Daemon
from hung_disk import hung_disk
from peers import Peer
from serving import serving
from vendors import Fault, OpenAiDouble
from waiting import PATIENCE_S, eventually

from memoryd_client.errors import MemorydError
from memoryd_client.schema.memory import IndexBody, SyncBody
from memoryd_client.schema.search import SearchBody
from memoryd_client.wire.protocol import PROTOCOL_MAX, Error, Hello, Request, Result, Welcome, raw

pytestmark = pytest.mark.own_process

KEY = "sk-double-Zq7Zq7Zq7Zq7"
NO_UVLOOP = "raise ImportError('this test goes without')\n"
FILES = 400


def send(daemon: Daemon, number: signal.Signals) -> None:
    assert daemon.process is not None
    daemon.process.send_signal(number)


def wait(daemon: Daemon) -> int:
    assert daemon.process is not None
    return daemon.process.wait(timeout=PATIENCE_S)


def check_the_end(daemon: Daemon, code: int) -> None:
    """Check that no work was abandoned, no file is incomplete, and no leftovers remain."""
    assert code == 0, daemon.log()
    log = daemon.log()
    assert "did not stop within" not in log
    assert "Traceback" not in log
    assert not daemon.socket.exists()
    with sqlite3.connect(daemon.database) as index:
        assert index.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    index.close()
    assert not Path(f"{daemon.database}-wal").exists()


def check_the_next_start(daemon: Daemon, files: int) -> None:
    daemon.start().sync()
    with daemon.client() as client:
        status = client.status()
        assert (status.files, status.failures) == (files, [])
        assert client.search(f"number{files - 1}", mode="keyword").results
    assert daemon.stop() == 0


@pytest.fixture
def many(daemon: Daemon) -> Daemon:
    for number in range(FILES):
        daemon.write(f"memory/{number}.md", f"a common word and number{number}\n" * 5)
    return daemon


@pytest.fixture
def openai(daemon: Daemon) -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY)) as double:
        daemon.provider = "openai"
        daemon.settings += f'\n[defaults.remote]\nbase_url = "{double.url}"\n'
        daemon.variables["OPENAI_API_KEY"] = KEY
        try:
            yield double
        finally:
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.kill()  # the double waits for its connected clients


def test_a_stop_while_everything_is_indexed_for_the_first_time(many: Daemon) -> None:
    many.start()
    check_the_end(many, many.stop())
    check_the_next_start(many, FILES)


@pytest.mark.parametrize(
    "op", ["index", *(pytest.param(op, marks=pytest.mark.long) for op in ("search", "sync"))]
)
def test_a_stop_with_many_requests_in_flight_answers_each(many: Daemon, op: str) -> None:
    body = {"search": SearchBody("common"), "sync": SyncBody(), "index": IndexBody(force=True)}[op]
    many.start().sync()
    peers = [Peer(str(many.socket)).greet() for _ in range(2)]
    for peer in peers:
        peer.send(*(Request(number, op, raw(body)) for number in range(25)), Request(25, "ping"))
    answers = [[peer.answer()] for peer in peers]
    for peer, answered in zip(peers, answers, strict=True):
        while answered[-1].id != 25:  # From here on all requests are in flight, or answered.
            answered.append(peer.answer())
    code = many.stop()
    for peer, answered in zip(peers, answers, strict=True):
        answered += [peer.answer() for _ in range(26 - len(answered))]
        assert sorted(answer.id or 0 for answer in answered) == list(range(26))
        codes = {answer.code for answer in answered if isinstance(answer, Error)}
        assert codes <= {"shutting_down", "unavailable"}
        peer.close()
    check_the_end(many, code)
    check_the_next_start(many, FILES)


@pytest.mark.long
def test_a_stop_while_a_large_file_is_written(daemon: Daemon) -> None:
    daemon.start().sync()
    line = "a common word and much else\n"
    large = daemon.write("memory/large.md", line * 300_000)
    daemon.write("memory/0.md", "number1")
    with daemon.client() as client:
        eventually(lambda: client.status().pending_files > 0)
    check_the_end(daemon, daemon.stop())
    large.write_text("number0 is all that is left")
    check_the_next_start(daemon, 2)


def test_a_stop_while_the_provider_never_answers(many: Daemon, openai: OpenAiDouble) -> None:
    openai.fail(Fault.SLOW, times=1_000)
    many.start()
    with many.client() as client:
        client.sync(vectors=False)
        # Keyword searches do not wait for the provider either.
        found = client.search("number7", mode="keyword")
        assert (found.mode, found.results[0].path) == ("keyword", "memory/7.md")
    check_the_end(many, many.stop())
    openai.heal()
    check_the_next_start(many, FILES)


@pytest.mark.long
def test_a_stop_while_a_batch_job_is_asked_for(many: Daemon, openai: OpenAiDouble) -> None:
    many.settings += "[defaults.remote.batch]\nenabled = true\npoll_interval_ms = 10\n"
    openai.batch.outcome = "stuck"
    many.start().sync()
    eventually(lambda: bool(openai.batch.jobs) and openai.batch.jobs[0].polls > 2)
    check_the_end(many, many.stop())
    openai.batch.outcome = "completed"
    check_the_next_start(many, FILES)
    assert len(openai.batch.jobs) == 1


def test_suspended_and_resumed_it_goes_on_as_if_nothing_had_been(
    many: Daemon, openai: OpenAiDouble
) -> None:
    many.start().sync()
    with many.client() as client:
        assert client.ping()
        send(many, signal.SIGSTOP)
        many.write("memory/meanwhile.md", "a walrus came by")
        (many.workspace / "memory/7.md").unlink()
        with closing(Peer(str(many.socket))) as waiting:
            waiting.send(Hello(PROTOCOL_MAX, PROTOCOL_MAX, "test"), Request(1, "ping"))
            send(many, signal.SIGCONT)
            assert isinstance(waiting.receive(), Welcome)
            assert isinstance(waiting.answer(), Result)
        client.sync()
        assert [hit.path for hit in client.search("walrus").results][:1] == ["memory/meanwhile.md"]
        assert client.search('"number7"', mode="keyword").results == []
        assert (client.status().degraded, client.status().failures) == ([], [])
    many.assert_healthy()


def test_a_disk_that_hangs_delays_neither_words_nor_the_stop(daemon: Daemon) -> None:
    daemon.write("memory/0.md", "number0")
    daemon.start().sync()
    with hung_disk(daemon.workspace / "memory"):
        with daemon.client() as client:
            found = client.search("number0")
            assert [hit.path for hit in found.results] == ["memory/0.md"]
            assert any("does not answer" in warning for warning in found.warnings)
            with pytest.raises(MemorydError):
                client.get("memory/0.md", timeout_s=0.1)
            client.ping()
        code = daemon.stop()
    assert "exiting without waiting for threads on a hung disk" in daemon.log()
    check_the_end(daemon, code)
    check_the_next_start(daemon, 1)


# --- immediate stop


LOOPS = ["uvloop", "asyncio"]


@pytest.fixture
def loop(request: pytest.FixtureRequest, daemon: Daemon) -> str:
    """Both event loops, which handle signals differently."""
    if request.param == "asyncio":
        (daemon.folder / "model" / "uvloop.py").write_text(NO_UVLOOP)
    else:
        pytest.importorskip("uvloop")
    return str(request.param)


@pytest.mark.parametrize(
    ("loop", "second"),
    [("uvloop", signal.SIGTERM), ("asyncio", signal.SIGINT)],
    indirect=["loop"],
)
def test_the_second_signal_ends_it_at_once(
    daemon: Daemon, openai: OpenAiDouble, loop: str, second: signal.Signals
) -> None:
    # A provider that never answers makes the stop use its whole grace period.
    openai.fail(Fault.SLOW, times=1_000)
    daemon.write("memory/0.md", "number0")
    daemon.start()
    eventually(lambda: bool(openai.requests))
    send(daemon, signal.SIGTERM)
    eventually(lambda: signal_is_default(daemon, second))
    send(daemon, second)
    assert wait(daemon) == -second
    assert "Traceback" not in daemon.log()
    assert "memoryd.app: stopped" not in daemon.log()


def signal_is_default(daemon: Daemon, number: signal.Signals) -> bool:
    """Return whether the process has no own handler for a signal."""
    assert daemon.process is not None
    status = Path(f"/proc/{daemon.process.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
    return not int(caught.split()[1], 16) >> (number - 1) & 1


@pytest.mark.parametrize("loop", LOOPS, indirect=True)
def test_one_signal_is_an_end_in_order_with_either_loop(daemon: Daemon, loop: str) -> None:
    daemon.write("memory/0.md", "number0")
    daemon.start().sync()
    send(daemon, signal.SIGINT)
    check_the_end(daemon, wait(daemon))


def test_a_stop_that_comes_while_it_starts_is_an_end_in_order(many: Daemon) -> None:
    many.start(wait=False)
    eventually(lambda: "agent main: workspace" in many.log())
    check_the_end(many, many.stop())


# --- configuration reload


def bad_configurations(file: Path) -> dict[str, Callable[[], object]]:
    """Return corrupt versions of a configuration file."""

    def replace(make: Callable[[], object]) -> Callable[[], object]:
        def act() -> object:
            file.unlink()
            return make()

        return act

    return {
        "broken": lambda: file.write_text("nonsense = "),
        "no UTF-8": lambda: file.write_bytes(b"provider = '\xff'"),
        "gone": file.unlink,
        "a folder": replace(file.mkdir),
        "a link to itself": replace(lambda: file.symlink_to(file)),
        "endless": replace(lambda: file.symlink_to("/dev/zero")),
        "a FIFO": replace(lambda: os.mkfifo(file)),
    }


def put_back(daemon: Daemon) -> None:
    if daemon.config.is_dir() and not daemon.config.is_symlink():
        daemon.config.rmdir()
    daemon.config.unlink(missing_ok=True)
    daemon.write_config()


@pytest.mark.parametrize(
    "what",
    [
        *("broken", "gone", "a FIFO"),
        *(
            pytest.param(what, marks=pytest.mark.long)
            for what in ("no UTF-8", "a folder", "a link to itself", "endless")
        ),
    ],
)
def test_a_configuration_that_can_not_be_used_is_told_and_the_old_one_kept(
    daemon: Daemon, what: str
) -> None:
    daemon.write("memory/0.md", "number0")
    daemon.start().sync()
    bad_configurations(daemon.config)[what]()
    send(daemon, signal.SIGHUP)
    eventually(lambda: "the old configuration stays active" in daemon.log())
    with daemon.client() as client:
        assert any("configuration can't be reloaded" in line for line in client.status().degraded)
        assert len(client.search("number0").results) == 1
    put_back(daemon)
    send(daemon, signal.SIGHUP)
    with daemon.client() as client:
        eventually(lambda: client.status().degraded == [])
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log()


def test_hangups_in_a_hurry_and_while_it_starts_and_stops_harm_nothing(many: Daemon) -> None:
    many.start(wait=False)
    stop = threading.Event()

    def hurry() -> None:
        while not stop.wait(0.003):
            assert many.process is not None
            many.process.send_signal(signal.SIGHUP)

    # Before this moment Python itself is still starting, without a handler.
    eventually(lambda: not signal_is_default(many, signal.SIGHUP))
    thread = threading.Thread(target=hurry)
    thread.start()
    try:
        with many.client() as client:
            client.sync()
            assert client.search("number7").results
        code = many.stop()
    finally:
        stop.set()
        thread.join()
    check_the_end(many, code)


def test_a_hangup_brings_the_configuration_in_force_even_after_many(daemon: Daemon) -> None:
    daemon.start()
    daemon.add_agent("late")
    daemon.write_config()
    for _ in range(50):
        send(daemon, signal.SIGHUP)
    with daemon.client() as client:
        eventually(lambda: "late" in [agent.agent for agent in client.agents().agents])


# --- standard streams


def run_with(daemon: Daemon, script: str) -> "subprocess.Popen[bytes]":
    """Start the daemon by a shell script, as `"$@"`."""
    daemon.write_config()
    daemon.process = subprocess.Popen(
        ["bash", "-c", script, "-", *daemon.command("--config", str(daemon.config))],
        env=daemon.environment,
        cwd=daemon.folder,
        stdin=subprocess.DEVNULL,
    )
    return daemon.process


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(daemon: Daemon, closed: str) -> None:
    daemon.write("memory/0.md", "number0")
    process = run_with(daemon, f'exec "$@" {closed}')
    with daemon.client() as client:
        client.sync()
        assert client.search("number0").results
        # No file of memoryd has the number of a standard stream.
        for number in (0, 1, 2):
            target = os.readlink(f"/proc/{process.pid}/fd/{number}")
            assert target == "/dev/null" or not target.startswith(str(daemon.folder))
    daemon.config.write_text("nonsense = ")
    send(daemon, signal.SIGHUP)
    with daemon.client() as client:
        eventually(lambda: bool(client.status().degraded))
    assert daemon.stop() == 0


def test_a_log_that_nobody_takes_keeps_nobody_waiting(daemon: Daemon) -> None:
    daemon.write("memory/0.md", "number0")
    daemon.write_config()
    read, written = os.pipe()
    os.set_blocking(written, False)
    with suppress(BlockingIOError):
        while True:
            os.write(written, bytes(4096))
    os.set_blocking(written, True)
    daemon.process = subprocess.Popen(
        daemon.command("--config", str(daemon.config)),
        env=daemon.environment,
        cwd=daemon.folder,
        stderr=written,
    )
    os.close(written)
    with daemon.client() as client:
        client.sync()
        assert client.search("number0").results
    assert daemon.stop() == 0
    os.close(read)


def test_a_terminal_that_is_gone_does_no_harm(daemon: Daemon) -> None:
    daemon.write("memory/0.md", "number0")
    read, written = os.pipe()
    daemon.write_config()
    daemon.process = subprocess.Popen(
        daemon.command("--config", str(daemon.config)),
        env=daemon.environment,
        cwd=daemon.folder,
        stderr=written,
    )
    os.close(written)
    with daemon.client() as client:
        client.sync()
    os.close(read)
    daemon.config.write_text("nonsense = ")
    send(daemon, signal.SIGHUP)
    with daemon.client() as client:
        eventually(lambda: bool(client.status().degraded))
        assert client.search("number0").results
    assert daemon.stop() == 0
