"""A key file on a disk that hangs: features without a key work, the others when it answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Daemon
from hung_disk import hung_disk
from serving import serving
from vendors import OpenAiDouble
from waiting import eventually

from memoryd_client.errors import UnavailableError

KEY = "sk-double-Zq7Zq7Zq7Zq7"


@pytest.fixture
def openai(daemon: Daemon) -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY)) as double:
        daemon.variables["OPENAI_BASE_URL"] = double.url
        try:
            yield double
        finally:
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.kill()  # the double waits for its connected clients


@pytest.fixture
def far(daemon: Daemon) -> Path:
    """The folder of the key, which the environment names."""
    folder = daemon.folder / "far"
    folder.mkdir(mode=0o700)
    (folder / "key").write_text(KEY)
    (folder / "key").chmod(0o600)
    daemon.variables["OPENAI_API_KEY_FILE"] = str(folder / "key")
    return folder


@pytest.mark.long
def test_a_key_on_a_disk_that_hangs_keeps_nobody_waiting(
    daemon: Daemon, openai: OpenAiDouble, far: Path
) -> None:
    daemon.provider = "openai"
    daemon.write("MEMORY.md", "a quince")
    daemon.start().sync()
    with daemon.client() as client:
        with hung_disk(far):
            daemon.write("memory/b.md", "a medlar")
            client.sync(vectors=False)
            client.ping()
            found = client.search("medlar", mode="keyword")
            assert [hit.path for hit in found.results] == ["memory/b.md"]

            def told() -> bool:
                lines = "\n".join(client.status().degraded)
                return f"The key file {far}/key" in lines and "does not answer" in lines

            eventually(told)
        eventually(lambda: client.status().pending_vectors == 0)
    assert KEY not in daemon.log()


@pytest.mark.long
def test_a_new_index_waits_for_the_key_that_decides_who_embeds(
    daemon: Daemon, openai: OpenAiDouble, far: Path
) -> None:
    daemon.provider = "auto-remote"
    other = daemon.add_agent("other", 'provider = "none"')
    with hung_disk(far):
        daemon.start()
        with daemon.client("other") as client:
            client.sync()
            assert client.status().workspace_dir == str(other)
        told = f"the disk of {far}/key has not answered since"
        with daemon.client("main") as client, pytest.raises(UnavailableError, match=told):
            client.status()
        assert daemon.stop() == 0
        daemon.start()
    with daemon.client("main") as client:

        def is_up() -> bool:
            return {row.agent: row.state for row in client.agents().agents}["main"] == "ready"

        eventually(is_up)
        client.sync()
        assert client.status().provider == "openai"
    assert "Traceback" not in daemon.log()


@pytest.mark.long
def test_what_looks_for_a_key_by_request_says_that_its_disk_hangs(
    daemon: Daemon, openai: OpenAiDouble, far: Path
) -> None:
    daemon.provider = "auto-remote"
    daemon.start().sync()
    with daemon.client() as client, hung_disk(far):
        with pytest.raises(UnavailableError, match="their disk does not answer"):
            client.index(provider="openai")
        client.ping()
        assert client.probe().candidates == []
        eventually(lambda: f"the disk of {far}/key" in "\n".join(client.status().degraded))
