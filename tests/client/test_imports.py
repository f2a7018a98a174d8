"""The costs and dependencies of importing the client, measured in separate processes."""

import subprocess
import sys
import tomllib
from pathlib import Path

import memoryd_client

CLIENT_FOLDER = Path(memoryd_client.__file__).parents[1]

ONLY_MSGSPEC = """
import sys

HERE = {*sys.stdlib_module_names, "msgspec", "memctl", "memoryd_client"}

class Door:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in HERE:
            raise ImportError(f"{name} is not to be had here")

sys.meta_path.insert(0, Door())
"""


def run(code: str) -> str:
    """Run code in an isolated interpreter that finds the client; return its output."""
    prelude = f"import sys; sys.path.insert(0, {str(CLIENT_FOLDER)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", prelude + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(statement: str) -> set[str]:
    return set(run(f"{statement}\nprint(*sys.modules)").split())


def test_the_client_needs_msgspec_and_nothing_else() -> None:
    run(
        ONLY_MSGSPEC + "import memoryd_client\n"
        "from memoryd_client import *\n"
        "from memoryd_client import AsyncClient, Client, errors\n"
        "from memctl import json_output, main\n"
        "from memctl import progress, render, render_status\n"
        "from memctl.mcp import server\n"
        "from memoryd_client import tools\n"
        "AsyncClient('/s'), Client('/s'), errors.MemorydError('no')\n"
    )


def test_the_door_in_that_test_is_shut() -> None:
    code = "try:\n    import pytest\nexcept ImportError as error:\n    print(error)"
    assert run(ONLY_MSGSPEC + code) == "pytest is not to be had here\n"


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert "msgspec" not in loaded_by("import memoryd_client")


def test_a_search_loads_only_what_it_needs() -> None:
    loaded = loaded_by(
        "from memctl import main as memctl\n"
        "from memctl import render\n"
        "memctl.main(['search', 'tea', '--socket', '/dev/null/s'])"
    )
    assert "memoryd_client.client" in loaded
    assert not loaded & {
        "argparse",
        "asyncio",
        "dataclasses",
        "json",
        "memoryd_client.aio",
        "memctl.progress",
        "memctl.render_status",
        "pathlib",
        "shutil",
        "subprocess",
        "threading",
    }


def test_every_public_name_is_there() -> None:
    for name in memoryd_client.__all__:
        assert getattr(memoryd_client, name) is not None
    assert set(memoryd_client.__all__) <= set(dir(memoryd_client))
    assert not hasattr(memoryd_client, "NoSuchName")


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((CLIENT_FOLDER / "pyproject.toml").read_text())["project"]
    assert project["version"] == memoryd_client.__version__
