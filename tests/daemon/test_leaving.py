"""Which texts leave this machine, by whose consent, through whom, and what the user is told."""

import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from harness import Daemon
from serving import SECRET, on_the_lan, serving, through
from vendors import OpenAiDouble

from memoryd_client.errors import BadRequestError
from memoryd_client.schema.status import StatusResult

KEY = "sk-double-Zq7Zq7Zq7Zq7"
KEYS = ("OPENAI_API_KEY", "GEMINI_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY", "OLLAMA_API_KEY")
UNUSED = (
    "OPENAI_API_KEY and GEMINI_API_KEY and VOYAGE_API_KEY and MISTRAL_API_KEY are set but not used;"
    ' `memctl index --provider openai` or provider = "openai" in the configuration uses the first'
)
NOTE = "the ferry leaves at nine"


class Recorder:
    """A proxy that notes what it gets, and answers nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.seen: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.seen.append(connection.recv(65_536))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with closing(Recorder()) as made:
        yield made


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=None)) as double:
        yield double


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


# Keys that are there for something else


def test_every_vendors_key_is_there_and_nothing_leaves(hybrid: Daemon, recorder: Recorder) -> None:
    through(hybrid, f"http://{recorder.address}")
    hybrid.variables |= dict.fromkeys(KEYS, KEY)
    hybrid.provider = "auto"
    hybrid.add_agent("second")
    hybrid.write("MEMORY.md", f"{NOTE}\n")
    hybrid.start().sync()
    assert hybrid.search("ferry").mode == "hybrid"
    assert hybrid.embedded()
    hybrid.write("memory/new.md", "the train leaves at ten\n")
    hybrid.sync()
    hybrid.memctl("index", "--force")
    probe = hybrid.memctl_json("probe")
    assert [candidate["provider"] for candidate in probe["candidates"]] == ["local (GGUF)", "local"]
    shown = status(hybrid)
    assert (shown.provider, shown.requested_provider) == ("local", "auto")
    assert shown.notices == [UNUSED]
    assert shown.embedding is not None
    assert shown.embedding.chosen_because == "auto stays on this machine"
    assert not shown.embedding.leaves_machine
    assert hybrid.memctl("status", "--agent", "main").stdout.count(UNUSED) == 1
    assert hybrid.stop() == 0
    assert hybrid.log().count(UNUSED) == 1
    assert KEY not in hybrid.log()
    assert recorder.seen == []


def test_auto_remote_is_a_yes_that_reaches_the_vendor(hybrid: Daemon, recorder: Recorder) -> None:
    """With the same keys and proxies as above: the recorder sees what leaves."""
    through(hybrid, f"http://{recorder.address}")
    hybrid.variables |= dict.fromkeys(KEYS, KEY)
    hybrid.provider = "auto-remote"
    hybrid.write("MEMORY.md", f"{NOTE}\n")
    hybrid.start().sync()
    shown = status(hybrid)
    assert (shown.provider, shown.notices) == ("openai", [])
    assert shown.embedding is not None
    assert shown.embedding.chosen_because == "its key was found in OPENAI_API_KEY"
    assert shown.embedding.proxy == recorder.address
    assert not shown.embedding.unencrypted
    assert recorder.seen
    assert all(seen.startswith(b"CONNECT api.openai.com:443") for seen in recorder.seen)


@pytest.mark.parametrize("configured", ["", 'provider = "local"'])
def test_who_starts_it_is_told_once_unless_the_choice_is_made(
    hybrid: Daemon, recorder: Recorder, configured: str
) -> None:
    through(hybrid, f"http://{recorder.address}")
    hybrid.variables["OPENAI_API_KEY"] = KEY
    hybrid.add_agent("second")
    hybrid.write_config()
    config = hybrid.config.read_text()
    hybrid.config.write_text(config.replace('provider = "local"', configured))
    hybrid.write("MEMORY.md", f"{NOTE}\n")
    try:
        started = hybrid.memctl("start", "--config", str(hybrid.config)).stdout
        line = "notice: OPENAI_API_KEY is set but not used; `memctl index --provider openai`"
        assert started.count(line) == (0 if configured else 1)
        again = hybrid.memctl_json("start", "--config", str(hybrid.config))
        assert len(again["notices"]) == (0 if configured else 1)
        hybrid.memctl("sync")
    finally:
        hybrid.memctl("stop")
    assert recorder.seen == []


def test_a_request_decides_and_the_notice_ends(hybrid: Daemon, openai: OpenAiDouble) -> None:
    openai.key = KEY
    hybrid.variables |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": openai.url}
    hybrid.provider = "auto"
    hybrid.write("MEMORY.md", f"{NOTE}\n")
    hybrid.start().sync()
    assert len(status(hybrid).notices) == 1
    hybrid.memctl("index", "--provider", "auto-remote")
    shown = status(hybrid)
    assert (shown.provider, shown.requested_provider, shown.notices) == ("openai", "auto", [])
    hybrid.stop()
    hybrid.start().sync()
    assert status(hybrid).provider == "openai"
    hybrid.memctl("index", "--provider", "auto")
    shown = status(hybrid)
    assert (shown.provider, len(shown.notices)) == ("local", 1)
    hybrid.memctl("index", "--provider", "local")
    assert status(hybrid).notices == []


def test_auto_remote_can_be_told_to_stay(hybrid: Daemon, openai: OpenAiDouble) -> None:
    openai.key = KEY
    hybrid.variables |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": openai.url}
    hybrid.provider = "auto-remote"
    hybrid.write("MEMORY.md", f"{NOTE}\n")
    hybrid.start().sync()
    assert status(hybrid).provider == "openai"
    hybrid.memctl("index", "--provider", "auto")
    hybrid.stop()
    hybrid.start().sync()
    assert status(hybrid).provider == "local"


# Indexes of earlier versions


def choose_as_before(daemon: Daemon, double: OpenAiDouble) -> None:
    """Leave an index with OpenAI's vectors, which an earlier `auto` chose because of a key."""
    daemon.provider = "openai"
    daemon.write("MEMORY.md", f"{NOTE}\n")
    daemon.start().sync()
    assert daemon.stop() == 0
    assert double.embedded[NOTE] == 1
    choice = {
        "provider": "openai",
        "by": "found",
        "why": "its key was found in OPENAI_API_KEY",
        "instead_of": "auto",
    }
    with closing(sqlite3.connect(daemon.database)) as connection, connection:
        connection.execute("INSERT INTO meta VALUES ('choice', ?)", (json.dumps(choice),))
    daemon.provider = "auto"


def test_an_index_keeps_its_choice_and_its_user_is_told_once(
    hybrid: Daemon, openai: OpenAiDouble
) -> None:
    way = on_the_lan(hybrid, openai)
    choose_as_before(hybrid, openai)
    warning = (
        f"agent main: texts go to {way}, and openai is used because its key was found in"
        " OPENAI_API_KEY; `memctl index --provider local` keeps them on this machine, and"
        " `memctl index --provider openai` confirms openai"
    )
    for _ in range(2):
        hybrid.start().sync()
        shown = status(hybrid)
        assert (shown.provider, shown.notices) == ("openai", [warning])
        found = hybrid.doctor()["findings"]
        assert warning in [finding["message"] for finding in found]
        hybrid.memctl("index", "--force")  # the new file knows what its user was told
        assert hybrid.stop() == 0
    assert hybrid.log().count(f"WARNING memoryd.pipeline: {warning}") == 1
    assert warning in [finding["message"] for finding in hybrid.doctor()["findings"]]
    hybrid.start()
    assert hybrid.memctl_json("index", "--provider", "local")["rebuilt"]
    shown = status(hybrid)
    assert (shown.provider, shown.notices) == ("local", [])
    asked = len(openai.requests)
    hybrid.write("memory/new.md", "the train leaves at ten\n")
    hybrid.sync()
    assert hybrid.search("train").mode == "hybrid"
    assert len(openai.requests) == asked


def test_who_confirms_the_choice_is_told_no_more(hybrid: Daemon, openai: OpenAiDouble) -> None:
    on_the_lan(hybrid, openai)
    choose_as_before(hybrid, openai)
    hybrid.start()
    assert not hybrid.memctl_json("index", "--provider", "openai")["rebuilt"]
    shown = status(hybrid)
    assert (shown.provider, shown.notices) == ("openai", [])


def test_who_leaves_out_a_provider_that_was_configured_is_told_too(
    hybrid: Daemon, openai: OpenAiDouble
) -> None:
    on_the_lan(hybrid, openai)
    hybrid.provider = "openai"
    hybrid.write("MEMORY.md", f"{NOTE}\n")
    hybrid.start().sync()
    assert status(hybrid).notices == []
    hybrid.provider = "auto"
    hybrid.write_config()
    hybrid.memctl("reload")
    (notice,) = status(hybrid).notices
    assert "openai is used because the index was built with it" in notice
    assert notice in hybrid.log()


# The way of the texts


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_no_proxy_gets_what_is_for_a_server_on_this_machine(
    daemon: Daemon, openai: OpenAiDouble, recorder: Recorder, host: str
) -> None:
    openai.key = KEY
    through(daemon, f"http://{recorder.address}")
    daemon.variables["OPENAI_API_KEY"] = KEY
    daemon.provider = "openai"
    url = openai.url.replace("127.0.0.1", host)
    daemon.settings = f'[defaults.remote]\nbase_url = "{url}"\n'
    daemon.write("MEMORY.md", "my private thing\n")
    daemon.start().sync()
    assert daemon.search("private").mode == "hybrid"
    assert openai.embedded["my private thing"] == 1
    shown = status(daemon).embedding
    assert shown is not None
    assert (shown.leaves_machine, shown.proxy, shown.unencrypted) == (False, None, False)
    assert "(this machine)" in daemon.memctl("status").stdout
    assert recorder.seen == []


def test_the_way_is_told_wherever_somebody_looks(daemon: Daemon, openai: OpenAiDouble) -> None:
    way = on_the_lan(daemon, openai)
    daemon.provider = "openai"
    daemon.write("MEMORY.md", f"{NOTE}\n")
    daemon.start().sync()
    assert openai.embedded[NOTE] == 1
    outputs = [daemon.memctl(command).stdout for command in ("status", "probe")]
    assert f"Texts go to       {way}" in outputs[0]
    assert f"dimensions, texts go to {way}" in outputs[1]
    assert f"hint: texts go to {way}, so others on the network can read and change" in outputs[1]
    ((one,), probe) = daemon.memctl_json("status"), daemon.memctl_json("probe")
    embedding = one["status"]["embedding"]
    proxy = daemon.variables["http_proxy"].partition("@")[2]
    assert (embedding["leavesMachine"], embedding["unencrypted"]) == (True, True)
    assert (embedding["address"], embedding["proxy"]) == ("embed.lan:8000", proxy)
    assert way in probe["checks"][0]["detail"]
    del daemon.variables["http_proxy"], daemon.variables["HTTP_PROXY"]  # the doctor's own
    running = daemon.doctor()["findings"]
    assert any(f"texts go to {way}, so others" in f["message"] for f in running)
    assert daemon.stop() == 0
    stopped = daemon.doctor()["findings"]
    lan = "texts go to embed.lan:8000 (another machine, not encrypted), so others"
    assert any(lan in f["message"] and f["level"] == "warning" for f in stopped)
    outputs += [json.dumps([one, probe, running, stopped]), daemon.log()]
    assert f"INFO memoryd.agent.consent: agent main: texts go to {way}" in outputs[-1]
    assert "WARNING memoryd.agent.consent: agent main: texts go to" in outputs[-1]
    for text in outputs:
        assert SECRET not in text
        assert "me:" not in text


def test_no_key_goes_over_the_network_in_plain_text(daemon: Daemon, openai: OpenAiDouble) -> None:
    on_the_lan(daemon, openai)
    daemon.variables["OPENAI_API_KEY"] = KEY
    daemon.provider = "openai"
    daemon.write("MEMORY.md", f"{NOTE}\n")
    daemon.start().sync()
    assert daemon.search("ferry").mode == "keyword"
    reason = status(daemon).custom.provider_unavailable_reason or ""
    assert reason.startswith("The key from OPENAI_API_KEY would go to embed.lan:8000")
    assert "remote.allow_unencrypted_key = true" in reason
    assert openai.requests == []
    daemon.settings = "remote = { allow_unencrypted_key = true }"
    daemon.write_config()
    daemon.memctl("reload")
    daemon.sync()
    assert daemon.search("ferry").mode == "hybrid"
    assert openai.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_request_for_a_provider_that_would_give_its_key_away_changes_nothing(
    hybrid: Daemon, openai: OpenAiDouble
) -> None:
    on_the_lan(hybrid, openai)
    hybrid.variables["OPENAI_API_KEY"] = KEY
    hybrid.provider = "auto"
    hybrid.start().sync()
    with hybrid.client() as client, pytest.raises(BadRequestError, match=r"would go to embed\.lan"):
        client.index(provider="openai")
    assert status(hybrid).provider == "local"
    assert openai.requests == []
