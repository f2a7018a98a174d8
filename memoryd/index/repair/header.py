"""Check and repair of an index file's header, and of its kind and owner.

These checks come before SQLite reads the file: a pipe would block SQLite forever, and a file of
another program must not be moved away.
"""

import os
import stat
from pathlib import Path

from memoryd.errors import IndexRefusedError
from memoryd.index.schema import APPLICATION_ID, VERSION

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
"""Bytes of every index, by offset. https://sqlite.org/fileformat2.html#the_database_header"""
_OURS = b"CREATE TABLE embedding_cache"
_READ_BYTES = 1024 * 1024


def check_kind(path: Path) -> None:
    """Raise `IndexRefusedError` where the path is not a regular file. Blocking."""
    for part in (path, *(Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", "-journal"))):
        try:
            mode = part.lstat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(mode):
            raise IndexRefusedError(f"{part} is a symbolic link, not a file", "move it away")
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
            raise IndexRefusedError(
                f"{part} is {kind}, not a file", "set store.path to another file, or move it away"
            )


def header_problem(path: Path) -> str | None:
    """Return the problem of a file's header, or None. Blocking.

    An empty file has no problem, unless its write-ahead log has content.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    if not header:
        log = Path(f"{path}-wal")
        return "the file is empty" if log.exists() and log.stat().st_size else None
    if not header.startswith(_MAGIC):
        return "the file has no database header"
    page = int.from_bytes(header[16:18], "big")
    page = 65_536 if page == 1 else page
    if size < max(page, HEADER_BYTES):
        return f"the file has {size} bytes, less than a page"
    version = int.from_bytes(header[60:64], "big")
    possible = (
        page >= 512 and page & (page - 1) == 0,
        header[18] in (1, 2) and header[19] in (1, 2),
        header[21:24] == _CERTAIN[20][1:],
        int.from_bytes(header[44:48], "big") <= 4,
        int.from_bytes(header[56:60], "big") <= 3,
        version < 256,
    )
    return None if all(possible) else "the header is corrupt"


def seems_ours(path: Path) -> bool:
    """Return whether a file that is no readable database was an index of memoryd. Blocking.

    True if its header has memoryd's number, if the file or its write-ahead log names memoryd's
    tables, if the file has only zeros, as after a power loss, or if only a header like memoryd's
    remains.
    """
    with open(path, "rb") as file:
        header = file.read(PAGE_BYTES)
    if header.startswith(_MAGIC) and header[68:72] == APPLICATION_ID.to_bytes(4, "big"):
        return True
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
    return HEADER_BYTES <= len(header) < PAGE_BYTES and all(
        header[at : at + len(value)] == value for at, value in _CERTAIN.items() if at != 60
    )


def copy_mended(path: Path, to: Path) -> None:
    """Copy a file and its write-ahead log, with a valid header. Blocking."""
    for suffix in ("", "-wal"):
        if os.path.exists(f"{path}{suffix}"):
            descriptor = os.open(f"{to}{suffix}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with open(f"{path}{suffix}", "rb") as source, open(descriptor, "wb") as copy:
                while block := source.read(_READ_BYTES):
                    copy.write(block)
    with open(to, "r+b") as file:
        header = bytearray(file.read(PAGE_BYTES).ljust(PAGE_BYTES, b"\0"))
        for at, value in _CERTAIN.items():
            header[at : at + len(value)] = value
        pages = max(1, os.fstat(file.fileno()).st_size // PAGE_BYTES)
        header[28:32] = pages.to_bytes(4, "big")
        header[92:96] = header[24:28]
        file.seek(0)
        file.write(header)
