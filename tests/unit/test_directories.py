"""Folders that other users can change are refused for sockets, locks and indexes."""

import grp
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import SocketError
from memoryd.fs.directories import open_to_others, private_folder

REPOSITORY = Path(__file__).parents[2]
US = 4321
"""The user that the code believes to run as."""
THEM = 65534

NEEDS = f"import sys; open({__file__!r}); assert sys.version_info >= (3, 11)"
LOOK = """
import sys
from pathlib import Path
from memoryd.fs.directories import open_to_others
print(open_to_others(Path(sys.argv[1])))
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user other than root."""
    if os.geteuid() != 0:
        pytest.skip("needs root: changes the owner of a folder")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setattr(os, "geteuid", lambda: US)
        os.chown(name, US, US)
        yield Path(name).resolve()


def made(path: Path, mode: int, owner: int = US, group: int = US) -> Path:
    path.mkdir()
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def refusal(folder: Path) -> str:
    with pytest.raises(SocketError) as refused:
        private_folder(folder)
    return str(refused.value)


def test_a_folder_that_cannot_be_made_is_told(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(SocketError, match=r"file/run can't be created"):
        private_folder(folder / "file/run")


def test_a_folder_that_is_made_is_ours_alone(folder: Path) -> None:
    private_folder(folder / "run")
    assert stat.S_IMODE(os.stat(folder / "run").st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o711, 0o1777, 0o1775])
def test_a_folder_that_others_only_read_or_that_is_sticky_will_do(folder: Path, mode: int) -> None:
    private_folder(made(folder / "chosen", mode))
    assert stat.S_IMODE(os.stat(folder / "chosen").st_mode) == mode


@pytest.mark.parametrize(("mode", "who"), [(0o777, "everybody"), (0o770, "group 4321")])
@pytest.mark.parametrize("below", ["", "below", "below/it"])
def test_a_folder_that_others_write_to_is_refused(
    folder: Path, mode: int, who: str, below: str
) -> None:
    chosen = made(folder / "chosen", mode)
    told = refusal(chosen / below)
    assert told.startswith(f"{chosen} is writable by {who}, who could replace")
    assert f"`chmod go-w {chosen}`" in told


def test_the_folder_of_another_user_is_refused_and_so_is_what_lies_in_it(folder: Path) -> None:
    theirs = made(folder / "theirs", 0o755, THEM)
    assert refusal(theirs).startswith(f"{theirs} belongs to another user (uid {THEM})")
    ours = made(theirs / "ours", 0o700)
    assert refusal(ours).startswith(f"{theirs} belongs to another user (uid {THEM})")


def test_the_system_s_folders_are_trusted_whoever_s_group_they_have(folder: Path) -> None:
    theirs = made(folder / "usr", 0o775, 0, THEM)
    private_folder(made(theirs / "ours", 0o700))


def test_the_group_that_a_user_has_alone_may_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = made(folder / "chosen", 0o770)
    me = pwd.struct_passwd(("me", "x", US, US, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: me)
    for name, members, allowed in [
        ("me", [], True),
        ("me", ["me"], True),
        ("me", ["me", "friend"], False),
        ("staff", [], False),
    ]:
        group = grp.struct_group((name, "x", US, members))
        monkeypatch.setattr(grp, "getgrgid", lambda gid, group=group: group)
        assert (open_to_others(chosen) is None) == allowed, (name, members)


def test_links_of_our_own_are_followed_and_what_they_lead_through_is_looked_at(
    folder: Path,
) -> None:
    private = made(folder / "private", 0o700)
    public = made(folder / "public", 0o777)
    target = made(public / "target", 0o700)
    for name, to in [("good", "private"), ("bad", "public/target"), ("up", "./private/../good")]:
        (folder / name).symlink_to(to)
        os.chown(folder / name, US, US, follow_symlinks=False)
    (folder / "absolute").symlink_to(target)
    os.chown(folder / "absolute", US, US, follow_symlinks=False)
    assert open_to_others(private) is None
    assert open_to_others(folder / "good") is None
    assert open_to_others(folder / "up") is None
    assert str(open_to_others(folder / "bad")).startswith(f"{public} is writable")
    assert str(open_to_others(folder / "absolute")).startswith(f"{public} is writable")


def test_the_link_of_another_user_is_refused(folder: Path) -> None:
    made(folder / "private", 0o700)
    (folder / "link").symlink_to("private")
    os.chown(folder / "link", THEM, THEM, follow_symlinks=False)
    assert refusal(folder / "link").startswith(f"{folder / 'link'} belongs to another user")


def test_links_in_a_circle_are_told(folder: Path) -> None:
    for one, other in [("a", "b"), ("b", "a")]:
        (folder / one).symlink_to(other)
        os.chown(folder / one, US, US, follow_symlinks=False)
    with pytest.raises(OSError, match="symbolic links"):
        open_to_others(folder / "a")
    assert "can't be" in refusal(folder / "a")


def test_a_folder_for_memoryd_alone_is_closed_to_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    run = made(folder / "memoryd", 0o775)
    private_folder(run)
    assert stat.S_IMODE(os.stat(run).st_mode) == 0o700
    private_folder(run)
    assert [record.getMessage() for record in caplog.records] == [
        f"{run} was open to others; now only its owner can enter it"
    ]


def test_in_a_sandbox_without_root_the_system_s_folders_are_still_the_system_s() -> None:
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("needs root: creates a user namespace as another user")
    user = ["setpriv", f"--reuid={US}", f"--regid={US}", "--clear-groups"]
    sandbox = [*user, "unshare", "--user", f"--map-user={US}"]
    # The system's Python, if ours is in a folder that the sandbox cannot enter.
    found = [
        python
        for python in (sys.executable, "/usr/bin/python3")
        if subprocess.run([*sandbox, python, "-c", NEEDS], capture_output=True).returncode == 0
    ]
    if not found:
        pytest.skip("needs user namespaces and a Python that all users may run")
    environment = {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/client"}
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chown(name, US, US)
        for before in (user, sandbox):
            done = subprocess.run(
                [*before, found[0], "-c", LOOK, name],
                env=environment,
                capture_output=True,
                text=True,
            )
            assert (done.stdout, done.stderr) == ("None\n", "")
