"""The folders that clients may add, and links that lead out of them."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Daemon
from restricting import code_of, configure, start
from waiting import eventually

from memoryd_client.errors import BadRequestError, DeniedError
from memoryd_client.schema.agents import AddBody


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder outside the daemon's home, with a note."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name).resolve() / "secret"
        folder.mkdir()
        (folder / "MEMORY.md").write_text("a word of secret\n")
        yield folder


def agents(daemon: Daemon) -> list[str]:
    with daemon.client() as client:
        return [agent.agent.partition("-")[0] for agent in client.agents().agents]


def test_by_default_only_folders_of_the_home_may_be_added(daemon: Daemon, outside: Path) -> None:
    daemon.start()
    link, inside = daemon.folder / "link", daemon.new_folder("inside")
    link.symlink_to(outside)
    paths = (outside, link, Path("/"), Path("/etc"), outside / "nowhere")
    with daemon.client() as client:
        for path in paths:
            with pytest.raises(DeniedError, match="at or below ~, where") as denied:
                client.add(path)
            assert f"socket.add_below, or as the workspace of an agent, in {daemon.config}" in str(
                denied.value
            )
        assert client.add(inside / ".." / "inside").added
    for forged in (f"{link}/..", f"{link}/.", f"{daemon.folder}/../../etc", "/proc/self/cwd/.."):
        assert code_of(daemon.socket, "add", AddBody(forged)) == "denied"
    assert agents(daemon) == ["main", "inside"]
    said = daemon.memctl("add", str(outside), code=1).stderr
    assert f"{outside} is not at or below ~" in said
    assert not list((daemon.folder / "state/memoryd").glob("secret*"))


def test_the_path_of_a_name_like_a_root_is_not_below_it(daemon: Daemon, outside: Path) -> None:
    start(daemon, f"add_below = ['{outside.parent / 'sec'}']")
    with daemon.client() as client, pytest.raises(DeniedError):
        client.add(outside)


def test_a_reload_changes_the_folders(daemon: Daemon, outside: Path) -> None:
    inside = daemon.new_folder("inside")
    start(daemon, "add_below = []")
    with daemon.client() as client:
        with pytest.raises(DeniedError, match="clients may add no workspaces"):
            client.add(inside)
        configure(daemon, f"add_below = ['{outside.parent}']")
        with pytest.raises(DeniedError):  # not before the reload
            client.add(outside)
        assert client.reload().changed == ["socket.add_below"]
        assert client.add(outside).added
        with pytest.raises(DeniedError, match=f"at or below {outside.parent}"):
            client.add(inside)
        configure(daemon, "")
        client.reload()
        # It stays until it is dropped.
        assert client.add(outside).added is False
    assert agents(daemon) == ["main", "secret"]
    daemon.stop()
    daemon.start(config=daemon.config.read_text())
    assert agents(daemon) == ["main", "secret"]
    with daemon.client() as client:
        client.drop(outside)
        with pytest.raises(DeniedError):
            client.add(outside)


def test_the_configuration_may_name_any_folder(daemon: Daemon, outside: Path) -> None:
    configure(daemon, "add_below = []")
    text = daemon.config.read_text() + f'\n[agents.ann]\nworkspace = "{outside}"\n'
    daemon.start(config=text)
    assert agents(daemon) == ["main", "ann"]
    with daemon.client("ann") as client:
        client.sync()
        assert len(client.search("word").results) == 1
        assert client.add(outside).added is False


@pytest.mark.parametrize("how", ["start", "reload"])
def test_a_link_in_place_of_an_added_folder_leads_nowhere(
    daemon: Daemon, outside: Path, how: str
) -> None:
    added = daemon.new_folder("inside")
    daemon.start()
    with daemon.client() as client:
        client.add(added)
    added.rename(daemon.folder / "moved")
    added.symlink_to(outside)
    if how == "reload":
        daemon.memctl("reload")
    else:
        daemon.stop()
        daemon.start()
    assert agents(daemon) == ["main"]
    eventually(lambda: f"{added} is not served any more: it leads to {outside}" in daemon.log())
    assert not list((daemon.folder / "state/memoryd").glob("secret*"))


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("'notes'", "'notes' is not an absolute path"),
        ("'~nobody-here/x'", "no such user"),
        (r'"a\u0000b"', "a path can't contain NUL"),
        ("1", "Expected `str`, got `int`"),
    ],
)
def test_a_root_that_can_not_be_used_is_told(daemon: Daemon, root: str, told: str) -> None:
    daemon.start()
    configure(daemon, f"add_below = [{root}]")
    with daemon.client() as client, pytest.raises(BadRequestError, match="add_below") as refused:
        client.reload()
    assert told in str(refused.value)


def test_a_home_that_does_not_exist_permits_nothing(daemon: Daemon) -> None:
    daemon.variables["HOME"] = str(daemon.folder / "no-home")
    daemon.start()
    with daemon.client() as client, pytest.raises(DeniedError):
        client.add(daemon.new_folder("inside"))
    assert os.path.isdir(daemon.folder / "inside")
