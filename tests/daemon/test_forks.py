"""Forks of the server: the same commands as processes of their own print and end the same."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import forks
import pytest
from harness import Daemon
from waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not forks.AVAILABLE, reason="needs Linux")


@pytest.mark.parametrize("provider", ["none", "no such provider"])
def test_a_fork_prints_and_ends_as_a_process_of_its_own(daemon: Daemon, provider: str) -> None:
    daemon.provider = provider
    daemon.write_config()
    arguments = ["config", "--json", "--config", "config.toml"]
    own = subprocess.run(
        daemon.command(*arguments),
        env=daemon.environment,
        cwd=daemon.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    forked = forks.run(
        ["memoryd", *arguments], daemon.environment, daemon.folder, timeout_s=PATIENCE_S
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        own.returncode,
        own.stdout,
        own.stderr,
    )
    assert own.returncode == (0 if provider == "none" else 78)


def opened_by(pid: int) -> set[str]:
    """Return what the descriptors of a process lead to."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # the process has just closed it
            found.add(os.readlink(descriptor))
    return found


def test_a_fork_has_its_own_folder_streams_and_end(daemon: Daemon) -> None:
    first, second = (Daemon(), daemon)
    try:
        for made in (first, second):
            made.start()
            assert made.process is not None
            assert Path(f"/proc/{made.process.pid}/cwd").readlink() == made.folder
            opened = opened_by(made.process.pid)
            assert str(made.log_path) in opened
        assert str(first.log_path) not in opened
        first.kill()
        assert first.process is not None
        assert first.process.poll() == -signal.SIGKILL
        assert second.process is not None
        assert second.process.poll() is None
        assert second.stop() == 0
        assert second.process.wait() == 0
    finally:
        first.__exit__(None, None, None)


def test_a_fork_that_takes_too_long_is_ended(daemon: Daemon) -> None:
    daemon.write_config()
    command = ["memoryd", "--config", str(daemon.config)]
    with pytest.raises(subprocess.TimeoutExpired):
        forks.run(command, daemon.environment, daemon.folder, timeout_s=0.0)
