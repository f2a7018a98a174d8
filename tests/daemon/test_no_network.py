"""No import and no session without an HTTP provider uses the network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY, Daemon
from waiting import PATIENCE_S

pytestmark = pytest.mark.own_process

IMPORT_ALL = """
import importlib, pkgutil, sys

def hook(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        if event != "socket.__new__":
            sys.stderr.write(f"{event} {arguments}\\n")

sys.addaudithook(hook)
import memoryd, memoryd_client
count = 0
for package in (memoryd, memoryd_client):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            importlib.import_module(module.name)
            count += 1
        except ModuleNotFoundError as error:
            if error.name not in ("xllamacpp", "uvloop"):
                raise
print(count)
"""

WATCH = """
import os, sys

def hook(event, arguments):
    if not event.startswith(("socket.connect", "socket.bind", "socket.sendto", "socket.get")):
        return
    if isinstance(arguments[-1], (str, bytes)) and event in ("socket.connect", "socket.bind"):
        return  # a Unix socket
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{event} {arguments[1:]}\\n")

sys.addaudithook(hook)
"""


def test_no_import_touches_the_network() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        env={"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'client'}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout) > 150


@pytest.fixture
def watched(hybrid: Daemon) -> Daemon:
    """A daemon whose processes and clients record all network activity."""
    (hybrid.folder / "model/sitecustomize.py").write_text(WATCH)
    # Audit hooks do not see its network activity.
    (hybrid.folder / "model/uvloop.py").write_text("raise ImportError('not here')\n")
    hybrid.variables["SEEN"] = str(seen_by(hybrid))
    seen_by(hybrid).touch()
    return hybrid


def seen_by(daemon: Daemon) -> Path:
    return daemon.folder / "seen"


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("none", "local")]


@pytest.mark.parametrize("provider", ["auto", "auto-remote", *LONG])
def test_no_session_touches_the_network(watched: Daemon, provider: str) -> None:
    watched.provider = provider
    if provider == "auto":  # keys that are there for another purpose
        names = ("OPENAI", "GEMINI", "VOYAGE", "MISTRAL", "OLLAMA")
        watched.variables |= {f"{name}_API_KEY": "sk-none" for name in names}
    chat = watched.folder / "chats/c.jsonl"
    chat.parent.mkdir()
    chat.write_text(json.dumps({"role": "user", "content": "see https://example.com/"}) + "\n")
    watched.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    watched.write("MEMORY.md", "a walrus ![image](https://example.com/walrus.png)\n")
    watched.start().sync()
    assert watched.paths("walrus") == ["MEMORY.md"]
    for command in ("status", "probe", "files", "sessions", "config", "doctor"):
        watched.memctl(command)
    watched.memctl("index", "--force")
    watched.write("memory/b.md", "another walrus\n")
    watched.sync()
    assert len(watched.paths("walrus")) == 2
    assert watched.stop() == 0
    assert seen_by(watched).read_text() == ""


def test_what_watches_sees_a_provider_over_http(watched: Daemon) -> None:
    watched.provider = "openai"
    watched.variables["OPENAI_API_KEY"] = "sk-none"
    watched.settings += '\n[defaults.remote]\nbase_url = "http://127.0.0.1:1/v1"\n'
    watched.start()
    watched.memctl("probe", code=1)
    assert "('127.0.0.1', 1)" in seen_by(watched).read_text()
