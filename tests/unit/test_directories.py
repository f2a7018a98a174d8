"""Folders that other users can change are refused for sockets, locks and indexes."""

import grp
import os
import pwd
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
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
for name in sys.argv[1:]:
    print(open_to_others(Path(name)))
"""
TREE = f"""
mount -t tmpfs -o mode=755 none /mnt
mount -t tmpfs -o mode=1777 none /var/tmp
mkdir -m 755 /mnt/home /mnt/home/us /mnt/home/us/run /mnt/home/us/theirs /mnt/home/us/theirs/us
mkdir -m 755 /mnt/theirs /var/tmp/theirs /var/tmp/theirs/us
mkdir -m 1777 /mnt/sticky
mkdir -m 775 /mnt/group
mkdir -m 700 /mnt/sticky/us /mnt/group/us
ln -s home /mnt/link
ln -s run /mnt/home/us/link
ln -s theirs /mnt/home/us/to-theirs
ln -s /mnt/home/us /var/tmp/link
chown -R -h {US}:{US} /mnt/home/us /mnt/sticky/us /mnt/group/us
chown -h {THEM}:{THEM} /mnt/home/us/theirs /mnt/theirs /var/tmp/theirs /var/tmp/link
chown {US}:{US} /mnt/home/us/theirs/us /var/tmp/theirs/us
"""
"""Folders of root, of the user `us`, and of others."""


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


# --- access control lists


def acl(*entries: tuple[int, int, int]) -> bytes:
    """Return an access control list in the kernel's format: (tag, permissions, id) each."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32


@pytest.mark.skipif(sys.platform != "linux", reason="needs the ACLs of Linux")
@pytest.mark.parametrize(
    ("entry", "mask", "whose"),
    [
        ((USER, 7, THEM), 7, f"user {THEM}"),
        ((USER, 2, THEM), 7, f"user {THEM}"),
        ((USER, 7, THEM), 5, None),  # the mask permits no write
        ((USER, 5, THEM), 7, None),
        ((USER, 7, US), 7, None),
        ((USER, 7, 0), 7, None),
        ((GROUP, 7, 4_242), 7, "group 4242"),
        ((GROUP, 5, 4_242), 7, None),
        ((GROUP, 7, US), 7, None),
    ],
)
@pytest.mark.parametrize("owner", [US, 0])
def test_an_access_control_list_may_let_others_write(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry: tuple[int, int, int],
    mask: int,
    whose: str | None,
    owner: int,
) -> None:
    me = pwd.struct_passwd(("me", "x", US, US, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: me)
    groups = {US: grp.struct_group(("me", "x", US, []))}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: groups[gid])
    chosen = made(folder / "chosen", 0o700, owner)
    entries = [(USER_OBJ, 7, NOBODY), entry, (GROUP_OBJ, 5, NOBODY), (MASK, mask, NOBODY)]
    entries = sorted([*entries, (OTHER, 0, NOBODY)])
    try:
        os.setxattr(chosen, "system.posix_acl_access", acl(*entries))
    except OSError as error:
        pytest.skip(f"no access control lists here: {error.strerror}")
    told = str(open_to_others(chosen))
    if whose is None or owner == 0:  # root gave that right
        assert told == "None"
    else:
        assert told.startswith(f"{chosen} is writable by {whose}, who could replace files in")
        assert f"`chmod go-w {chosen}`" in told
        chosen.chmod(stat.S_IMODE(os.stat(chosen).st_mode) & ~0o022)
        assert open_to_others(chosen) is None, "the advice helps"


# --- user namespaces without root, where unknown users look like one


@pytest.fixture(scope="module")
def sandboxed() -> Callable[..., list[str]]:
    """A function that checks folders as another user, with `options` of unshare(1) if given.

    All see a tree in memory, at /mnt and /var/tmp.
    """
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("needs root: creates a user namespace as another user")
    user = ["setpriv", f"--reuid={US}", f"--regid={US}", "--clear-groups"]
    mount = ["unshare", "--mount", "sh", "-c", f'set -e{TREE}exec "$@"', "sh"]
    # The system's Python, if ours is in a folder that the sandbox cannot enter.
    found = [
        python
        for python in (sys.executable, "/usr/bin/python3")
        if subprocess.run(
            [*mount, *user, "unshare", "--user", f"--map-user={US}", python, "-c", NEEDS],
            capture_output=True,
        ).returncode
        == 0
    ]
    if not found:
        pytest.skip("needs user namespaces and a Python that all users may run")
    environment = {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/client", "PATH": os.environ["PATH"]}

    def look(*folders: str, options: Sequence[str] = ()) -> list[str]:
        sandbox = ["unshare", "--user", *options] if options else []
        command = [*mount, *user, *sandbox, found[0], "-c", LOOK, *folders]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return look


MAPPED = (f"--map-user={US}",)
CONTAINER = ("--map-root-user",)


@pytest.mark.parametrize("options", [(), MAPPED, CONTAINER], ids=["plain", "mapped", "container"])
def test_in_a_sandbox_without_root_the_system_s_folders_are_still_the_system_s(
    sandboxed: Callable[..., list[str]], options: tuple[str, ...]
) -> None:
    good = ["/mnt/home/us", "/mnt/home/us/link", "/mnt/link/us", "/var/tmp", "/mnt/home/us/run"]
    assert sandboxed(*good, options=options) == ["None"] * len(good)


@pytest.mark.parametrize("options", [MAPPED, CONTAINER], ids=["mapped", "container"])
def test_in_a_sandbox_without_root_the_folders_of_others_are_not_the_system_s(
    sandboxed: Callable[..., list[str]], options: tuple[str, ...]
) -> None:
    told = {
        "/mnt/home/us/theirs": "/mnt/home/us/theirs belongs to another user",
        "/mnt/home/us/theirs/us": "/mnt/home/us/theirs belongs to another user",
        "/mnt/home/us/to-theirs": "/mnt/home/us/theirs belongs to another user",
        "/mnt/theirs": "/mnt/theirs belongs to another user",
        "/mnt/sticky/us": "/mnt/sticky is writable by everybody",
        "/mnt/group/us": "/mnt/group is writable by group",
        "/var/tmp/theirs": "/var/tmp/theirs belongs to another user",
        "/var/tmp/theirs/us": "/var/tmp/theirs belongs to another user",
        "/var/tmp/link": "/var/tmp/link belongs to another user",
    }
    said = sandboxed(*told, options=options)
    assert [line[: len(start)] for line, start in zip(said, told.values(), strict=True)] == [
        *told.values()
    ]


def test_in_a_sandbox_without_any_user_nothing_is_known_to_be_ours(
    sandboxed: Callable[..., list[str]],
) -> None:
    for said in sandboxed("/mnt/home/us", "/mnt/theirs", options=["--setgroups=deny"]):
        assert said.startswith("in this user namespace, the files of all other users look like")
