"""Confine the process of a local model: no network, no other program, no change to a file.

The process reads every note and, with a GGUF model, a foreign file. On Linux it gives up what it
doesn't need: seccomp(2) refuses system calls, landlock(7) changes to the file system and signals to
other processes. Both last for the life of the process. Other systems have no equal.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

_MAX_OPEN_FILES = 64

_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC = 1, 1
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1

# linux/landlock.h: everything but reading, with the version of the interface that introduced it.
_WRITING = {1: 0b1_1111_1111_0011, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_REMOVE_DIR, _REMOVE_FILE, _MAKE_SOCK = 1 << 4, 1 << 5, 1 << 9
_TCP = {4: 0b11}
_SCOPES = {6: 0b11}

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""Instructions of classic BPF, linux/bpf_common.h."""
_CALL_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
"""Offsets in `struct seccomp_data`; the argument's low half, as both machines are little-endian."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_AF_UNIX = 1
_X32_CALLS = 0x40000000
"""x86-64 has a second table of system calls from this number on."""


class _Machine(NamedTuple):
    """Numbers of a machine: AUDIT_ARCH of linux/audit.h, and system calls."""

    arch: int
    seccomp: int
    socket: int
    refused: tuple[int, ...]


_MACHINES = {
    "x86_64": _Machine(
        *(0xC000003E, 317, 41),
        (
            *(42, 44, 46, 307),  # connect, sendto, sendmsg, sendmmsg
            *(59, 322, 101, 310, 311),  # execve, execveat, ptrace, process_vm_{read,write}v
            *(165, 272, 308, 321, 323, 298),  # mount, unshare, setns, bpf, userfaultfd, perf_…
            *(248, 249, 250, 425, 438),  # {add,request}_key, keyctl, io_uring_setup, pidfd_getfd
        ),
    ),
    "aarch64": _Machine(
        *(0xC00000B7, 277, 198),
        (
            *(203, 206, 211, 269),
            *(221, 281, 117, 270, 271),
            *(40, 97, 268, 280, 282, 241),
            *(217, 218, 219, 425, 438),
        ),
    ),
}


def confine(*, sockets_in: Path | None = None) -> str:
    """Confine this process and all threads that it starts from now on.

    In `sockets_in`, sockets may be created and removed, and it may be removed itself. Returns the
    restrictions that the kernel refused, with its reasons, for people; "" for none.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if sys.platform != "linux":
        return ""
    problems = []
    libc = ctypes.CDLL(None, use_errno=True)
    steps: dict[str, Callable[[], None]] = {
        "privileges": partial(_keep_privileges, libc),
        "files": partial(_restrict_files, libc, sockets_in),
        "system calls": partial(_restrict_calls, libc),
    }
    for what, restrict in steps.items():
        try:
            restrict()
        except OSError as error:
            problems.append(f"{what}: {error.strerror}")
    return ", ".join(problems)


def _restrict_files(libc: ctypes.CDLL, sockets_in: Path | None) -> None:
    """Refuse every change to the file system, and signals to other processes. Raises OSError."""
    version = _call(libc, _LANDLOCK_CREATE_RULESET, 0, 0, _LANDLOCK_CREATE_RULESET_VERSION)
    kinds = [_supported(kind, version) for kind in (_WRITING, _TCP, _SCOPES)]
    attributes = ctypes.create_string_buffer(struct.pack("<QQQ", *kinds), 24)
    ruleset = _call(libc, _LANDLOCK_CREATE_RULESET, ctypes.addressof(attributes), 24, 0)
    try:
        if sockets_in is not None:
            _permit(libc, ruleset, sockets_in, _MAKE_SOCK | _REMOVE_FILE)
            _permit(libc, ruleset, sockets_in.parent, _REMOVE_DIR)
        _call(libc, _LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _permit(libc: ctypes.CDLL, ruleset: int, folder: Path, access: int) -> None:
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("<Qi", access, fd), 12)
        address = ctypes.addressof(rule)
        _call(libc, _LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, address, 0)
    finally:
        os.close(fd)


def _supported(kind: dict[int, int], version: int) -> int:
    return sum(bits for since, bits in kind.items() if since <= version)


def _restrict_calls(libc: ctypes.CDLL) -> None:
    """Refuse connections, programs and other processes' memory. Raises OSError."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(errno.ENOSYS, f"unknown on {platform.machine()}")
    code = _program(machine)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    )
    address = ctypes.addressof(program)
    flags = _SECCOMP_FILTER_FLAG_TSYNC  # threads that numpy has started, too
    if _call(libc, machine.seccomp, _SECCOMP_SET_MODE_FILTER, flags, address):
        raise OSError(errno.EBUSY, "a thread can't be restricted")


def _program(machine: _Machine) -> bytes:
    """Return the filter: a list of refused calls, and sockets of this machine only."""
    refused = machine.refused
    size = 7 + len(refused) + 2
    allow, refuse = size - 2, size - 1
    program = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 0, refuse - 2, machine.arch),
        (_LOAD, 0, 0, _CALL_AT),
        (_AT_LEAST, refuse - 4, 0, _X32_CALLS),
        (_EQUAL, 0, 2, machine.socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_EQUAL, allow - 7, refuse - 7, _AF_UNIX),
        *((_EQUAL, refuse - at - 1, 0, call) for at, call in enumerate(refused, start=7)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("@HBBI", *instruction) for instruction in program)


def _keep_privileges(libc: ctypes.CDLL) -> None:
    """Rule out that a program gives this process more rights. Raises OSError."""
    arguments = [ctypes.c_ulong(number) for number in (1, 0, 0, 0)]
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, *arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _call(libc: ctypes.CDLL, number: int, *arguments: int) -> int:
    """Make a system call. Raises OSError."""
    libc.syscall.restype = ctypes.c_long
    result: int = libc.syscall(*(ctypes.c_long(value) for value in (number, *arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
