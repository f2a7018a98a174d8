"""Changes to an index during a rebuild: none is lost."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from gate import Gate
from harness import Daemon
from peers import Peer
from serving import serving
from vendors import OpenAiDouble
from waiting import eventually

from memoryd_client.errors import UnavailableError
from memoryd_client.schema.memory import IndexBody
from memoryd_client.schema.status import StatusResult
from memoryd_client.wire.protocol import Cancel, Error, Request, raw

KEY = "sk-double-Zq7Zq7Zq7Zq7"
NOTES = 30


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY)) as double:
        yield double
        if isinstance(double.gate, Gate):
            double.gate.open_up()


@pytest.fixture
def asking(daemon: Daemon, openai: OpenAiDouble) -> Daemon:
    """A stopped daemon that has notes and a transcript, with vectors."""
    daemon.provider = "openai"
    daemon.variables["OPENAI_API_KEY"] = KEY
    configure(daemon, openai, tokens=400)
    for number in range(NOTES):
        lines = "".join(f"line {n} of note {number} about bilbies\n" for n in range(20))
        daemon.write(f"memory/{number}.md", lines)
    (daemon.folder / "chats").mkdir()
    say(daemon, "the ferry leaves at noon", "the parrot says xylophone77", "mind the quokkas")
    daemon.start().sync()
    assert daemon.stop() == 0
    return daemon


def configure(daemon: Daemon, double: OpenAiDouble, *, tokens: int, more: str = "") -> None:
    daemon.settings = f"""sync = {{ watch_debounce_ms = 20 }}
chunking = {{ tokens = {tokens}, overlap = 0 }}
sessions = {{ enabled = true, paths = ["{daemon.folder}/chats/*.jsonl"] }}
[defaults.remote]
base_url = "{double.url}"
{more}
"""


def say(daemon: Daemon, *texts: str) -> None:
    with (daemon.folder / "chats" / "a.jsonl").open("a") as chat:
        for text in texts:
            chat.write(json.dumps({"role": "user", "content": text}) + "\n")


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def rebuilt(daemon: Daemon) -> bool:
    return status(daemon).custom.index_identity.status == "valid"


def has_rebuilt(daemon: Daemon) -> bool:
    """Trigger a rebuild, unless the agent is restarting."""
    try:
        with daemon.client() as client:
            return client.index(force=True).rebuilt
    except UnavailableError:
        return False


def leftovers(daemon: Daemon) -> list[str]:
    return [path.name for path in daemon.database.parent.glob("*rebuild*")]


def held(daemon: Daemon, double: OpenAiDouble, *, watch: bool = True) -> Gate:
    """Start with smaller chunks, and hold the rebuild where it waits for the first vectors."""
    configure(daemon, double, tokens=30)
    if not watch:
        daemon.settings = daemon.settings.replace("sync = { ", "sync = { watch = false, ")
    gate = double.gate = Gate()
    asked = len(double.inputs)
    daemon.start()
    eventually(lambda: len(double.inputs) > asked)
    assert leftovers(daemon) != []
    return gate


def keywords(daemon: Daemon, query: str) -> list[str]:
    return daemon.paths(query, mode="keyword")


def each_once(double: OpenAiDouble) -> None:
    twice = {text: n for text, n in double.embedded.items() if n > 1 and "\n" in text}
    assert twice == {}


def column(database: Path, query: str) -> list[object]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [value for (value,) in connection.execute(query)]


def bytes_of_index(daemon: Daemon) -> bytes:
    """Return all bytes of the index and of the copies of deleted transcripts."""
    files = filter(Path.is_file, daemon.database.parent.rglob("*"))
    return b"".join(path.read_bytes() for path in files)


@pytest.mark.parametrize("what", ["match", "path"])
def test_what_is_forgotten_meanwhile_is_not_in_the_new_index(
    asking: Daemon, openai: OpenAiDouble, what: str
) -> None:
    gate = held(asking, openai)
    chat = "sessions/chats/a.jsonl"
    with asking.client() as client:
        if what == "match":
            assert client.forget(match="xylophone77").paths == [chat]
        else:
            assert client.forget(path=chat).paths == [chat]
    gate.open_up()
    eventually(lambda: rebuilt(asking))
    asking.sync()
    assert keywords(asking, "xylophone77") == []
    assert keywords(asking, "ferry") == (["sessions/chats/a.jsonl"] if what == "match" else [])
    assert asking.stop() == 0
    assert b"xylophone77" not in bytes_of_index(asking)
    # A message has a second name, that of its copy if its transcript is gone one day.
    kind, count = {"match": ("words-hmac", 2), "path": ("path", 1)}[what]
    names = f"SELECT count(*) FROM forgotten WHERE kind = '{kind}'"
    assert column(asking.database, names) == [count]
    asking.start().sync()
    assert keywords(asking, "xylophone77") == []
    asking.assert_healthy()


def test_the_rest_of_a_transcript_is_in_the_new_index(asking: Daemon, openai: OpenAiDouble) -> None:
    """The rebuild reads the transcript again: if it is deleted now, no scan would find the rest."""
    gate = held(asking, openai, watch=False)
    with asking.client() as client:
        client.forget(match="xylophone77")
    gate.open_up()
    eventually(lambda: rebuilt(asking))
    (asking.folder / "chats" / "a.jsonl").unlink()
    asking.sync()
    assert keywords(asking, "ferry") == keywords(asking, "quokkas") == ["sessions/chats/a.jsonl"]
    assert keywords(asking, "xylophone77") == []
    assert asking.stop() == 0
    assert b"xylophone77" not in bytes_of_index(asking)


def test_what_is_forgotten_before_a_rebuild_is_cut_off_is_not_salvaged(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    """The unfinished file has its vectors under other keys: none of them is kept."""
    held(asking, openai)
    with asking.client() as client:
        client.forget(match="xylophone77")
    asking.kill()
    openai.gate = None
    asking.start()
    eventually(lambda: rebuilt(asking))
    asking.sync()
    assert leftovers(asking) == []
    assert keywords(asking, "xylophone77") == []
    assert keywords(asking, "ferry") == ["sessions/chats/a.jsonl"]
    assert asking.stop() == 0
    assert b"xylophone77" not in bytes_of_index(asking)


def test_what_both_indexes_want_is_embedded_once(asking: Daemon, openai: OpenAiDouble) -> None:
    gate = held(asking, openai)
    for number in range(NOTES, NOTES + 10):
        asking.write(f"memory/{number}.md", f"a late note {number}\nabout numbats\n")
    eventually(lambda: len(set(keywords(asking, "numbats"))) > 0)
    gate.open_up()
    eventually(lambda: rebuilt(asking))
    asking.sync()
    eventually(lambda: status(asking).pending_vectors == 0)
    shown = status(asking)
    assert (shown.files, shown.vector.in_memory) == (NOTES + 11, shown.chunks)
    each_once(openai)
    with asking.client() as client:
        for number in range(5):
            asking.write(f"memory/more{number}.md", f"one more note {number}\nabout numbats\n")
            client.index(force=True)
        client.sync()
    eventually(lambda: status(asking).pending_vectors == 0)
    each_once(openai)


def test_a_rebuild_that_embeds_nothing_has_all_vectors(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    """This process has received no answer yet that would reveal the dimensions."""
    asking.start().sync()
    asked = len(openai.inputs)
    with asking.client() as client:
        result = client.index(force=True)
        shown = client.status()
    assert (result.embedded, len(openai.inputs)) == (0, asked)
    assert shown.vector.in_memory == shown.chunks > NOTES
    assert asking.search("bilbies").mode == "hybrid"
    asking.write("memory/new.md", "one more\n")
    asking.sync()
    shown = status(asking)
    assert shown.vector.in_memory == shown.chunks


def test_a_rebuild_on_request_asks_a_provider_that_has_failed(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    configure(asking, openai, tokens=30)
    openai.key = "another"
    asking.start()
    eventually(lambda: any("the last rebuild failed" in line for line in status(asking).degraded))
    with asking.client() as client, pytest.raises(UnavailableError, match="API key"):
        client.index(force=True)
    openai.key = KEY
    assert has_rebuilt(asking)
    assert rebuilt(asking)
    assert status(asking).degraded == []


def test_a_batch_job_goes_on_in_the_new_index(asking: Daemon, openai: OpenAiDouble) -> None:
    openai.batch.outcome = "stuck"
    batch = "[defaults.remote.batch]\nenabled = true\npoll_interval_ms = 10"
    configure(asking, openai, tokens=400, more=batch)
    for number in range(5):
        asking.write(f"memory/job{number}.md", f"for a job {number}\nabout dugongs\n")
    asking.start()
    eventually(lambda: len(openai.batch.jobs) == 1 and openai.batch.jobs[0].polls > 0)
    asked = len(openai.inputs)
    with asking.client() as client:
        assert client.index(force=True).rebuilt
    assert len(openai.inputs) == asked
    rows = column(asking.database, "SELECT remote_id FROM batch_jobs")
    assert rows == [openai.batch.jobs[0].id]
    asking.kill()
    openai.batch.outcome = "completed"
    openai.batch.polls = 0
    asking.start().sync()
    eventually(lambda: status(asking).pending_vectors == 0)
    assert len(openai.batch.jobs) == 1
    each_once(openai)


def test_a_batch_job_that_begins_meanwhile_is_not_lost(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    batch = "[defaults.remote.batch]\nenabled = true\npoll_interval_ms = 10"
    configure(asking, openai, tokens=30, more=batch)
    gate = openai.gate = Gate()
    asked = len(openai.inputs)
    asking.start()
    eventually(lambda: len(openai.inputs) > asked)
    openai.batch.outcome = "stuck"
    for number in range(5):
        asking.write(f"memory/job{number}.md", f"for a job {number}\nabout dugongs\n")
    jobs = "SELECT count(*) FROM batch_jobs"
    eventually(lambda: column(asking.database, jobs) == [1])
    gate.open_up()
    eventually(lambda: rebuilt(asking))
    assert column(asking.database, jobs) == [1]
    eventually(lambda: bool(openai.batch.jobs))
    asking.kill()
    openai.batch.outcome = "completed"
    openai.batch.polls = 0
    asking.start().sync()
    eventually(lambda: status(asking).pending_vectors == 0)
    each_once(openai)


def test_a_rebuild_that_its_client_gives_up_leaves_nothing(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    # Without watching, only the rebuild embeds the changes.
    asking.settings = asking.settings.replace("sync = { ", "sync = { watch = false, ")
    asking.start().sync()
    before = asking.database.stat().st_ino
    for number in range(NOTES):
        asking.write(f"memory/{number}.md", f"note {number} of today\nabout bilbies\n")
    asked = len(openai.inputs)
    gate = openai.gate = Gate()
    peer = Peer(str(asking.socket)).greet()
    peer.send(Request(1, "index", raw(IndexBody(force=True))))
    eventually(lambda: len(openai.inputs) > asked)
    peer.send(Cancel(1))
    given_up = peer.answer()
    assert isinstance(given_up, Error)
    assert given_up.code == "cancelled"
    peer.close()
    gate.open_up()
    eventually(lambda: leftovers(asking) == [] and status(asking).rebuild is None)
    assert asking.database.stat().st_ino == before
    asking.sync()
    eventually(lambda: status(asking).pending_vectors == 0)
    assert asking.database.stat().st_ino == before
    assert keywords(asking, "bilbies") != []
    asking.assert_healthy()


def test_a_rebuild_that_a_stop_cuts_off_leaves_nothing(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    before = asking.database.stat().st_ino
    held(asking, openai)
    assert keywords(asking, "bilbies") != []
    assert asking.stop() == 0
    assert leftovers(asking) == []
    assert asking.database.stat().st_ino == before
    openai.gate = None
    asking.start()
    eventually(lambda: rebuilt(asking))
    asking.assert_healthy()


@pytest.mark.parametrize(
    ("provider", "times"),
    [
        ("openai", 3),
        *(pytest.param(name, 10, marks=pytest.mark.long) for name in ("openai", "local", "none")),
    ],
)
def test_restarts_rebuild_nothing(
    asking: Daemon, openai: OpenAiDouble, provider: str, times: int
) -> None:
    """The starts differ in the key, the language, the home, and the end of the previous run."""
    asking.provider = provider
    asking.start()
    eventually(lambda: rebuilt(asking))
    asking.sync()
    inode, built = asking.database.stat().st_ino, asking.log().count("building a new index")
    asked = openai.embedded.total(), len(asking.embedded())
    for number in range(times):
        if number % 2:
            asking.kill()
        else:
            assert asking.stop() == 0
        openai.key = asking.variables["OPENAI_API_KEY"] = f"{KEY}{number}"
        asking.variables["LC_ALL"] = ("C", "C.UTF-8", "tr_TR.UTF-8")[number % 3]
        asking.variables["PYTHONHASHSEED"] = str(number)
        asking.start().sync()
        assert rebuilt(asking)
    assert asking.log().count("building a new index") == built
    assert asking.database.stat().st_ino == inode
    assert (openai.embedded.total(), len(asking.embedded())) == asked


def test_a_sweep_takes_every_naming_and_no_live_file(hybrid: Daemon) -> None:
    """Another agent's index is live, although its name looks like an unfinished file."""
    folder = hybrid.database.parent
    other = folder / "main.sqlite.rebuild-x.sqlite"
    hybrid.add_agent("other", f'store.path = "{other}"')
    hybrid.write("MEMORY.md", "a note of wombats\n")
    hybrid.start().sync()
    with hybrid.client("other") as client:
        client.sync()
    hybrid.kill()
    inode = other.stat().st_ino
    with closing(sqlite3.connect(folder / "main.sqlite.rebuild-77")) as unfinished:
        unfinished.execute("CREATE TABLE meta (key)")
        unfinished.commit()
    for name in (
        "main.sqlite.rebuild-77-journal",
        "main.sqlite.rebuild-4711-wal",
        "main.sqlite.rebuild-4711-shm",
        "main.sqlite.tmp-3f2c9b1e-0000-4000-8000-000000000000",
        "main.sqlite.tmp-3f2c9b1e-0000-4000-8000-000000000000-wal",
        "main.sqlite.rebuild-x.sqlite.rebuild-5",
        "mine.txt",
    ):
        (folder / name).write_bytes(b"what was left")
    hybrid.agents.clear()
    hybrid.start().sync()
    left = {p.name for p in folder.iterdir() if not p.name.endswith(("-wal", "-shm"))}
    assert left == {
        "main.sqlite",
        "main.sqlite.lock",
        "main.sqlite.rebuild-x.sqlite",
        "main.sqlite.rebuild-x.sqlite.lock",
        "main.sqlite.rebuild-x.sqlite.rebuild-5",
        "mine.txt",
    }
    assert "Traceback" not in hybrid.log()
    hybrid.kill()
    hybrid.agents["other"] = f'store.path = "{other}"'
    hybrid.start()
    with hybrid.client("other") as client:
        client.sync()
        assert client.search("note of other").results != []
    assert other.stat().st_ino == inode
    assert not (folder / "main.sqlite.rebuild-x.sqlite.rebuild-5").exists()


@pytest.fixture
def small(daemon: Daemon, openai: OpenAiDouble) -> Iterator[Daemon]:
    """A stopped daemon with an index of long chunks on a disk of 6 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small tmpfs")
    folder = daemon.database.parent
    folder.mkdir(parents=True, mode=0o700)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "memoryd", folder], check=True
    )
    try:
        daemon.provider = "openai"
        daemon.variables["OPENAI_API_KEY"] = KEY
        configure(daemon, openai, tokens=400)
        for number in range(NOTES):
            lines = "".join(f"line {n} of note {number} about bilbies\n" for n in range(100))
            daemon.write(f"memory/{number}.md", lines)
        daemon.start().sync()
        daemon.stop()
        yield daemon
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.kill()
        subprocess.run(["umount", "-l", folder], check=True)


def filled(folder: Path, *, left: int = 0) -> Path:
    """Leave this many bytes free on a disk; return the file that takes the others."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while free := max(0, shutil.disk_usage(folder).free - left):
            file.write(bytes(min(free, 1 << 16)))
    return filler


def rebuild_failed(daemon: Daemon) -> bool:
    return any("rebuild failed" in warning for warning in status(daemon).degraded)


def test_a_disk_that_fills_up_during_a_rebuild_leaves_the_old_index(
    small: Daemon, openai: OpenAiDouble
) -> None:
    inode = small.database.stat().st_ino
    filler = filled(small.database.parent, left=1_200_000)
    configure(small, openai, tokens=30)
    small.start()
    eventually(lambda: rebuild_failed(small))
    assert leftovers(small) == []
    assert keywords(small, "bilbies") != []
    filler.unlink()
    eventually(lambda: has_rebuilt(small))
    small.sync()
    assert rebuilt(small)
    assert small.database.stat().st_ino != inode
    assert small.stop() == 0
    each_once(openai)


def test_vectors_that_find_no_room_are_kept_and_no_more_are_bought(
    small: Daemon, openai: OpenAiDouble
) -> None:
    """The disk fills up while the provider embeds the first texts of the rebuild."""
    gate = held(small, openai)
    asked = len(openai.inputs)
    filler = filled(small.database.parent)
    gate.open_up()
    eventually(lambda: rebuild_failed(small))
    assert leftovers(small) == []
    eventually(lambda: len(openai.embedded) > 0)
    bought = len(openai.inputs)
    assert bought <= asked + 4  # those in flight
    filled(small.database.parent)
    with small.client() as client, pytest.raises(UnavailableError, match=r"room|full"):
        client.index(force=True)
    assert len(openai.inputs) == bought
    filler.unlink()
    eventually(lambda: has_rebuilt(small))
    assert rebuilt(small)
    assert small.stop() == 0
    each_once(openai)


def kept_in(daemon: Daemon, leftover: str) -> set[str]:
    """Return the hashes of the texts whose embeddings an unfinished index has.

    It reads a copy, because opening the file itself would repair it before the daemon does.
    """
    copies = daemon.folder / "copies"
    copies.mkdir()
    for file in daemon.database.parent.glob(f"{leftover}*"):
        shutil.copy(file, copies)
    with closing(sqlite3.connect(copies / leftover)) as index:
        return {digest for (digest,) in index.execute("SELECT hash FROM embedding_cache")}


def test_what_an_unfinished_rebuild_has_on_a_full_disk_is_not_lost(
    small: Daemon, openai: OpenAiDouble
) -> None:
    """The daemon was killed during the rebuild, and the disk is full at the next start."""
    before = set(openai.embedded)
    configure(small, openai, tokens=30)
    asked = len(openai.inputs)
    openai.max_items = 16
    openai.latency_s = 0.05
    small.start()
    eventually(lambda: len(openai.inputs) > asked + 20)  # more than one step reads and commits
    small.kill()
    kept = kept_in(small, min(leftovers(small), key=len))
    filler = filled(small.database.parent)
    small.start()
    eventually(lambda: "of its embeddings" in small.log())
    filler.unlink()
    eventually(lambda: rebuilt(small))
    small.sync()
    counts = {hashlib.sha256(text.encode()).hexdigest(): n for text, n in openai.embedded.items()}
    anew = kept - {hashlib.sha256(text.encode()).hexdigest() for text in before}
    assert len(anew) > 100
    assert {counts[digest] for digest in anew} == {1}
