"""A disk that hangs: requests that need it get an error, all others work."""

from pathlib import Path

import pytest
from harness import Daemon
from hung_disk import hung_disk
from waiting import eventually

from memoryd_client.errors import MemorydError, UnavailableError


def degraded(daemon: Daemon, agent: str = "main") -> str:
    with daemon.client(agent) as client:
        return "\n".join(client.status().degraded)


def hang(daemon: Daemon, agent: str = "main") -> None:
    """Make a scan block on the hung disk."""
    with daemon.client(agent) as client, pytest.raises(MemorydError):
        client.sync(timeout_s=0.2)


def test_a_scan_that_hangs_is_told_until_it_is_over(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "a quince at home")
    daemon.write("memory/a.md", "a quince far away")
    other = daemon.add_agent("other")
    daemon.start().sync()
    memory = daemon.workspace / "memory"
    with hung_disk(memory):
        hang(daemon)
        eventually(lambda: f"the disk of {memory} has not answered since" in degraded(daemon))
        found = daemon.search("quince")
        assert {hit.path for hit in found.results} == {"MEMORY.md", "memory/a.md"}
        assert any(f"the disk of {memory}" in warning for warning in found.warnings)
        # Other agents are not affected.
        (other / "MEMORY.md").write_text("a medlar")
        with daemon.client("other") as client:
            client.sync()
            assert client.search("medlar").warnings == []
            assert client.get("MEMORY.md").text == "a medlar"
            assert client.status().degraded == []
            client.ping()
        # An agent that starts meanwhile is not affected either.
        daemon.add_agent("third")
        daemon.write_config()
        daemon.memctl("reload", cwd=daemon.folder)
        with daemon.client("third") as client:
            client.sync()
            assert client.search("third").results
    eventually(lambda: degraded(daemon) == "")
    daemon.write("memory/b.md", "a quince that came back")
    daemon.sync()
    assert daemon.search("quince").warnings == []
    assert len(daemon.paths("quince")) == 3
    daemon.assert_healthy()


@pytest.mark.long
def test_requests_that_hang_keep_no_other_waiting(daemon: Daemon) -> None:
    far = daemon.folder / "far"
    far.mkdir()
    for number in range(10):
        (far / f"{number}.md").write_text(f"a medlar, number{number}")
    daemon.write("MEMORY.md", "a medlar at home")
    daemon.settings += f'\nextra_paths = ["{far}"]'
    daemon.start().sync()
    with hung_disk(far), daemon.client() as client:
        for number in range(10):
            with pytest.raises(MemorydError):
                client.get(str(far / f"{number}.md"), timeout_s=0.05)
        assert client.get("MEMORY.md").text == "a medlar at home"
        assert len(client.search("medlar", max_results=20).results) == 11

        def told() -> bool:
            try:
                client.get(str(far / "0.md"), timeout_s=0.5)
            except UnavailableError as error:
                return f"the disk of {far}" in error.message and error.retryable
            except MemorydError:
                return False
            return False

        eventually(told)
        assert f"the disk of {far}" in degraded(daemon)
    eventually(lambda: degraded(daemon) == "")
    with daemon.client() as client:
        assert client.get(str(far / "0.md")).text == "a medlar, number0"


@pytest.mark.long
def test_a_status_without_a_watcher_does_not_wait_for_the_disk(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "a quince")
    daemon.settings = "sync = { watch = false }"
    daemon.start().sync()
    memory = daemon.workspace / "memory"
    with hung_disk(memory):
        eventually(lambda: f"the disk of {memory}" in degraded(daemon))
        with daemon.client() as client, pytest.raises(UnavailableError, match=str(memory)):
            client.sync()
    daemon.sync()
    eventually(lambda: degraded(daemon) == "")


@pytest.mark.long
@pytest.mark.parametrize("below", ["", "memory"])
def test_a_start_with_a_disk_that_hangs(daemon: Daemon, below: str) -> None:
    daemon.write("memory/a.md", "a quince")
    other = daemon.add_agent("other")
    daemon.start().sync()
    assert daemon.stop() == 0
    place: Path = daemon.workspace / below
    with hung_disk(place):
        daemon.start()
        with daemon.client("other") as client:
            client.sync()
            assert client.get("MEMORY.md").text == "the note of other"
            assert client.status().workspace_dir == str(other)
        assert daemon.paths("quince") == ["memory/a.md"]
        eventually(lambda: f"the disk of {place}" in degraded(daemon))
        daemon.memctl("reload", cwd=daemon.folder)
        assert daemon.paths("quince") == ["memory/a.md"]
    eventually(lambda: degraded(daemon) == "")
    daemon.write("memory/b.md", "another quince")
    daemon.sync()
    assert len(daemon.paths("quince")) == 2
    daemon.assert_healthy()
