"""The vendors' own SDKs accept the doubles; they run in a separate environment."""

import os
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 900


@pytest.mark.long
def test_every_sdk_is_satisfied(tmp_path: Path) -> None:
    venv.create(tmp_path / "sdks", with_pip=True)
    python = tmp_path / "sdks/bin/python"
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes")
    subprocess.run([*pip, "-r", ROOT / "requirements/sdks.txt"], check=True, timeout=TIMEOUT_S)
    checked = subprocess.run(
        [python, "-W", "ignore", "-m", "vendors.sdk_checks"],
        cwd=ROOT / "tests",
        # The SDKs must not find keys and proxies of the user who runs the tests.
        env={"PATH": os.defpath, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.splitlines() == [
        f"{name}: satisfied"
        for name in (
            "openai_embeds",
            "openai_batches",
            "voyage",
            "mistral",
            "ollama_embeds",
            "gemini_embeds",
            "gemini_batches",
        )
    ]
