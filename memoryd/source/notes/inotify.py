"""What Linux allows of watching, and what to do where it is too little.

watchfiles leaves out without a word the folders that go over the limit of watches, so that their
changes would be missed.
"""

import ctypes
import errno
import os
import sys

IN_CLOEXEC = os.O_CLOEXEC
IN_DELETE_SELF = 0x400
WATCHES = (
    "more folders than this user may watch; to watch them, raise it:"
    " sysctl fs.inotify.max_user_watches"
)
INSTANCES = (
    "too many open files, or too many programs that watch; to watch, raise what is too low:"
    " LimitNOFILE of the service (ulimit -n), or sysctl fs.inotify.max_user_instances"
)


def check_watches() -> None:
    """Raise `OSError` when not one folder more could be watched."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(IN_CLOEXEC)
    if descriptor < 0:
        return  # no more instances, which is another limit; ours is there
    try:
        watched = libc.inotify_add_watch(descriptor, b"/", IN_DELETE_SELF)
        if watched < 0 and ctypes.get_errno() == errno.ENOSPC:
            raise OSError(errno.ENOSPC, WATCHES)
    finally:
        os.close(descriptor)


def explained(error: Exception) -> str:
    """Return what an error of watching means, and what to do about it."""
    number = getattr(error, "errno", None)
    text = str(error)
    if number == errno.ENOSPC or f"(os error {errno.ENOSPC})" in text:
        return WATCHES
    if number == errno.EMFILE or f"(os error {errno.EMFILE})" in text:
        return INSTANCES
    return text
