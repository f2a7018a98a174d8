"""When a transcript that has changed is read. Pure."""

from dataclasses import dataclass

from memoryd.messages import FileStat, TranscriptState


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Bytes or messages added, or seconds since the last change: whichever comes first."""

    delta_bytes: int
    delta_messages: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class Pending:
    """What a transcript has that is not indexed. `again`: it is another file, or a shorter one."""

    bytes: int
    again: bool


def pending(
    stat: FileStat, known: FileStat | None, state: TranscriptState | None
) -> Pending | None:
    """Return what is pending, None when the file is as it was when it was read."""
    if stat == known:
        return None
    if state is None:
        return Pending(stat.size, again=False)
    if stat.size < state.offset or stat.inode != _inode(state):
        return Pending(stat.size, again=True)
    return Pending(stat.size - state.offset, again=False)


def is_due(
    what: Pending, *, messages: int, idle_s: float, archive: bool, thresholds: Thresholds
) -> bool:
    """Say whether to read now. `messages` are those added, as far as they were counted."""
    return (
        what.again
        or archive
        or what.bytes >= thresholds.delta_bytes
        or messages >= thresholds.delta_messages
        or idle_s >= thresholds.idle_s
    )


def _inode(state: TranscriptState) -> int:
    # As `file_stat` keeps it.
    return state.inode & (2**63 - 1)
