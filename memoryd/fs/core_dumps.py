"""Protection of a process's memory, which contains keys and notes."""

import ctypes
import resource
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4
"""From prctl(2)."""


def protect_memory() -> None:
    """Leave no core dump, not even to a handler, and let no program of the same user look inside.

    The second part needs Linux: only root can then read the memory, the environment and the open
    files of the process, or attach a debugger. Child processes start without it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
