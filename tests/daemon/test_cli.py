"""`memctl` and `memoryd` from the shell, on a real daemon."""

import json
import os
import signal
import subprocess
import tomllib

import pytest
from harness import REPOSITORY, Daemon
from waiting import PATIENCE_S


@pytest.fixture
def started(daemon: Daemon) -> Daemon:
    daemon.write("memory/2026-08-14.md", "# Friday\n\nThe boiler shows F28.\nMore text.\n")
    daemon.write("memory/long.md", "".join(f"line {n}\n" for n in range(1, 301)))
    daemon.start().sync()
    return daemon


def test_search_for_people(started: Daemon) -> None:
    shown = started.memctl("search", "what does the boiler show?").stdout
    assert shown.startswith("1. memory/2026-08-14.md:1-4  0.")
    assert "3 │ The boiler shows F28." in shown
    assert started.memctl("search", "zeppelin").stdout == "No matches.\n"


def test_search_for_scripts(started: Daemon) -> None:
    answer = started.memctl_json("search", "boiler")
    assert set(answer) == {
        *("results", "provider", "model", "fallback", "mode", "warnings", "stale"),
        *(
            "pendingFiles",
            "pendingVectors",
            "tookMs",
            "agent",
            "workspaceDir",
            "omitted",
            "firstIndex",
            "confidence",
            "backend",
            "backendFallback",
        ),
    }
    (hit,) = answer["results"]
    assert (hit["path"], hit["startLine"], hit["endLine"]) == ("memory/2026-08-14.md", 1, 4)
    assert (hit["snippetStartLine"], hit["snippetEndLine"]) == (1, 4)
    assert hit["citation"] == "memory/2026-08-14.md#L1-L4"
    assert hit["source"] == "memory"
    assert "vectorScore" not in hit
    assert 0 < hit["textScore"] < 1


def test_get_works_from_any_subfolder(started: Daemon) -> None:
    whole = started.memctl("get", "memory/2026-08-14.md").stdout
    assert whole == "# Friday\n\nThe boiler shows F28.\nMore text.\n"
    below = started.workspace / "memory"
    part = started.memctl("get", "2026-08-14.md", "--from", "3", "--lines", "1", cwd=below)
    assert part.stdout == "The boiler shows F28.\n"
    answer = started.memctl_json("get", "memory/long.md", "--from", "11", "--lines", "5")
    assert answer == {
        "text": "line 11\nline 12\nline 13\nline 14\nline 15",
        "path": "memory/long.md",
        "from": 11,
        "lines": 5,
        "totalLines": 300,
        "nextFrom": 16,
    }


def test_get_without_a_path_says_so(started: Daemon) -> None:
    for below in ("", "memory"):
        told = started.memctl("get", "", cwd=started.workspace / below, code=1).stderr
        assert "the path is empty" in told
        assert "memctl files" in told


def test_exit_codes(started: Daemon) -> None:
    assert "not in memory: memory/none.md" in started.memctl("get", "memory/none.md", code=4).stderr
    assert "not a memory file" in started.memctl("get", "/etc/passwd", code=1).stderr
    started.memctl("serach", "x", code=2)
    error = started.memctl_json("get", "memory/none.md", code=4)["error"]
    assert error["code"] == "not_found"
    assert not error["retryable"]
    started.stop()
    gone = started.memctl("--wait", "0", "status", code=3)
    assert "memoryd --workspace" in gone.stderr
    assert gone.stdout == ""


def test_status_for_scripts_has_the_fields_of_the_reference(started: Daemon) -> None:
    ((agent),) = started.memctl_json("status")
    assert agent["agentId"] == "main"
    status = agent["status"]
    expected = {
        *("backend", "files", "chunks", "dirty", "workspaceDir", "dbPath", "provider", "model"),
        *("requestedProvider", "sources", "extraPaths", "sourceCounts", "cache", "fts"),
        *("fallback", "vector", "batch", "custom"),
    }
    assert expected <= set(status)
    assert status["sourceCounts"] == [
        {"source": "memory", "files": 2, "totalFiles": 2, "chunks": status["chunks"]}
    ]
    assert status["dirty"] is False
    assert {"enabled", "storeAvailable", "available", "loadError", "dims"} <= set(status["vector"])
    assert status["custom"]["indexIdentity"] == {"status": "valid", "reason": None}


def test_index_sync_ping_and_config(started: Daemon) -> None:
    assert started.memctl_json("index")["rebuilt"] is False
    assert started.memctl_json("index", "--force")["rebuilt"] is True
    assert started.memctl_json("sync")["files"] == 2
    assert started.process is not None
    assert started.memctl_json("ping")["pid"] == started.process.pid
    settings = {v["key"]: v for v in started.memctl_json("config")["values"]}
    assert settings["provider"]["value"] == "none"
    assert settings["provider"]["origin"].endswith("[defaults]")
    assert settings["query.max_results"] == {
        "key": "query.max_results",
        "value": 6,
        "origin": "default",
    }
    assert "Memory index updated" in started.memctl("index").stdout


def test_a_log_that_is_a_pipe_is_not_waited_for(daemon: Daemon) -> None:
    pipe = daemon.folder / "pipe"
    os.mkfifo(pipe)
    done = subprocess.run(
        daemon.command("--workspace", str(daemon.workspace), "--log-file", str(pipe)),
        env=daemon.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 78
    said = f"memoryd: can't open the log {pipe}: nobody reads this pipe; name a file"
    assert done.stderr.splitlines() == [said]


def test_config_needs_no_daemon(daemon: Daemon) -> None:
    daemon.write_config()
    done = subprocess.run(
        daemon.command("config", "--config", str(daemon.config), "--json"),
        env=daemon.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    values = {v["key"]: v["value"] for v in json.loads(done.stdout)["values"]}
    assert values["workspace"] == str(daemon.workspace)
    assert values["store.path"] == str(daemon.database)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[defaults]\nprovder = 'none'", "unknown key provder; did you mean provider?"),
        (
            "[defaults]\nprovider = 'openia'",
            "provider: Invalid enum value 'openia'; valid values: auto, auto-remote,",
        ),
        ("[defaults.query]\nmin_score = 3", "query.min_score"),
        ("[agents.main]\nworkspace = '/nowhere/at/all'", "is not a folder"),
        ("this is no TOML", "not valid TOML"),
        ("[default]\n", "unknown table [default]"),
    ],
)
def test_a_bad_configuration_is_told_in_a_line(daemon: Daemon, text: str, complaint: str) -> None:
    daemon.config.write_text(text)
    done = subprocess.run(
        daemon.command("--config", str(daemon.config)),
        env=daemon.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 78
    assert complaint in done.stderr
    assert str(daemon.config) in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_socket_path_that_is_too_long_leaves_nothing(daemon: Daemon) -> None:
    daemon.write_config()
    folder = daemon.folder / ("x" * 100)
    done = subprocess.run(
        daemon.command("--config", str(daemon.config), "--socket", str(folder / "s")),
        env=daemon.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 78
    assert "set MEMORYD_SOCKET (or --socket) to a shorter path" in done.stderr
    assert not folder.exists()


def test_a_closed_pipe_ends_quietly(daemon: Daemon) -> None:
    daemon.write_config()
    command = " ".join(daemon.command("config", "--config", str(daemon.config)))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | true"],
        env=daemon.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_second_daemon_does_not_steal_the_socket(started: Daemon) -> None:
    second = subprocess.run(
        started.command("--config", str(started.config)),
        env=started.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert second.returncode == 3
    assert started.process is not None
    assert f"process {started.process.pid}" in second.stderr
    other_socket = started.environment | {"MEMORYD_SOCKET": str(started.folder / "t")}
    third = subprocess.run(
        started.command("--config", str(started.config)),
        env=other_socket,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert third.returncode == 3
    assert "the index" in third.stderr
    assert len(started.paths("boiler")) == 1


def test_a_stale_socket_is_replaced_and_a_stop_removes_it(started: Daemon) -> None:
    started.kill()
    assert started.socket.exists()
    started.start()
    assert len(started.paths("boiler")) == 1
    assert started.stop() == 0
    assert not started.socket.exists()
    assert "stopped" in started.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_stop_in_an_orderly_way(started: Daemon, number: signal.Signals) -> None:
    assert started.process is not None
    started.process.send_signal(number)
    assert started.process.wait(PATIENCE_S) == 0
    assert "Traceback" not in started.log()


def test_without_a_configuration_file_each_workspace_has_its_index(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "mine")
    names = []
    for folder in ("one", "two"):
        workspace = daemon.folder / folder / "notes"
        (workspace / "memory").mkdir(parents=True)
        done = subprocess.run(
            daemon.command("config", "--json", "--workspace", str(workspace)),
            env=daemon.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        values = {v["key"]: v for v in json.loads(done.stdout)["values"]}
        assert values["workspace"] == {
            "key": "workspace",
            "value": str(workspace),
            "origin": "--workspace",
        }
        names.append(values["store.path"]["value"].rpartition("/")[2])
    assert names[0] != names[1]
    assert all(name.startswith("notes-") for name in names)


def test_versions_agree() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    client = tomllib.loads((REPOSITORY / "client" / "pyproject.toml").read_text())["project"]
    import memoryd
    import memoryd_client

    assert memoryd.__version__ == project["version"]
    assert memoryd_client.__version__ == client["version"]
    assert f"memoryd-client=={client['version']}" in project["dependencies"]
