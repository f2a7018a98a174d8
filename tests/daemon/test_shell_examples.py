"""Every example of the documentation runs and prints the output that its page shows."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import REPOSITORY
from hypothesis import given
from hypothesis import strategies as st
from shell import HOME_SHOWN, Printed, Shell, python
from shell_examples import Block, Step, blocks, is_shell, is_shown, steps
from waiting import eventually

from memoryd.config import load
from memoryd_client import Client
from memoryd_client.errors import MemorydError

PAGES_WITH_A_DAEMON = (
    "client/README.md",
    "docs/client.md",
    "docs/protocol.md",
    "examples/README.md",
)
"""Pages that assume a running daemon with the indexed sample workspace."""

AGENTS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "openclaw": "OpenClaw",
}
_NEEDS_AGENTS = "tests/agents/test_documentation.py runs it with the real agents"
NOT_RUN = {
    "README.md": {
        "make demo": "installs everything; the demo itself is run below",
        "make test": "runs this",
    },
    "docs/agents.md": {
        "memctl start --workspace ~/notes": _NEEDS_AGENTS,
        "memctl start --workspace ~/.openclaw/workspace": _NEEDS_AGENTS,
        **{f"memctl connect {agent}".strip(): _NEEDS_AGENTS for agent in (*AGENTS, "")},
    },
    "docs/quickstart.md": {"make install": "installs everything"},
    "docs/providers.md": {
        ".venv/bin/pip install --require-hashes -r requirements/gguf.txt": "installs",
    },
    "docs/facts.md": {
        ".venv/bin/pip install --require-hashes -r requirements/lancedb.txt": "installs",
    },
    "docs/running.md": {
        'bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs "$HOME" --tmpfs /run --ro-bind'
        ' "$XDG_RUNTIME_DIR/memoryd/memoryd-agent" /run/memoryd --unshare-all --setenv'
        ' MEMORYD_SOCKET /run/memoryd/memoryd.sock memctl search "spare key"': (
            "needs bubblewrap; test_restricted_socket.py makes such a sandbox"
        ),
        'docker run --rm --user "$(id -u)" --volume'
        ' "$XDG_RUNTIME_DIR/memoryd/memoryd-agent:/run/memoryd:ro"'
        " --env MEMORYD_SOCKET=/run/memoryd/memoryd.sock IMAGE": "needs an image",
        "systemd-run --user --pipe --wait -p PrivateUsers=yes -p ProtectHome=tmpfs"
        ' -p BindReadOnlyPaths="$XDG_RUNTIME_DIR/memoryd/memoryd-agent"'
        ' --setenv=MEMORYD_SOCKET="$XDG_RUNTIME_DIR/memoryd/memoryd-agent/memoryd.sock"'
        " PROGRAM": "needs a systemd of the user",
    },
    "systemd/README.md": {
        "python3 -m venv ~/.local/share/memoryd/venv": "the one that runs this stands in for it",
        "~/.local/share/memoryd/venv/bin/pip install --require-hashes --only-binary :all:"
        " -r requirements/build.txt -r requirements/runtime.txt": "installs",
        "~/.local/share/memoryd/venv/bin/pip install --no-deps --no-build-isolation ./client .": (
            "installs"
        ),
        "systemctl --user daemon-reload": "needs a systemd of the user",
        "systemctl --user enable memoryd.socket memoryd.service": "likewise",
        "systemctl --user start memoryd.socket memoryd.service": "likewise",
        "systemctl --user restart memoryd": "likewise",
        "launchctl bootstrap gui/$UID ~/Library/LaunchAgents/org.memoryd.memoryd.plist": (
            "needs launchd"
        ),
        "memctl status": "asks the daemon that one of these would have started",
    },
}
"""Commands that a test can't run: by page, with the reason."""

NO_EXAMPLES = {
    "docs/agents.md": {
        **{f" {title}  ": "a diagram" for title in AGENTS.values()},
        " the client  ": "a diagram",
        '{"mcpServers"': "the configuration of a client",
    },
    "README.md": {" files ─► watcher ─► reconciler ─► parser": "a diagram"},
    "docs/architecture.md": {" MEMORY.md, memory/**/*.md, extra paths": "a diagram"},
    "docs/cli.md": {
        "memoryd [run] [options]": "how the command line looks",
        "memctl COMMAND [options]": "likewise",
    },
    "docs/memory-files.md": {
        "drafts/\n*.private.md": "an ignore file",
        "- Ana moved to Lisbon": "an entry of a note",
    },
    "systemd/README.md": {
        "[Service]\nTemporaryFileSystem=": "a part of a unit",
        "[Service]\nLoadCredential=": "likewise",
    },
    "docs/mcp.md": {'{"mcpServers"': "a configuration of an agent"},
    "docs/recall.md": {"- Ana can't eat hazelnuts": "an entry of a note"},
    "docs/redaction.md": {"OPENAI_API_KEY": "what is masked"},
    "docs/protocol.md": {"00 00 00 3c": "bytes; tests/wire has them"},
}
"""Blocks that are not commands: by page, with their beginning and a description."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The expected output of a Python example, and a call for one that only defines a function."""

    prints: str
    call: str = ""
    goes_on: bool = False


OUTCOMES = {
    ("docs/client.md", "def context("): Outcome(
        "Dr. Vasques", call='print(await context("when is the dentist?"))'
    ),
    ("docs/client.md", '.events(["indexed"'): Outcome("indexed memory/keys.md", goes_on=True),
    ("docs/client.md", "def events("): Outcome(
        "indexed", call="for event in events(Client()): print(event.kind)", goes_on=True
    ),
    ("docs/protocol.md", '"op": "search"'): Outcome("'type': 'result'"),
}
"""By page and a part of the example. Any other example ends by itself and prints something."""

DEMO = """\
$ memoryd --workspace examples/workspace &

$ memctl index
Memory index updated: 28 files · 45 chunks · 45 embedded, 0 reused · 1.3 s

$ memctl status
Memory Search (main)
…
$ memctl search "锅炉显示 F28，没有热水怎么办？"
1. memory/howto/boiler.md:1-12  0.74  (vector 0.96, text 0.17)
…
That was the whole tour; the daemon is stopped and its state removed.
…
"""


def pages() -> list[str]:
    found = (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("[!.]*/*.md"))
    return sorted(str(page.relative_to(REPOSITORY)) for page in found)


def blocks_of(page: str) -> list[Block]:
    return blocks(page, (REPOSITORY / page).read_text(encoding="utf-8"))


def is_run(block: Block) -> bool:
    return is_shell(block) or block.language == "python"


def is_listed(block: Block) -> bool:
    return any(block.text.startswith(start) for start in NO_EXAMPLES.get(block.page, ()))


PAGES_THAT_RUN = [page for page in pages() if any(map(is_run, blocks_of(page)))]
TOML = [block for page in pages() for block in blocks_of(page) if block.language == "toml"]


@pytest.fixture(scope="module")
def served() -> Iterator[Shell]:
    with Shell() as shell:
        for command in ("memctl start --workspace examples/workspace", "memctl index"):
            printed = shell.run(command)
            assert printed.code == 0, printed.text
        yield shell


@pytest.fixture
def shell() -> Iterator[Shell]:
    with Shell() as made:
        yield made


@pytest.mark.parametrize("page", PAGES_THAT_RUN)
def test_examples_print_what_the_page_shows(page: str, request: pytest.FixtureRequest) -> None:
    name = "served" if page in PAGES_WITH_A_DAEMON else "shell"
    session: Shell = request.getfixturevalue(name)
    if page == "systemd/README.md":
        install(session)
    for block in filter(is_run, blocks_of(page)):
        if block.language == "python":
            check_python(session, block)
            continue
        for step in steps(block):
            if step.command not in NOT_RUN.get(page, ()):
                check_step(session, step)


def install(session: Shell) -> None:
    """Create the files of the commands that are not run, and the notes."""
    (session.home / "notes").mkdir()
    folder = session.home / ".local/share/memoryd"
    folder.mkdir(parents=True)
    (folder / "venv").symlink_to((session.tree / ".venv").resolve())


def check_step(session: Shell, step: Step) -> None:
    if step.goes_on:
        session.run_until(lambda text: is_shown(step.shown, text), shlex.split(step.command))
        return
    if "memctl search" in step.command:
        load_model(session)
    printed = session.run(step.command)
    about = f"{step.where}: $ {step.command}\n{printed.text}(exit status {printed.code})"
    assert is_shown(step.shown, printed.text), f"{about}\nbut the page shows\n{step.shown}"
    assert (printed.code != 0) == step.fails, about


def load_model(session: Shell) -> None:
    """Wait for the model of a daemon that runs: a busy machine takes longer than a search waits."""
    if session.socket.exists():
        with suppress(MemorydError), Client(str(session.socket)) as client:
            client.probe()


def check_python(session: Shell, block: Block) -> None:
    outcome = next((o for key, o in OUTCOMES.items() if is_of(block, key)), Outcome(""))
    code = f"{block.text}\n{outcome.call}"
    if outcome.goes_on:
        session.run_until(lambda text: outcome.prints in text, python(code))
        return
    printed = session.run_python(code)
    assert printed.code == 0, f"{block.where}\n{printed.text}"
    assert outcome.prints in printed.text, f"{block.where}\n{printed.text}"
    assert printed.text or "print(" not in code, f"{block.where} finds nothing"


def is_of(block: Block, key: tuple[str, str]) -> bool:
    page, words = key
    return block.page == page and words in block.text


def test_the_demo_runs(shell: Shell) -> None:
    printed = shell.run(".venv/bin/python examples/demo.py examples/workspace")
    assert printed.code == 0, printed.text
    assert is_shown(DEMO, printed.text), printed.text


@pytest.mark.parametrize("block", TOML, ids=lambda block: str(block.where))
def test_configurations_can_be_used(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text(block.text, encoding="utf-8")
    assert load.load(file)


def test_every_block_runs_or_is_listed() -> None:
    found = [block for page in pages() for block in blocks_of(page)]
    unknown = [b for b in found if not (is_run(b) or b.language == "toml" or is_listed(b))]
    assert [f"{block.where}: {block.text}" for block in unknown] == []


def test_nothing_is_listed_that_no_page_has() -> None:
    every = {page: blocks_of(page) for page in pages()}
    commands = {
        page: {step.command for block in filter(is_shell, found) for step in steps(block)}
        for page, found in every.items()
    }
    for page, listed in NOT_RUN.items():
        assert set(listed) <= commands[page], page
    for page, listed in NO_EXAMPLES.items():
        for start in listed:
            assert any(block.text.startswith(start) for block in every[page]), (page, start)
    for key in OUTCOMES:
        assert any(is_of(block, key) for block in every[key[0]]), key


# Parsing and running of examples


PAGE = """\
```
$ first
it says
…
$ second --option
```

```sh
third
```
"""


def test_a_session_is_commands_with_what_they_show() -> None:
    session, script = blocks("page.md", PAGE)
    assert list(steps(session)) == [
        Step("page.md:2", "first", "it says\n…"),
        Step("page.md:5", "second --option", ""),
    ]
    assert list(steps(script)) == [Step("page.md:9", "third", "…")]


@pytest.mark.parametrize("text", ["  ```\n  $ x\n  ```\n", "```\n$ x\n", "~~~\n$ x\n~~~\n"])
def test_a_fence_that_would_be_overlooked_is_a_mistake(text: str) -> None:
    with pytest.raises(AssertionError):
        blocks("page.md", text)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("", ""),
        ("…", ""),
        ("…", "one\ntwo\n"),
        ("one\n…\nthree", "one\nthree\n"),
        ("one\n…\nthree", "one\n2\n\n2\nthree\n"),
        ("at … now", "at home now\n"),
        ("1. MEMORY.md:1-12  0.90", "1. MEMORY.md:3-4  1\n"),
        ("in 1.3 s", "in 850 ms\n"),
        ("up 12 s", "up 1 min 3 s\n"),
        ("notes  758 B", "notes     1.2 KiB\n"),
        ("agent notes-936479b0", "agent notes-00ff00ff\n"),
        ("…\nlater\n^C", "before\nlater\n"),
    ],
)
def test_what_may_differ(shown: str, printed: str) -> None:
    assert is_shown(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("", "a word\n"),
        ("a word", ""),
        ("one\nthree", "one\ntwo\nthree\n"),
        ("one\n…\nthree", "one\ntwo\n"),
        ("1 file", "2 files\n"),
        ("agent notes", "agent feedface\n"),
        ("1 chunk", "no chunk\n"),
        ("one\n\ntwo", "one\ntwo\n"),
    ],
)
def test_what_may_not_differ(shown: str, printed: str) -> None:
    assert not is_shown(shown, printed)


@given(st.text(st.characters(exclude_characters="^…", exclude_categories=["Cs"])))
def test_what_is_shown_in_full_is_shown(text: str) -> None:
    assert is_shown(text.rstrip(), text.rstrip())
    assert not is_shown(text.rstrip(), f"{text.rstrip()}\nword")


def test_a_session_keeps_its_folder_and_leaves_nothing_behind() -> None:
    with Shell() as session:
        session.run("mkdir below && cd below && touch here")
        assert session.run("ls") == Printed("here\n", 0)
        assert session.run("cat; false") == Printed("", 1)
        assert session.run("pwd").text == f"{HOME_SHOWN}/memoryd/below\n"
        job = int(session.run("sleep 600 & echo $!").text)
        os.kill(job, 0)
    eventually(lambda: is_gone(job))
    assert not session.folder.exists()


def is_gone(pid: int) -> bool:
    # An orphan may stay a zombie where no process adopts it.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    if Path("/proc/self/stat").exists():
        with suppress(FileNotFoundError, ProcessLookupError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
            return state.split()[0] == "Z"
        return True
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return listed.stdout.strip().startswith("Z")
