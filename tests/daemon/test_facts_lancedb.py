"""Facts in a LanceDB table: in a folder, and by two daemons in object storage."""

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from harness import Daemon
from waiting import PATIENCE_S, eventually

from memoryd_client import Client, Origin, errors

pytestmark = pytest.mark.long
BUCKET, INTERRUPTED = "facts-of-all", 20
PLUGIN_TABLE = Path(__file__).parents[1] / "fixtures" / "lancedb" / "plugin.zip"
"""A table that @lancedb/lancedb 0.39.0 has written in Node.js with the calls of OpenClaw's plugin
memory-lancedb: made with a row for the columns, which it deletes, then one fact of each of two
owners."""
CELLO, BEN = "Ana plays the cello", "935d6374-bf2b-4fd1-8dd0-336a89f4dc0c"


def lancedb_daemon(path: str, **variables: str) -> Daemon:
    pytest.importorskip("lancedb", exc_type=ImportError)
    settings = f'facts.store = "lancedb"\nfacts.lancedb.path = "{path}"'
    made = Daemon(provider="local", settings=settings)
    made.variables |= variables
    return made


def workers(daemon: Daemon) -> list[int]:
    """Return the processes of a daemon that hold a table."""
    assert daemon.process is not None
    children = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children").read_text()
    return [
        int(pid)
        for pid in children.split()
        if b"lance_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_facts_live_in_a_table_in_a_folder(tmp_path: Path) -> None:
    with lancedb_daemon(str(tmp_path / "facts")) as daemon:
        stored = daemon.memctl("facts", "store", "Ana can't eat hazelnuts", "--origin", "owner")
        assert stored.stdout.startswith("Stored: ")
        assert "Already known" in daemon.memctl("facts", "store", "Ana can't eat hazelnuts").stdout
        recalled = daemon.memctl_json("facts", "recall", "can Ana eat hazelnuts")
        assert recalled["facts"][0]["fact"]["origin"] == "owner"
        assert daemon.memctl_json("facts", "stats")["store"] == "lancedb"
        (worker,) = workers(daemon)
        assert daemon.process is not None
        maps = Path(f"/proc/{daemon.process.pid}/maps").read_text()
        assert "lance" not in maps, "the daemon itself never loads the library"
        daemon.stop()
        assert not Path(f"/proc/{worker}").exists()
        daemon.start()
        daemon.memctl("facts", "store", "Ben can't eat hazelnuts", "--owner", "ben")
        forgotten = daemon.memctl("forget", "--match", "EAT hazelnuts").stdout
        assert "0 messages in 0 transcripts, 1 fact\n" in forgotten
        assert "Ben" in daemon.memctl("facts", "list", "--owner", "ben").stdout, "it is not ours"
        assert daemon.memctl("facts", "list").stdout == "No facts\n"
        assert "unknown files" not in daemon.memctl("doctor").stdout


def test_a_table_of_the_plugin_opens_and_keeps_its_columns(tmp_path: Path) -> None:
    with zipfile.ZipFile(PLUGIN_TABLE) as packed:
        packed.extractall(tmp_path)
    with lancedb_daemon(str(tmp_path)) as daemon, daemon.client() as client:
        (cello,) = client.fact_recall("who plays the cello").facts
        assert (cello.fact.text, cello.fact.category, cello.fact.owner) == (CELLO, "fact", "main")
        assert client.fact_store("ana plays the CELLO.").duplicate
        tea = client.fact_store("Ana likes tea", category="preference", origin=Origin.OWNER).fact
        with pytest.raises(errors.UnavailableError, match="no column that could mark"):
            client.fact_store("Mallory is nice", origin=Origin.UNTRUSTED)
        assert client.fact_forget(fact_id=cello.fact.id).forgotten
        with pytest.raises(errors.NotFoundError):
            client.fact_forget(fact_id=BEN)
        assert [fact.text for fact in client.facts_page().facts] == ["Ana likes tea"]
    lancedb = pytest.importorskip("lancedb", exc_type=ImportError)
    table = lancedb.connect(str(tmp_path)).open_table("memories")
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert rows.keys() == {BEN, tea.id}
    written = rows[tea.id]
    assert [*written] == [*rows[BEN]]
    assert {name: type(value) for name, value in written.items()} == {
        name: type(value) for name, value in rows[BEN].items()
    }
    assert (written["agentId"], written["category"]) == ("main", "preference")
    assert written["createdAt"] == round(tea.created_at * 1000)
    assert sum(number * number for number in written["vector"]) == pytest.approx(1, abs=1e-3)


def test_a_storage_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with lancedb_daemon(str(tmp_path / "file" / "facts")) as daemon, daemon.client() as client:
        with pytest.raises(errors.UnavailableError, match="the facts in ") as failed:
            client.fact_store("Ana moved")
        assert ".rs:" not in failed.value.message, "nobody has the sources of the library"
        daemon.search("x")


# Object storage


class Proxy(socketserver.ThreadingTCPServer):
    """A way to the object storage that calls `on_put` before and after each PUT.

    It forwards nothing more of a connection for which `on_put` returns true.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarder)
        self.port = int(target.rpartition(":")[2])
        self.on_put: Callable[[bool], bool] = lambda _: False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Forwarder(socketserver.BaseRequestHandler):
    server: Proxy
    request: socket.socket

    def handle(self) -> None:
        self.putting = False
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port)) as above:
            back = threading.Thread(target=self._answer, args=(above,))
            back.start()
            with suppress(OSError):
                while data := self.request.recv(65_536):
                    if data.startswith(b"PUT "):
                        self.putting = True
                        if self.server.on_put(False):
                            break
                    above.sendall(data)
            above.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answer(self, above: socket.socket) -> None:
        with suppress(OSError):
            while data := above.recv(65_536):
                if self.putting:
                    self.putting = False
                    if self.server.on_put(True):
                        break
                self.request.sendall(data)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an object storage with an empty bucket."""
    pytest.importorskip("moto", exc_type=ImportError)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"

    def made() -> bool:
        request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
        try:
            with urllib.request.urlopen(request):
                return True
        except ConnectionError:
            return False
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError):
                raise
            return False

    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    try:
        eventually(made)
        yield url
    finally:
        server.kill()
        server.wait()


def daemon_at(url: str) -> Daemon:
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}
    where = {"AWS_ENDPOINT": url, "AWS_ALLOW_HTTP": "true", "no_proxy": "127.0.0.1"}
    return lancedb_daemon(f"s3://{BUCKET}/facts", **keys, **where)


def texts(client: Client) -> list[str]:
    """Return all facts; wait for a table and a model that take long to load on a busy machine."""
    while True:
        try:
            client.fact_recall("anything")
            return [fact.text for fact in client.facts_page(limit=1000).facts]
        except errors.UnavailableError as error:
            if "took longer than" not in error.message:
                raise


def test_a_daemon_killed_in_the_middle_of_commits_loses_and_doubles_nothing(storage: str) -> None:
    proxy = Proxy(storage)
    unlucky, other = daemon_at(proxy.url), daemon_at(storage)
    with unlucky, other, other.client() as theirs:
        acknowledged = {"first one"}
        theirs.fact_store("first one")
        interrupted = 0
        for number in range(3 * INTERRUPTED):
            if interrupted == INTERRUPTED:
                break
            killed = threading.Event()
            # Before or after one of the first requests that write: files, deletions, the commit.
            left = [number % 4 + 1]

            def kill(
                is_after: bool,
                left: list[int] = left,
                number: int = number,
                killed: threading.Event = killed,
            ) -> bool:
                left[0] -= is_after == bool(number // 4 % 2)
                if left[0] == 0:
                    assert unlucky.process is not None
                    for pid in (unlucky.process.pid, *workers(unlucky)):
                        os.kill(pid, signal.SIGKILL)
                    killed.set()
                return killed.is_set()

            # It must not wait for a daemon that is to be started only after the checks.
            with Client(str(unlucky.socket), wait_s=1, timeout_s=PATIENCE_S) as ours:
                texts(ours)  # the process is there, and the table is open
                proxy.on_put = kill
                mine, beside = f"alpha{number} is mine", f"beta{number} is theirs"
                storing = threading.Thread(target=theirs.fact_store, args=(beside,))
                storing.start()
                try:
                    ours.fact_store(mine)
                    acknowledged.add(mine)
                except errors.MemorydError:
                    interrupted += 1
                storing.join()
                acknowledged.add(beside)
            proxy.on_put = lambda _: False
            found = Counter(texts(theirs))
            assert set(found) - {mine} == acknowledged - {mine}
            assert set(found.values()) == {1}
            if killed.is_set():
                assert unlucky.process is not None
                unlucky.process.wait()
                unlucky.start()
            with unlucky.client() as ours:
                assert set(texts(ours)) == set(found)
                assert ours.fact_store(mine).duplicate == (mine in found)
                acknowledged.add(mine)
                assert Counter(texts(ours)) == Counter(texts(theirs)) == Counter(acknowledged)
                if number % 5 == 4:
                    gone = theirs.fact_forget(query=beside).forgotten[0].text
                    acknowledged.remove(gone)
                    assert Counter(texts(ours)) == Counter(acknowledged)
        assert interrupted == INTERRUPTED, "many kills came after the answer"
    proxy.shutdown()
    proxy.server_close()
    print(json.dumps({"rounds": number, "interrupted": interrupted}))
