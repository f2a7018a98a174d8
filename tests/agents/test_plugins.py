"""The plugin folders pass the validators of their agents, and bring the memory."""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from asking import BY_CONTEXT, BY_RECALL, BY_TOOL, NOTES, ask
from real_agents import CLAUDE, GEMINI, OPENCLAW, REPOSITORY, Agent, ScratchHome
from scripted_model import ScriptedModel

pytestmark = pytest.mark.agents

FOLDERS = REPOSITORY / "integrations"
# The tools of a plugin have longer names, and `memctl connect` is not there to permit them.
INSTALLED_BY = {
    replace(
        CLAUDE,
        command=("claude", "--allowedTools", "mcp__plugin_memoryd_memoryd", "--print"),
    ): (
        "claude plugin marketplace add ~/integrations/claude",
        "claude plugin install memoryd@memoryd",
    ),
    replace(GEMINI, command=(*GEMINI.command[:-1], "--yolo", "--prompt")): (
        "yes | gemini extensions install ~/integrations/gemini",
    ),
}


@pytest.fixture
def home() -> Iterator[ScratchHome]:
    with ScratchHome(NOTES) as made:
        yield made


@pytest.mark.parametrize(("agent", "commands"), INSTALLED_BY.items(), ids=["claude", "gemini"])
def test_an_installed_plugin_brings_the_memory(
    agent: Agent, commands: tuple[str, ...], home: ScratchHome, model: ScriptedModel
) -> None:
    agent.prepare(home, model.url)
    shutil.copytree(FOLDERS, home.folder / "integrations")
    home.make_hooks_patient()
    for command in commands:
        home.run("sh", "-c", command)
    asked = ask(agent, home, model)
    assert BY_CONTEXT in asked.sent(0)
    assert BY_RECALL in asked.sent(0)
    assert BY_TOOL in asked.sent(-1)


def test_the_plugin_of_claude_is_valid(home: ScratchHome) -> None:
    home.run("claude", "plugin", "validate", "--profile", "directory", str(FOLDERS / "claude"))


def test_the_extension_of_gemini_is_valid(home: ScratchHome) -> None:
    home.run("gemini", "extensions", "validate", str(FOLDERS / "gemini"))


def test_openclaw_loads_the_plugin_into_its_memory_slot(
    home: ScratchHome, model: ScriptedModel
) -> None:
    OPENCLAW.prepare(home, model.url)
    home.memctl("connect", "openclaw")
    home.run("openclaw", "config", "validate")
    shown = home.run("openclaw", "plugins", "inspect", "memoryd", "--runtime", "--json")
    assert '"status": "loaded"' in shown
    assert '"activationReason": "selected memory slot"' in shown
