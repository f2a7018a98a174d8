"""What happens to an index while a new one is built beside it: nothing of it is lost."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gate import Gate
from harness import Daemon, eventually
from serving import serving
from vendors import OpenAiDouble

from memoryd_client.errors import RequestTimeoutError
from memoryd_client.status import StatusResult

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
    """A daemon that has notes and a transcript, and their vectors; it has been stopped."""
    daemon.provider = "openai"
    daemon.variables["OPENAI_API_KEY"] = KEY
    configure(daemon, openai, tokens=400)
    for number in range(NOTES):
        lines = "".join(f"line {n} of note {number} about bilbies\n" for n in range(20))
        daemon.write(f"memory/{number}.md", lines)
    (daemon.folder / "chats").mkdir()
    say(daemon, "the ferry leaves at noon", "the password is xylophone77", "mind the quokkas")
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


def leftovers(daemon: Daemon) -> list[str]:
    return [path.name for path in daemon.database.parent.glob("*rebuild*")]


def held(daemon: Daemon, double: OpenAiDouble) -> Gate:
    """Start with smaller chunks, and hold the rebuild where it waits for the first vectors."""
    configure(daemon, double, tokens=30)
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
    return b"".join(path.read_bytes() for path in daemon.database.parent.glob("main.sqlite*"))


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
    kind = {"match": "message", "path": "path"}[what]
    assert column(asking.database, f"SELECT count(*) FROM forgotten WHERE kind = '{kind}'") == [1]
    asking.start().sync()
    assert keywords(asking, "xylophone77") == []
    asking.assert_healthy()


def test_what_is_forgotten_before_a_rebuild_is_cut_off_is_not_salvaged(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    """Its vectors are in the unfinished file, under other names: none of that is kept."""
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


@pytest.mark.parametrize("how", ["the client gives up", "SIGTERM"])
def test_a_rebuild_that_is_given_up_leaves_the_old_index_and_nothing_else(
    asking: Daemon, openai: OpenAiDouble, how: str
) -> None:
    asking.start().sync()
    openai.models.add("text-embedding-3-large")
    before = asking.database.stat().st_ino
    configure(asking, openai, tokens=30)
    if how == "SIGTERM":
        assert asking.stop() == 0
        held(asking, openai)
        assert keywords(asking, "bilbies") != []
        assert asking.stop() == 0
        assert leftovers(asking) == []
        assert asking.database.stat().st_ino == before
        openai.gate = None
        asking.start()
    else:
        # The same chunks, once more: what it is held up by is one that has changed.
        gate = openai.gate = Gate()
        asking.write("memory/0.md", "a changed note\nabout bilbies\n")
        asked = len(openai.inputs)
        with asking.client() as client, pytest.raises(RequestTimeoutError):
            client.index(force=True, provider="auto", timeout_s=0.3)
        gate.open_up()
        assert len(openai.inputs) >= asked
    eventually(lambda: leftovers(asking) == [])
    eventually(lambda: rebuilt(asking))
    asking.sync()
    eventually(lambda: status(asking).pending_vectors == 0)
    assert keywords(asking, "bilbies") != []
    each_once(openai)
    asking.assert_healthy()
