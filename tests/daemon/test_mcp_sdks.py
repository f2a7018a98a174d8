"""Clients of the official SDK, new and old, accept `memctl mcp`. Each has its own environment."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from harness import REPOSITORY, Daemon

TIMEOUT_S = 600


@pytest.mark.long
@pytest.mark.parametrize(
    ("requirements", "satisfied"),
    [
        ("mcp", ["auto: satisfied", "legacy: satisfied"]),
        ("mcp-old", ["handshake: satisfied"]),
    ],
)
def test_every_client_of_the_sdk_is_satisfied(
    daemon: Daemon, tmp_path: Path, requirements: str, satisfied: list[str]
) -> None:
    daemon.write("MEMORY.md", "# Dentist\n\nThe dentist is Dr. Nakamura.\nShe is in on Mondays.\n")
    daemon.write("memory/a b.md", "Green tea is out of stock.\n")
    daemon.start().sync()
    venv.create(tmp_path / "sdk", with_pip=True)
    python = tmp_path / "sdk/bin/python"
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes")
    file = REPOSITORY / f"requirements/{requirements}.txt"
    subprocess.run([*pip, "-r", file], check=True, timeout=TIMEOUT_S)
    checked = subprocess.run(
        [
            *(python, REPOSITORY / "tests/client/mcp_sdk_checks.py"),
            *(sys.executable, "-X", "dev", "-W", "error", "-m", "memctl", "mcp"),
        ],
        cwd=daemon.workspace,
        env=daemon.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.splitlines() == satisfied
