"""What the machine has to offer: descriptors, watches, room on the disk, room for names."""

import os
import resource
from contextlib import suppress
from pathlib import Path

from memoryd.doctor.finding import Topic
from memoryd.index.driver import WAL_LIMIT_BYTES

DESCRIPTORS = 1_024
"""memoryd takes the hard limit. Some 60 for itself and 20 an agent; the rest is for clients."""
LOG_BYTES = 4 * WAL_LIMIT_BYTES
FULL_BYTES = 1024 * 1024
MEBIBYTE = 1024 * 1024
_INOTIFY = Path("/proc/sys/fs/inotify")
_LONGEST_SUFFIX = len(".salvaged-20261128T101500Z-malformed-journal")


def check_descriptors(topic: Topic) -> None:
    """Check how many files may be open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        topic.warning(
            f"only {hard} files may be open at a time", "raise it: `ulimit -Hn`, or LimitNOFILE="
        )


def check_watches(topic: Topic, folders: int, agents: int) -> None:
    """Check whether so many folders can be watched (Linux); otherwise they are scanned."""
    fix = "changes are found by scanning instead; to raise it: sysctl fs.inotify."
    for name, wanted in (("max_user_watches", folders), ("max_user_instances", agents)):
        if (allowed := _number(_INOTIFY / name)) is not None and wanted > allowed:
            topic.warning(f"{name} is {allowed}, and {wanted} are needed", f"{fix}{name}")


def check_room(topic: Topic, index: Path) -> None:
    """Check the file system of an index: there has to be room for a second one, for a rebuild."""
    try:
        found = os.statvfs(index.parent)
        size = index.stat().st_size if index.exists() else 0
    except OSError:
        return  # told with the permissions
    free = found.f_bavail * found.f_frsize
    fix = f"make room in the file system of {index.parent}, or set store.path"
    if free < FULL_BYTES:
        topic.error(f"the disk of {index.parent} is full: nothing can be written", fix)
    elif free < size:
        topic.warning(
            f"{free // MEBIBYTE} MiB are free beside the index of {size // MEBIBYTE} MiB"
            f" in {index.parent}: it can't be rebuilt",
            fix,
        )
    if found.f_files and not found.f_favail:
        topic.error(f"the file system of {index.parent} takes no more files", fix)


def check_log(topic: Topic, index: Path) -> None:
    """Check that the write-ahead log of an index is written back from time to time."""
    with suppress(OSError):
        size = Path(f"{index}-wal").stat().st_size
        if size > LOG_BYTES:
            topic.warning(
                f"the write-ahead log of {index} has {size // MEBIBYTE} MiB",
                "somebody reads the index all the time, so that it can't be written back:"
                " end what else has it open",
            )


def check_name(topic: Topic, index: Path) -> None:
    """Check that what stands beside an index can have a name."""
    with suppress(OSError):
        longest = os.pathconf(index.parent, "PC_NAME_MAX")
        if len(os.fsencode(index.name)) + _LONGEST_SUFFIX > longest:
            topic.error(f"the name {index.name} is too long", "set store.path to a shorter one")


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
