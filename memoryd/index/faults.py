"""What a failed statement says of the index: it is damaged, it can't be written now, or neither."""

from enum import Enum

_DAMAGED = {11, 26}
"""SQLITE_CORRUPT, SQLITE_NOTADB."""
_SURROUNDINGS = {3, 5, 6, 8, 10, 13, 14}
"""SQLITE_PERM, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_IOERR, SQLITE_FULL,
SQLITE_CANTOPEN."""
_UNDECODABLE = "Could not decode to UTF-8 column"
"""Python's own words for a text that was one when it was written: there is no code for that."""
_PRIMARY = 0xFF
"""An extended result code has the primary one in its lowest byte."""


class Fault(Enum):
    """What is at fault.

    `DAMAGED`: the file's content is wrong, and stays so. `SURROUNDINGS`: the disk is full,
    read-only, failing, or the file is gone, which may pass. `OTHER`: a bug, or one row's content.
    """

    DAMAGED = "damaged"
    SURROUNDINGS = "surroundings"
    OTHER = "other"


class DamagedIndexError(Exception):
    """What an index holds can't have been written by memoryd.

    `table` names the derived table that is damaged, if nothing else is.
    """

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


def fault_of(error: BaseException) -> Fault:
    """Say what an error of the SQLite driver, or of the operating system, is about.

    Codes: https://sqlite.org/rescode.html
    """
    if isinstance(error, DamagedIndexError):
        return Fault.DAMAGED
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and _UNDECODABLE in str(error):
        return Fault.DAMAGED
    if code is None:
        return Fault.SURROUNDINGS if isinstance(error, OSError) else Fault.OTHER
    primary = code & _PRIMARY
    if primary in _DAMAGED:
        return Fault.DAMAGED
    return Fault.SURROUNDINGS if primary in _SURROUNDINGS else Fault.OTHER
