"""A start with a disk that hangs: only its agent waits, and starts when the disk answers."""

import subprocess
from pathlib import Path

import pytest
from harness import Daemon
from hung_disk import hung_disk
from waiting import PATIENCE_S, eventually

from memoryd_client.errors import MemorydError, UnavailableError


def add_far(daemon: Daemon) -> Path:
    """Configure an agent whose index is on a separate disk; return its folder."""
    far = daemon.folder / "far"
    far.mkdir(mode=0o700)
    daemon.add_agent("far-off", f'store = {{ path = "{far}/i.sqlite" }}')
    return far


def rows(daemon: Daemon) -> dict[str, tuple[str, str | None]]:
    with daemon.client() as client:
        return {row.agent: (row.state, row.reason) for row in client.agents().agents}


def check_served(daemon: Daemon, agent: str, words: str) -> None:
    with daemon.client(agent) as client:
        client.sync()
        assert client.search(words).results


@pytest.mark.long
def test_a_stop_ends_a_start_that_waits_for_an_index(daemon: Daemon) -> None:
    far = add_far(daemon)
    with hung_disk(far):
        daemon.start(wait=False)
        # The main agent is up; the daemon serves requests after it has given up on the other.
        eventually(lambda: "agent main: workspace" in daemon.log())
        assert daemon.stop() == 0
    log = daemon.log()
    assert "did not stop within" not in log
    assert "Traceback" not in log
    assert not daemon.socket.exists()
    assert list(far.iterdir()) == []
    # No lock is left.
    check_served(daemon.start(), "far-off", "note")
    assert daemon.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_an_index_on_a_disk_that_hangs_at_the_start(
    daemon: Daemon, alone: bool, linked: bool
) -> None:
    daemon.write("MEMORY.md", "a quince")
    far = daemon.folder / "far"
    far.mkdir(mode=0o700)
    named = far
    if linked:
        named = daemon.folder / "link"
        named.symlink_to(far)
    if alone:
        daemon.settings = f'store = {{ path = "{named}/i.sqlite" }}'
    else:
        daemon.add_agent("far-off", f'store = {{ path = "{named}/i.sqlite" }}')
    hung = "main" if alone else "far-off"
    with hung_disk(far):
        daemon.start()
        if not alone:
            check_served(daemon, "main", "quince")
        told = f"the disk of {named}/i.sqlite has not answered since"
        state, reason = rows(daemon)[hung]
        assert (state, told in str(reason)) == ("starting", True)
        with daemon.client(hung) as client, pytest.raises(UnavailableError, match=told) as refused:
            client.status()
        assert refused.value.retryable
        assert told in daemon.memctl("agents", cwd=daemon.folder).stdout
        # Reloading the configuration changes nothing and blocks no client.
        daemon.memctl("reload", cwd=daemon.folder)
        assert rows(daemon)[hung][0] == "starting"
    check_served_at_last(daemon, hung, "quince" if alone else "note")
    assert rows(daemon)[hung] == ("ready", None)
    with daemon.client(hung) as client:
        assert client.status().db_path == f"{far}/i.sqlite"
    # The index has only one daemon.
    second = subprocess.run(
        daemon.command("--config", str(daemon.config), "--socket", str(daemon.folder / "t")),
        env=daemon.environment,
        cwd=daemon.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert second.returncode == 3
    assert "in use by another memoryd" in second.stderr
    daemon.assert_healthy()
    assert daemon.stop() == 0


def check_served_at_last(daemon: Daemon, agent: str, words: str) -> None:
    def served() -> bool:
        try:
            check_served(daemon, agent, words)
        except UnavailableError:
            return False
        return True

    eventually(served)


@pytest.mark.long
def test_an_agent_whose_index_hangs_can_be_given_up_and_taken_up_again(daemon: Daemon) -> None:
    far = add_far(daemon)
    daemon.start()
    check_served(daemon, "far-off", "note")
    settings = daemon.agents["far-off"]
    daemon.agents.clear()
    daemon.write_config()
    daemon.memctl("reload", cwd=daemon.folder)
    with hung_disk(far):
        # The agent is added, changed and removed: no waiting thread may keep the lock.
        daemon.agents["far-off"] = settings
        daemon.write_config()
        daemon.memctl("reload", cwd=daemon.folder, code=1)
        daemon.agents["far-off"] = f"{settings}\nchunking = {{ tokens = 100 }}"
        daemon.write_config()
        daemon.memctl("reload", cwd=daemon.folder, code=1)
        daemon.agents.clear()
        daemon.write_config()
        assert "Stopped: far-off" in daemon.memctl("reload", cwd=daemon.folder).stdout
        with daemon.client("far-off") as client, pytest.raises(MemorydError, match="no such agent"):
            client.status()
    daemon.agents["far-off"] = settings
    daemon.write_config()
    daemon.memctl("reload", cwd=daemon.folder)
    check_served_at_last(daemon, "far-off", "note")
    assert "Traceback" not in daemon.log()
    daemon.assert_healthy()
