"""The lines of docs/agents.md connect the real agents."""

import re

import pytest
from asking import NOTES
from real_agents import AGENTS, REPOSITORY, Agent, ScratchHome
from scripted_model import ScriptedModel

pytestmark = pytest.mark.agents

PAGE = (REPOSITORY / "docs" / "agents.md").read_text(encoding="utf-8")
TITLES = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "openclaw": "OpenClaw",
}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_the_lines_to_copy_connect_the_agent(agent: Agent, model: ScriptedModel) -> None:
    title = TITLES[agent.name]
    found = re.search(rf"^## {title}\n\n```sh\n(.*?)```", PAGE, re.M | re.S)
    assert found is not None
    home = ScratchHome(NOTES)
    home.write(".config/memoryd/config.toml", "")
    home.write(".openclaw/workspace/MEMORY.md", NOTES["MEMORY.md"])
    agent.prepare(home, model.url)
    try:
        *_, listed = [home.run("sh", "-c", line) for line in found[1].splitlines()]
    finally:
        home.__exit__(None, None, None)
    assert re.search(rf"^{title} +connected · memory answers", listed, re.M), listed


def test_the_page_names_the_installed_versions(model: ScriptedModel) -> None:
    home = ScratchHome({})
    for name, title in TITLES.items():
        row = re.search(rf"^\| {title} \| ([\d.]+) \|", PAGE, re.M)
        assert row is not None
        assert row[1] in home.run(name, "--version")
