"""QMD as a back end: its own ways, and every way in which it can fail."""

import json
import os
import signal
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from harness import Daemon
from qmd_package import SECRET, Qmd
from waiting import eventually

from memoryd.fs.lockfile import locked
from memoryd_client.errors import DeniedError


@pytest.fixture
def qmd(daemon: Daemon) -> Qmd:
    return Qmd(daemon)


def test_get_takes_names_of_qmd(qmd: Qmd) -> None:
    qmd.start()
    with qmd.daemon.client() as client:
        found = client.get("qmd://memory-dir-main/2026-08-14 Big Day.md")
        assert (found.path, "A quince fell." in found.text) == (
            "memory/2026-08-14 Big Day.md",
            True,
        )
        for hidden in (
            "qmd://memory-dir-main/hidden.md",
            "qmd://memory-dir-main/../../../etc/hosts",
        ):
            with pytest.raises(DeniedError):
                client.get(hidden)


def test_results_that_qmd_makes_up_are_dropped(qmd: Qmd) -> None:
    files = [
        "qmd://memory-dir-main/hidden.md",
        "qmd://memory-dir-main/../../config.toml",
        "qmd://nothing/MEMORY.md",
        "/etc/hosts",
        "qmd://memory-root-main//etc/hosts",
        "qmd://memory-root-main/MEMORY.md",
        "qmd://memory-root-main/MEMORY.md",
    ]
    lies: list[Any] = [{"file": file, "line": 10**9, "score": 9} for file in files[:-1]]
    lies += [None, 7, {"file": 7}, {"file": files[-1], "line": -1, "score": "x", "snippet": "lie"}]
    qmd.daemon.variables["QMD_LIES"] = json.dumps(lies)
    qmd.start()
    qmd.faults("lies")
    (hit,) = qmd.search().results
    assert (hit.path, "lie" in hit.snippet) == ("MEMORY.md", False)


def test_qmd_has_folders_of_its_own_without_keys(qmd: Qmd) -> None:
    qmd.daemon.variables["OPENAI_API_KEY"] = SECRET
    qmd.start()
    environment = Path(f"/proc/{qmd.pid()}/environ").read_bytes()
    home = qmd.daemon.folder / "state/memoryd/qmd/main"
    assert SECRET.encode() not in environment
    assert f"XDG_CONFIG_HOME={home}/config".encode() in environment
    assert f"XDG_CACHE_HOME={home}/cache".encode() in environment
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_killed_server_is_replaced(qmd: Qmd) -> None:
    qmd.start()
    first = qmd.pid()
    os.killpg(first, signal.SIGKILL)
    eventually(lambda: qmd.status().pid not in (None, first))
    assert qmd.search().backend == "qmd"


def test_a_hanging_server_is_replaced(daemon: Daemon) -> None:
    qmd = Qmd(daemon, settings="search_timeout_ms = 300\n")
    qmd.start()
    first = qmd.pid()
    qmd.faults("hangs")
    qmd.stands_in("qmd did not answer within 0.3 s")
    qmd.faults()
    eventually(lambda: qmd.status().pid not in (None, first))
    eventually(lambda: qmd.search().backend == "qmd")
    assert "did not answer within" in str(qmd.status().last_fallback)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("garbage", "qmd answered without results: <html>"),
        ("error", "its server answered with an error (500)"),
        ("endless", "qmd printed more than 4 MB"),
    ],
)
def test_a_failing_server_is_asked_again(qmd: Qmd, fault: str, reason: str) -> None:
    qmd.start()
    before = qmd.status().fallbacks
    qmd.faults(fault)
    qmd.stands_in(reason)
    qmd.faults()
    assert qmd.search().backend == "qmd"
    assert qmd.status().fallbacks == before + 1


def test_another_version_is_not_asked(qmd: Qmd) -> None:
    qmd.start()
    qmd.version("3.0.0")
    qmd.stands_in("qmd 3.0.0 is not known to memoryd, which knows 2.8")
    status = qmd.status()
    assert (status.state, "3.0.0" in str(status.reason)) == ("unavailable", True)
    shown = qmd.daemon.memctl("search", "quince")
    reason = "qmd 3.0.0 is not known to memoryd, which knows 2.8"
    assert f"warning: the built-in index answered: {reason}\n" in shown.stderr
    fallback = qmd.daemon.memctl_json("search", "quince")["backendFallback"]
    assert fallback == {"from": "qmd", "reason": reason}
    eventually(lambda: qmd.status().pid is None)
    assert "by command" not in qmd.daemon.memctl("status").stdout
    assert qmd.daemon.log().count(f"qmd can't be used: {reason}") == 1
    qmd.version("2.8.9")
    assert qmd.search().model == "2.8.9"


def test_a_missing_qmd_is_reported_everywhere(qmd: Qmd) -> None:
    (qmd.package / "dist/cli/qmd.js").unlink()
    qmd.start(ready=False)
    qmd.stands_in("is not the launcher of qmd")
    (status,) = qmd.daemon.memctl_json("status")
    assert any("is not the launcher" in line for line in status["status"]["degraded"])
    assert "is not the launcher" in qmd.daemon.memctl("probe", code=1).stdout
    found = [finding["message"] for finding in qmd.daemon.doctor(code=1)["findings"]]
    assert any("is not the launcher" in message for message in found)
    assert any("every user of this machine can search" in message for message in found)
    (qmd.package / "dist/cli/qmd.js").touch()
    found = [finding["message"] for finding in qmd.daemon.doctor()["findings"]]
    assert any(message.startswith("qmd 2.8.3 at ") for message in found)


@pytest.mark.parametrize("version", ["v20.20.2", "", "nonsense"])
def test_an_old_node_is_not_started(qmd: Qmd, version: str) -> None:
    qmd.node_version(version)
    qmd.start(ready=False)
    qmd.stands_in("qmd needs Node.js 22, and")
    assert qmd.calls() == []
    assert "commands answer" not in qmd.daemon.log()


@pytest.mark.parametrize("fault", ["mcp-fails", "mcp-dies"])
def test_commands_answer_without_a_server(qmd: Qmd, fault: str) -> None:
    qmd.faults(fault)
    qmd.start(ready=False)
    eventually(lambda: qmd.search().backend == "qmd")
    assert qmd.status().way == "command"
    eventually(lambda: "commands answer instead of a server" in str(qmd.status().problem))
    qmd.faults(fault, "garbage")
    qmd.stands_in("qmd printed no results: ")
    qmd.faults(fault, "search-dies", "query-dies")
    qmd.stands_in("`qmd query` ended with signal 11: it printed nothing")
    qmd.faults(fault, "search-fails")
    result = qmd.search()
    assert (result.backend, result.mode, result.warnings) == ("qmd", "keyword", [])
    assert [call for call in qmd.calls() if call != "mcp"][-1] == "query"


def test_updates_that_fail_are_reported(daemon: Daemon) -> None:
    qmd = Qmd(daemon, settings="update_timeout_seconds = 0.5\n")
    qmd.start()
    qmd.faults("update-hangs")
    daemon.sync()
    assert qmd.status().problem == "`qmd update` did not end within 0.5 s"
    assert qmd.search().backend == "qmd"
    qmd.faults("update-fails")
    daemon.sync()
    assert "`qmd update` ended with exit code 1: Error: update is out" in str(qmd.status().problem)
    qmd.faults()
    home = daemon.folder / "state/memoryd/qmd/main"
    with locked(home / "update.lock", "the test"):
        daemon.sync()
        assert "in use by another memoryd" in str(qmd.status().problem)
    daemon.sync()
    assert qmd.status().problem is None


def test_vectors_without_a_model_are_recognized(daemon: Daemon) -> None:
    qmd = Qmd(daemon, settings='search_mode = "vsearch"\nembed_timeout_seconds = 0.5\n')
    qmd.faults("embed-hangs")
    qmd.start()
    result = qmd.search()
    assert (result.backend, result.mode) == ("qmd", "keyword")
    warning = "qmd has no vectors, so only words count"
    assert any(warning in line for line in result.warnings)
    reason = f"{warning}: `qmd embed` did not end within 0.5 s"
    eventually(lambda: qmd.status().problem == reason)
    assert reason in daemon.memctl("probe", code=1).stdout
    qmd.faults("vectors")  # counted, yet nothing is near: no model for the question
    daemon.sync()
    assert qmd.search().mode == "hybrid"
    assert "qmd has no model for vectors" in daemon.memctl("probe", code=1).stdout


def test_failing_embeddings_and_hanging_commands_are_reported(daemon: Daemon) -> None:
    settings = "server = false\nsearch_timeout_ms = 500\nembed_minutes = 1e-9\n"
    qmd = Qmd(daemon, settings=f'search_mode = "query"\n{settings}')
    qmd.faults("embed-fails")
    qmd.start(ready=False)
    problem = "qmd has no vectors, so only words count: `qmd embed` ended with exit code 1: "
    eventually(lambda: str(qmd.status().problem).startswith(problem))
    eventually(lambda: qmd.search().backend == "qmd")
    assert [line for line in qmd.search().warnings if line.startswith(problem)]
    qmd.faults("query-hangs")
    qmd.stands_in("qmd did not answer within 0.5 s")
    qmd.faults()
    eventually(lambda: qmd.search().backend == "qmd")
    daemon.sync()
    eventually(lambda: str(qmd.status().problem).endswith(": `qmd embed` made none"))


def test_confidence_is_the_business_of_the_index(qmd: Qmd) -> None:
    qmd.start()
    result = qmd.search(min_confidence=0.01)
    assert result.backend == "builtin"
    assert result.backend_fallback is not None


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_server_ends_with_the_daemon(qmd: Qmd, end: str) -> None:
    qmd.start()
    pid = qmd.pid()
    getattr(qmd.daemon, end)()

    def is_gone() -> bool:
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        return True

    eventually(is_gone)


def test_nothing_of_qmd_runs_for_the_built_in_index(daemon: Daemon) -> None:
    qmd = Qmd(daemon, "builtin")
    qmd.start(ready=False)
    assert qmd.search().backend == "builtin"
    assert qmd.calls() == []
    assert not (daemon.folder / "state/memoryd/qmd").exists()
