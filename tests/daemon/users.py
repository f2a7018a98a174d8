"""Processes of other users, for tests that run as root."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from harness import REPOSITORY

THEM = 65534
A_THIRD = 4321

NEEDS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform == "darwin",
    reason="needs root: starts processes of other users",
)


def become(user: int) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def python(user: int, *arguments: str) -> list[str]:
    return [*become(user), sys.executable, *arguments]


@contextmanager
def readable_client() -> Iterator[dict[str, str]]:
    """Yield the environment for a process of another user: this repository's client, readable."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        for package in ("memoryd_client", "memctl"):
            subprocess.run(["cp", "-r", str(REPOSITORY / "client" / package), name], check=True)
        subprocess.run(["chmod", "-R", "a+rX", name], check=True)
        paths = [name, *(path for path in sys.path if path.endswith("site-packages"))]
        found = {
            "PYTHONPATH": os.pathsep.join(paths),
            "HOME": "/nonexistent",
            "MEMORYD_NO_AUTOSTART": "1",
        }
        can = subprocess.run(
            python(THEM, "-c", "import memoryd_client.aio"),
            env=found,
            capture_output=True,
            text=True,
        )
        if can.returncode != 0:
            pytest.skip(f"another user can't run this Python here: {can.stderr[-200:]}")
        yield found


def output(command: list[str], environment: dict[str, str], *, code: int = 0) -> str:
    """Run a command to its end and return what it prints."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.stdout, done.stderr)
    return (done.stdout + done.stderr).strip()
