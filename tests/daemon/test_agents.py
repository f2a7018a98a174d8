"""Several agents in one daemon: isolation, and changes at run time."""

import json
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import Daemon
from waiting import PATIENCE_S, eventually

from memoryd_client import Client
from memoryd_client.errors import BadRequestError, DeniedError, UnavailableError, UnknownAgentError
from memoryd_client.schema.agents import AgentSummary


@pytest.fixture
def two(hybrid: Daemon) -> Daemon:
    """A daemon with the agents `main` and `bee`."""
    hybrid.provider = "none"
    hybrid.write("MEMORY.md", "the note of main\n")
    hybrid.add_agent("bee")
    return hybrid.start()


def found(client: Client, query: str = "note") -> list[str]:
    client.sync()
    return [hit.snippet for hit in client.search(query).results]


def listed(daemon: Daemon) -> dict[str, AgentSummary]:
    with daemon.client() as client:
        return {agent.agent: agent for agent in client.agents().agents}


def test_each_agent_has_its_own_memory(two: Daemon) -> None:
    for agent in ("main", "bee"):
        with two.client(agent) as client:
            assert found(client) == [f"the note of {agent}"]
            result = client.search("note")
            assert (result.agent, Path(result.workspace_dir)) == (
                agent,
                two.workspace if agent == "main" else two.folder / "bee",
            )
            status = client.status()
            assert (status.agent_id, status.agents) == (agent, ["main", "bee"])
            assert Path(status.db_path).stem == agent


def test_an_agent_is_meant_by_the_folder_of_the_client(
    two: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    (two.folder / "bee" / "memory").mkdir()
    for folder, agent in (("bee/memory", "bee"), ("workspace", "main"), (".", "main")):
        monkeypatch.chdir(two.folder / folder)
        with two.client() as client:
            assert client.search("note").agent == agent
            assert client.agents().current == agent


def test_an_unknown_agent_is_told_with_those_there_are(two: Daemon) -> None:
    with two.client("eve") as client, pytest.raises(UnknownAgentError, match="main, bee"):
        client.search("note")


def test_without_main_somebody_has_to_say_who_is_meant(hybrid: Daemon) -> None:
    hybrid.provider = "none"
    for agent in ("ann", "bob"):
        hybrid.add_agent(agent)
    hybrid.write_config()
    text = hybrid.config.read_text()
    hybrid.start(config=text.replace("[agents.main]", "[agents.zoe]"))
    with hybrid.client() as client, pytest.raises(UnknownAgentError, match="ann, bob"):
        client.search("note")


def test_agents_with_the_same_settings_share_one_model(hybrid: Daemon) -> None:
    hybrid.write("MEMORY.md", "the note of main\n")
    hybrid.add_agent("bee")
    hybrid.add_agent("cow")
    hybrid.start()
    for agent in ("main", "bee", "cow"):
        with hybrid.client(agent) as client:
            client.sync()
            assert client.search("note").mode == "hybrid"
    # The agents share one process: the model was loaded once, and their query was embedded once.
    assert hybrid.model_log.read_text().count("Load the weights") == 1
    texts = ["note"]
    texts += [f"the note of {agent}" for agent in ("main", "bee", "cow")]
    assert sorted(hybrid.embedded()) == sorted(map(repr, texts))


def test_a_workspace_is_added_listed_and_dropped(two: Daemon) -> None:
    cow = two.new_folder("cow")
    with two.client() as client:
        added = client.add(cow)
        assert (added.added, added.agent.state, added.agent.origin) == (True, "ready", "added")
        assert added.agent.agent.startswith("cow-")
        assert client.add(cow).added is False
    assert list(listed(two)) == ["main", "bee", added.agent.agent]
    with two.client(added.agent.agent) as client:
        assert found(client) == ["the note of cow"]
        dropped = client.drop(cow)
        assert dropped.agent == added.agent.agent
        assert Path(dropped.db_path).exists()
        with pytest.raises(UnknownAgentError):
            client.search("note")
    assert list(listed(two)) == ["main", "bee"]


def test_what_was_added_is_there_after_the_next_start(two: Daemon) -> None:
    two.memctl("add", str(two.new_folder("cow")))
    two.memctl("add", str(two.new_folder("dog")))
    two.memctl("drop", str(two.folder / "dog"))
    two.kill()
    two.start()
    assert [agent.partition("-")[0] for agent in listed(two)] == ["main", "bee", "cow"]


def test_an_added_workspace_that_is_gone_keeps_nobody_from_starting(two: Daemon) -> None:
    two.memctl("add", str(two.new_folder("cow")))
    two.stop()
    shutil.rmtree(two.folder / "cow")
    two.start()
    with two.client() as client:
        *_, cow = client.agents().agents
        assert cow.state == "ready"
        client.agent = cow.agent
        client.sync()
        # The indexed notes are still served, because the disk may return.
        answer = client.search("note")
        assert [hit.snippet for hit in answer.results] == ["the note of cow"]
        assert any("can't be read: No such file" in warning for warning in answer.warnings)
        client.agent = "bee"
        assert found(client) == ["the note of bee"]
        client.drop(cow.agent)
    assert list(listed(two)) == ["main", "bee"]


def test_what_cant_be_added_is_refused(two: Daemon) -> None:
    with two.client() as client:
        with pytest.raises(BadRequestError, match="is not a folder"):
            client.add(two.folder / "nowhere")
        with pytest.raises(DeniedError, match="not added"):
            client.drop("bee")
        with pytest.raises(UnknownAgentError):
            client.drop("nobody")
    assert list(listed(two)) == ["main", "bee"]


def test_two_daemons_never_serve_one_index(two: Daemon) -> None:
    command = two.command("--agent", "bee", "--config", str(two.config))
    ended = subprocess.run(
        [*command, "--socket", str(two.folder / "t")],
        env=two.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 3
    assert "bee.sqlite is in use by another memoryd" in ended.stderr


def test_without_a_configuration_each_workspace_has_its_own_index(hybrid: Daemon) -> None:
    a, b = hybrid.new_folder("a"), hybrid.new_folder("b")
    for folder in (a, b, a):
        hybrid.start(options=["--workspace", str(folder)])
        with hybrid.client() as client:
            assert found(client) == [f"the note of {folder.name}"]
            assert client.status().files == 1
        hybrid.stop()
    names = sorted(path.name for path in (hybrid.folder / "state/memoryd").glob("*.sqlite"))
    assert [name.partition("-")[0] for name in names] == ["a", "b"]


def test_sighup_reads_the_configuration_again(two: Daemon) -> None:
    two.add_agent("cow")
    two.agents["bee"] = "query = { max_results = 2 }"
    two.write_config()
    assert two.process is not None
    two.process.send_signal(signal.SIGHUP)
    eventually(lambda: "cow" in listed(two))
    with two.client("bee") as client:
        values = {value.key: value.value for value in client.config().values}
        assert values["query.max_results"] == 2


def test_a_reload_tells_what_it_changed(two: Daemon) -> None:
    two.add_agent("cow")
    two.write_config()
    with two.client() as client:
        result = client.reload()
        assert (result.started, result.unchanged) == (["cow"], ["main", "bee"])
        two.agents = {"bee": "query = { max_results = 2 }"}
        two.write_config()
        result = client.reload()
    assert (result.stopped, result.restarted, result.unchanged) == (["cow"], ["bee"], ["main"])
    assert result.files == [str(two.config)]


@pytest.mark.parametrize(
    ("mistake", "told"),
    [("nonsense = ", "not valid TOML"), ("[agents.fox]\nworkspace = '/no'", "not a folder")],
)
def test_a_bad_configuration_changes_nothing(two: Daemon, mistake: str, told: str) -> None:
    good = two.config.read_text()
    two.config.write_text(f"{good}\n{mistake}\n")
    with two.client() as client:
        with pytest.raises(BadRequestError, match=told) as refused:
            client.reload()
        assert "stays active" in refused.value.hint
        assert list(listed(two)) == ["main", "bee"]
        assert any(told in line for line in client.status().degraded)
        two.config.write_text(good)
        client.reload()
        assert client.status().degraded == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find a child")
def test_a_request_to_an_agent_that_stops_ends_at_once(hybrid: Daemon) -> None:
    """The model is stopped, so a rebuild, which waits for it, would take a minute."""
    cow = hybrid.new_folder("cow")
    hybrid.start()
    with hybrid.client() as client:
        agent = client.add(cow).agent.agent
        client.agent = agent
        client.sync()
    assert hybrid.process is not None
    pid = hybrid.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (cow / "MEMORY.md").write_text("a text that is not in the cache\n")
    for child in children:
        os.kill(int(child), signal.SIGSTOP)
    with hybrid.client(agent) as waiting, hybrid.client(agent) as client, ThreadPoolExecutor() as t:
        request = t.submit(waiting.index, force=True)
        eventually(lambda: client.status().rebuild is not None)
        client.drop(agent)
        with pytest.raises(UnavailableError, match="was stopped"):
            request.result()


def test_added_workspaces_are_written_for_people(two: Daemon) -> None:
    two.memctl("add", str(two.new_folder("cow")))
    (written,) = (two.folder / "state/memoryd").glob("added*.json")
    assert json.loads(written.read_text()) == [str(two.folder / "cow")]
    two.memctl("drop", str(two.folder / "cow"))
    assert not written.exists()


@pytest.mark.parametrize("what", ["broken", "FIFO"])
def test_a_list_of_added_workspaces_that_cannot_be_read_is_told_and_kept(
    two: Daemon, what: str
) -> None:
    two.memctl("add", str(two.new_folder("cow")))
    (written,) = (two.folder / "state/memoryd").glob("added*.json")
    two.stop()
    kept = written.rename(two.folder / "kept")
    if what == "FIFO":
        os.mkfifo(written, 0o600)
    else:
        written.write_text("{")
        written.chmod(0o600)
    two.start()
    assert list(listed(two)) == ["main", "bee"]
    said = f"can't read {written}, the list of added workspaces"
    assert said in two.log()
    assert said in two.memctl("status", "--agent", "main").stdout
    assert said in str([f for f in two.doctor(code=1)["findings"] if f["level"] == "error"])
    for command in (("add", str(two.new_folder("dog"))), ("reload",)):
        assert said in two.memctl(*command, code=1).stderr
    assert written.lstat().st_size == (0 if what == "FIFO" else 1), "the file is not overwritten"
    kept.rename(written)
    two.memctl("reload")
    assert len(listed(two)) == 3
    two.assert_healthy()


def test_added_workspaces_go_on_when_their_list_can_not_be_read_again(two: Daemon) -> None:
    two.memctl("add", str(two.new_folder("cow")))
    (written,) = (two.folder / "state/memoryd").glob("added*.json")
    kept = written.rename(two.folder / "kept")
    written.mkdir()
    before = listed(two)
    assert "can't read" in two.memctl("reload", code=1).stderr
    assert "can't read" in two.memctl("drop", str(two.folder / "cow"), code=1).stderr
    assert list(listed(two)) == list(before)
    written.rmdir()
    kept.rename(written)
    two.memctl("reload")
    assert list(listed(two)) == list(before)
