"""When a changed transcript is read. Pure."""

from dataclasses import dataclass

from memoryd.messages import FileStat, TranscriptState


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Added bytes or messages, or seconds since the last change: the first one triggers a read."""

    delta_bytes: int
    delta_messages: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class Pending:
    """Unindexed bytes of a transcript, from `offset` on. `again`: it was replaced or truncated."""

    offset: int
    bytes: int
    again: bool = False


def pending(
    stat: FileStat, known: FileStat | None, state: TranscriptState | None
) -> Pending | None:
    """Return the pending part, None if the file is unchanged since it was read."""
    # Agents append. A change of owner or name alone, which `ctime_ns` shows, adds nothing.
    if known is not None and stat[:3] == known[:3]:
        return None
    if state is None:
        return Pending(0, stat.size)
    inode = state.inode & (2**63 - 1)  # as in `file_stat`
    if stat.size < state.offset or stat.inode != inode:
        return Pending(0, stat.size, again=True)
    return Pending(state.offset, stat.size - state.offset)


def is_due(
    rest: Pending, *, messages: int, idle_s: float, archive: bool, thresholds: Thresholds
) -> bool:
    """Return whether to read now. `messages` are the added ones, as far as counted."""
    return (
        rest.again
        or archive
        or rest.bytes >= thresholds.delta_bytes
        or messages >= thresholds.delta_messages
        or idle_s >= thresholds.idle_s
    )
