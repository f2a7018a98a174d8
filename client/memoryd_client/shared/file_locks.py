"""Processes that hold locks on a file, as the kernel lists them for everybody in proc_locks(5)."""

import os
from collections.abc import Iterable
from contextlib import suppress

_LOCKS = "/proc/locks"
_FIELDS = 8


def holds_lock(pid: int, path: str) -> bool | None:
    """Return whether a process holds a lock on a file; None if the list does not tell.

    Unlike the open files of a process, this is known even if its memory is protected.
    """
    with suppress(OSError, ValueError):
        found = os.stat(path)
        with open(_LOCKS, encoding="ascii") as file:
            return holder_among(file, pid, found)
    return None


def holder_among(lines: Iterable[str], pid: int, found: os.stat_result) -> bool | None:
    """Return what the lines of the list tell about a process and a file."""
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    places: dict[str, set[int]] = {}
    for line in lines:
        # Such as `1: FLOCK  ADVISORY  WRITE 708 00:13:17788 0 EOF`; `->` marks one that waits.
        fields = line.split()
        if len(fields) == _FIELDS and fields[1] != "->":
            place, _, inode = fields[5].rpartition(":")
            if inode == str(found.st_ino):
                places.setdefault(place, set()).add(int(fields[4]))
    if device in places:
        return pid in places[device]
    # Some file systems, such as btrfs, have other device numbers in the list.
    return True if any(pid in pids for pids in places.values()) else None
