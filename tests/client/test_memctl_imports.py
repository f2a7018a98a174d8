"""The modules that `memctl search` loads: no command loads modules of another command."""

import subprocess
import sys
from pathlib import Path

from fake_daemon import FakeDaemon, answering
from golden_bodies import golden

import memoryd_client
from memoryd_client.schema.search import SearchResult

FOUND = golden("search_result", SearchResult)
OF_OTHERS = {
    "memoryd_client.aio",
    "memoryd_client.launcher",
    *(
        f"memctl.{name}"
        for name in (
            *("editor", "json_output", "offline", "progress", "promotion", "render_agents"),
            *("render_status", "render_transcripts", "transfer", "streams"),
        )
    ),
}
HEAVY = {"asyncio", "difflib", "pathlib", "shlex", "shutil", "subprocess", "threading"}


def loaded_by(*words: str) -> set[str]:
    """Run `memctl` in a separate process and return the modules that it loads."""
    folder = str(Path(memoryd_client.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {folder!r})\n"
        "from memctl import main as memctl\n"
        f"assert memctl.main({list(words)!r}) == 0\n"
        "print(*sys.modules)"
    )
    with FakeDaemon(answering(FOUND)) as daemon:
        command = [sys.executable, "-I", "-c", code.replace("SOCKET", daemon.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_a_search_loads_nothing_of_other_commands() -> None:
    loaded = loaded_by("search", "tea", "--socket", "SOCKET")
    assert "memctl.render" in loaded
    assert not loaded & (OF_OTHERS | HEAVY | {"memoryd_client.shared.text_width", "unicodedata"})


def test_the_mcp_server_loads_nothing_heavy() -> None:
    """An agent may leave out a server that starts slowly, without a word."""
    folder = str(Path(memoryd_client.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {folder!r})\n"
        "from memctl import main\n"
        "from memctl.mcp import server\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "memctl.mcp.methods" in loaded
    assert not loaded & (OF_OTHERS | HEAVY | {"json", "urllib.parse", "memctl.render"})


def test_a_search_for_scripts_loads_how_json_is_written() -> None:
    loaded = loaded_by("search", "tea", "--json", "--socket", "SOCKET")
    assert not loaded & ((OF_OTHERS - {"memctl.json_output"}) | HEAVY)
    assert not loaded & {"memctl.render", "memoryd_client.shared.text_width", "json"}
