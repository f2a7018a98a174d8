"""The progress of a long request, for people: one live line, or a line now and then."""

import time
from collections.abc import Callable
from typing import TextIO

from memoryd_client.shared.humanize import minutes
from memoryd_client.shared.style import printable_name
from memoryd_client.shared.text_width import cut

LIVE_INTERVAL_S = 0.1
LOG_INTERVAL_S = 10.0
_ERASE_LINE = "\r\x1b[K"


class ProgressLine:
    """Shows (completed, total, label) on `stream`, rewritten in place if it is `live`.

    A live line is cut to fit into `columns`: one that wraps can't be taken back. In a log, what
    takes little time leaves no line.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        live: bool,
        columns: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._live = live
        self._columns = columns
        self._clock = clock
        self._start = clock()
        self._label: str | None = None
        self._label_start = self._start
        self._next_show = self._start if live else self._start + LOG_INTERVAL_S
        self._shown = False

    def __call__(self, completed: int, total: int, label: str) -> None:
        """Take the latest state and show it, unless something was shown just before."""
        now = self._clock()
        if label != self._label:
            self._label, self._label_start = label, now
        if now < self._next_show:
            return
        self._next_show = now + (LIVE_INTERVAL_S if self._live else LOG_INTERVAL_S)
        line = progress_text(
            completed,
            total,
            label,
            elapsed_s=now - self._start,
            label_elapsed_s=now - self._label_start,
        )
        if self._columns is not None:
            # Some terminals go to the next line once the last column is filled.
            line = cut(line, self._columns - 1)
        # First, for an interrupt may come between the two.
        self._shown = True
        self._stream.write(f"{_ERASE_LINE}{line}" if self._live else f"{line}\n")
        self._stream.flush()

    def finish(self) -> None:
        """Take the live line away, so that what follows starts on a clean one."""
        if self._live and self._shown:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()
            self._shown = False


def progress_text(
    completed: int, total: int, label: str, *, elapsed_s: float, label_elapsed_s: float
) -> str:
    """Return one progress line. The time left is told from the pace of the present label."""
    line = (
        f"{printable_name(label) or 'working'} {completed}/{total} · elapsed {minutes(elapsed_s)}"
    )
    if 0 < completed < total:
        line += f" · eta {minutes(label_elapsed_s / completed * (total - completed))}"
    return line
