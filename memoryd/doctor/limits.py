"""Limits of the machine: SQLite driver, descriptors, watches, disk space and file names."""

import os
import resource
from contextlib import suppress
from pathlib import Path

from memoryd.doctor.finding import Finding, Topic
from memoryd.index.driver import (
    DRIVER,
    SQLITE_VERSION,
    WAL_LIMIT_BYTES,
    ExtensionError,
    bundled_extension,
    has_module,
    load_extension,
    sqlite,
)

DESCRIPTORS = 1_024
"""Minimum hard limit: about 60 for memoryd and 20 for each agent, the rest for clients."""
LOG_BYTES = 4 * WAL_LIMIT_BYTES
FULL_BYTES = 1024 * 1024
MEBIBYTE = 1024 * 1024
_INOTIFY = Path("/proc/sys/fs/inotify")
_LONGEST_SUFFIX = len(".salvaged-20261128T101500Z-malformed-journal")


def check_driver() -> list[Finding]:
    """Check the SQLite driver for FTS5 and sqlite-vec."""
    topic = Topic("driver")
    connection = sqlite.connect(":memory:")
    try:
        if not has_module(connection, "fts5"):
            topic.error("this SQLite was built without FTS5", "use a Python whose SQLite has it")
        try:
            vec = load_extension(connection, bundled_extension())
        except ExtensionError as error:
            topic.warning(
                f"sqlite-vec does not load: {error}",
                "vectors are searched in memory instead; to install it, run"
                " `pip install --require-hashes -r requirements/runtime.txt`",
            )
            vec = "none"
    finally:
        connection.close()
    return topic.fine(f"{DRIVER}, SQLite {SQLITE_VERSION}, FTS5, sqlite-vec {vec}")


def check_descriptors(topic: Topic) -> None:
    """Check the maximum number of open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        topic.warning(
            f"at most {hard} files can be open at a time", "raise it: `ulimit -Hn`, or LimitNOFILE="
        )


def check_watches(topic: Topic, folders: int, agents: int) -> None:
    """Check the limits of inotify (Linux); above them, folders are scanned."""
    fix = "memoryd scans for changes instead; to raise the limit: sysctl fs.inotify."
    for name, wanted in (("max_user_watches", folders), ("max_user_instances", agents)):
        if (allowed := _number(_INOTIFY / name)) is not None and wanted > allowed:
            topic.warning(f"{name} is {allowed}, and {wanted} are needed", f"{fix}{name}")


def check_room(topic: Topic, index: Path) -> None:
    """Check the free disk space: a rebuild needs room for a second index."""
    try:
        found = os.statvfs(index.parent)
        size = index.stat().st_size if index.exists() else 0
    except OSError:
        return  # reported with the permissions
    free = found.f_bavail * found.f_frsize
    fix = f"free space in the file system of {index.parent}, or set store.path"
    if free < FULL_BYTES:
        topic.error(f"the disk of {index.parent} is full", fix)
    elif free < size:
        topic.warning(
            f"{free // MEBIBYTE} MiB are free beside the index of {size // MEBIBYTE} MiB"
            f" in {index.parent}: too few for a rebuild",
            fix,
        )
    if found.f_files and not found.f_favail:
        topic.error(f"the file system of {index.parent} has no free inodes", fix)


def check_log(topic: Topic, index: Path) -> None:
    """Check that the write-ahead log of an index is checkpointed from time to time."""
    with suppress(OSError):
        size = Path(f"{index}-wal").stat().st_size
        if size > LOG_BYTES:
            topic.warning(
                f"the write-ahead log of {index} has grown to {size // MEBIBYTE} MiB",
                "a process reads the index all the time, which prevents checkpoints;"
                " stop other processes that have it open",
            )


def check_name(topic: Topic, index: Path) -> None:
    """Check that the names of the files beside an index fit into the file system's limit."""
    with suppress(OSError):
        longest = os.pathconf(index.parent, "PC_NAME_MAX")
        if len(os.fsencode(index.name)) + _LONGEST_SUFFIX > longest:
            topic.error(f"the name {index.name} is too long", "set store.path to a shorter name")


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
