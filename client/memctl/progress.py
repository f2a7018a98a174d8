"""Progress of a long request: one live line on a terminal, else an occasional line."""

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

    A live line is cut to `columns`, because a wrapped line can't be erased. In a log, a short
    request leaves no line.
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
        """Record the latest state and show it, at most once per interval."""
        now = self._clock()
        if label != self._label:
            self._label, self._label_start = label, now
        if now < self._next_show:
            return
        self._next_show = now + (LIVE_INTERVAL_S if self._live else LOG_INTERVAL_S)
        elapsed_s, own_s = now - self._start, now - self._label_start
        line = progress_text(completed, total, label, elapsed_s=elapsed_s, label_elapsed_s=own_s)
        if self._columns is not None:
            # Some terminals wrap as soon as the last column is filled.
            line = cut(line, self._columns - 1)
        # Set first, because an interrupt may come between the two.
        self._shown = True
        self._stream.write(f"{_ERASE_LINE}{line}" if self._live else f"{line}\n")
        self._stream.flush()

    def finish(self) -> None:
        """Erase the live line, so that later output starts on a clean line."""
        if self._live and self._shown:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()
            self._shown = False


def progress_text(
    completed: int, total: int, label: str, *, elapsed_s: float, label_elapsed_s: float
) -> str:
    """Return one progress line. The pace of the current label gives the remaining time."""
    name = printable_name(label) or "working"
    line = f"{name} {completed}/{total} · elapsed {minutes(elapsed_s)}"
    if 0 < completed < total:
        line += f" · eta {minutes(label_elapsed_s / completed * (total - completed))}"
    return line
