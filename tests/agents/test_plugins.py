"""The plugin folders pass the validators of their agents, and bring the memory."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

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


def test_the_plan_of_openclaws_silent_turn_heeds_its_settings(home: ScratchHome) -> None:
    """Memory-core of OpenClaw, which the plugin replaces, knows the same ones."""
    (home.folder / "plan.mjs").write_text(
        f"""
        import {{ flushPlan }} from "{FOLDERS}/openclaw/flush.js";
        const at = Date.parse("2026-11-28T23:30:00Z");
        const plan = (memoryFlush, contextWindowTokens, userTimezone) => flushPlan({{
          cfg: {{ agents: {{ defaults: {{ userTimezone, compaction: {{ memoryFlush }} }} }} }},
          nowMs: at,
          contextWindowTokens,
        }});
        const size = {{ softThresholdTokens: 6000, forceFlushTranscriptBytes: "1.5 MB" }};
        console.log(JSON.stringify([
          plan(undefined, 200_000, "Pacific/Auckland"),
          plan({{ ...size, model: "a/b " }}, 200_000, "America/Lima"),
          plan({{ forceFlushTranscriptBytes: "much" }}, 16_000, "Nowhere/At_All"),
          plan({{ enabled: false }}, 200_000),
          flushPlan(),
        ]));
        """
    )
    usual, chosen, small, off, without = json.loads(home.run("node", f"{home.folder}/plan.mjs"))
    assert off is None
    assert usual["relativePath"] == "memory/2026-11-29.md"
    assert "Today is 2026-11-29." in usual["prompt"]
    assert numbers(usual) == numbers(without) == (4_000, 20_000, 2 * 1024 * 1024)
    assert chosen["relativePath"] == "memory/2026-11-28.md"
    assert (numbers(chosen), chosen["model"]) == ((6_000, 20_000, 1_572_864), "a/b")
    assert numbers(small) == (4_000, 8_000, 2 * 1024 * 1024)


def numbers(plan: dict[str, Any]) -> tuple[int, int, int]:
    names = ("softThresholdTokens", "reserveTokensFloor", "forceFlushTranscriptBytes")
    before, reserve, size = (plan[name] for name in names)
    return before, reserve, size
