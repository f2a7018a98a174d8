"""Holders of locks, as the kernel lists them, and a process whose open files can't be seen."""

import fcntl
import os
import sys
from pathlib import Path

import pytest

from memoryd_client.launcher.process import Process
from memoryd_client.shared.file_locks import holder_among, holds_lock

pytestmark = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.touch()
    return path


def test_the_holder_of_a_lock_is_known(file: Path) -> None:
    assert holds_lock(os.getpid(), str(file)) is None
    with open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert holds_lock(os.getpid(), str(file)) is True
        assert holds_lock(1, str(file)) is False
    assert holds_lock(os.getpid(), str(file.parent / "missing")) is None


def test_the_holder_is_looked_up_where_open_files_can_not_be_seen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", refuse)
    with Process(os.getpid()) as process, open(file) as held:
        assert process.has_open(str(file)) is None
        fcntl.flock(held, fcntl.LOCK_EX)
        assert process.has_open(str(file)) is True
    with Process(os.getppid()) as other, open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert other.has_open(str(file)) is False


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: device numbers")
def test_only_the_holders_of_this_file_count(file: Path) -> None:
    found = file.stat()
    here = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    elsewhere = f"7f:7f:{found.st_ino}"

    def known(*lines: str) -> bool | None:
        return holder_among(lines, 7, found)

    assert known() is None
    assert known("1: FLOCK  ADVISORY  WRITE 7 00:13:1 0 EOF", "", "nonsense") is None
    assert known(f"1: FLOCK  ADVISORY  WRITE 7 {here} 0 EOF") is True
    assert known(f"1: POSIX  ADVISORY  READ 8 {here} 0 EOF") is False
    assert (
        known(
            f"1: POSIX  ADVISORY  READ 8 {here} 0 EOF", f"1: -> FLOCK ADVISORY READ 7 {here} 0 EOF"
        )
        is False
    )
    # Another file, or the same one on a file system with other device numbers.
    assert known(f"1: FLOCK  ADVISORY  WRITE 7 {elsewhere} 0 EOF") is True
    assert known(f"1: FLOCK  ADVISORY  WRITE 8 {elsewhere} 0 EOF") is None
