"""The first bytes of an index file: whether it is one, whether it is ours, and what they must be.

A file is known before SQLite reads it: a pipe would keep SQLite waiting for ever, and a file that
is somebody else's must not be moved away.
"""

import os
import shutil
import stat
from pathlib import Path

from memoryd.index.schema import VERSION, IndexRefusedError

HEADER_BYTES = 100
PAGE_BYTES = 4096
_MAGIC = b"SQLite format 3\0"
_CERTAIN = {
    0: _MAGIC,
    16: PAGE_BYTES.to_bytes(2, "big"),
    18: b"\2\2",  # write-ahead log
    20: bytes((0, 64, 32, 32)),
    44: (4).to_bytes(4, "big"),  # format of the schema
    56: (1).to_bytes(4, "big"),  # UTF-8
    60: VERSION.to_bytes(4, "big"),
    64: (1).to_bytes(4, "big"),  # incremental vacuum
}
"""By offset: what stands there in every index. https://sqlite.org/fileformat2.html#the_database_header"""
_OURS = b"CREATE TABLE embedding_cache"
_READ_BYTES = 1024 * 1024


def check_kind(path: Path) -> None:
    """Raise `IndexRefusedError` where there is something else than a file. Blocking."""
    for part in (path, *(Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", "-journal"))):
        try:
            mode = part.lstat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(mode):
            raise IndexRefusedError(f"{part} is a symbolic link, not a file; move it away")
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
            raise IndexRefusedError(
                f"{part} is {kind}, not a file; set store.path to another file, or move it away"
            )


def header_problem(path: Path) -> str | None:
    """Say what about the first bytes of a file no index can have, or None. Blocking.

    An empty file has no problem, unless it has lost what its write-ahead log goes on with.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    if not header:
        log = Path(f"{path}-wal")
        return "it is empty" if log.exists() and log.stat().st_size else None
    if not header.startswith(_MAGIC):
        return "it does not begin as a database does"
    page = int.from_bytes(header[16:18], "big")
    page = 65_536 if page == 1 else page
    if size < max(page, HEADER_BYTES):
        return f"it has {size} bytes, less than a page"
    version = int.from_bytes(header[60:64], "big")
    possible = (
        page >= 512 and page & (page - 1) == 0,
        header[18] in (1, 2) and header[19] in (1, 2),
        header[21:24] == _CERTAIN[20][1:],
        int.from_bytes(header[44:48], "big") <= 4,
        int.from_bytes(header[56:60], "big") <= 3,
        version < 256,
    )
    return None if all(possible) else "its header is damaged"


def seems_ours(path: Path) -> bool:
    """Say whether a file that can't be read as a database was an index of memoryd. Blocking.

    It is where our tables are named in it, or in its write-ahead log; where nothing but zeros is
    left, as after a power loss; or where no more than a header is left that is like ours.
    """
    for part in (path, Path(f"{path}-wal")):
        zeros = True
        last = b""
        try:
            with open(part, "rb") as file:
                while block := file.read(_READ_BYTES):
                    if _OURS in last + block:
                        return True
                    last = block[-len(_OURS) :]
                    zeros = zeros and not block.strip(b"\0")
        except FileNotFoundError:
            continue
        if zeros and part == path:
            return True
    with open(path, "rb") as file:
        header = file.read(PAGE_BYTES)
    return HEADER_BYTES <= len(header) < PAGE_BYTES and all(
        header[at : at + len(value)] == value for at, value in _CERTAIN.items() if at != 60
    )


def copy_mended(path: Path, to: Path) -> None:
    """Copy a file, and its write-ahead log, with the header that an index has. Blocking."""
    for suffix in ("", "-wal"):
        if os.path.exists(f"{path}{suffix}"):
            descriptor = os.open(f"{to}{suffix}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with open(f"{path}{suffix}", "rb") as source, open(descriptor, "wb") as copy:
                shutil.copyfileobj(source, copy, _READ_BYTES)
    with open(to, "r+b") as file:
        header = bytearray(file.read(PAGE_BYTES).ljust(PAGE_BYTES, b"\0"))
        for at, value in _CERTAIN.items():
            header[at : at + len(value)] = value
        pages = max(1, os.fstat(file.fileno()).st_size // PAGE_BYTES)
        header[28:32] = pages.to_bytes(4, "big")
        header[92:96] = header[24:28]
        file.seek(0)
        file.write(header)
