"""Each agent, once connected, has the memory: by tool, session context and recall."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pyjson5
import pytest
from asking import BY_CONTEXT, BY_RECALL, BY_TOOL, NOTES, SAID, Conversation, ask
from real_agents import AGENTS, Agent, ScratchHome
from scripted_model import ScriptedModel
from waiting import eventually

pytestmark = pytest.mark.agents

LISTED = {
    "claude": ("claude mcp list", r"memoryd: .*memctl mcp .* Connected"),
    "codex": ("codex mcp get memoryd --json", r'"enabled": true'),
    "gemini": (
        "GEMINI_CLI_TRUST_WORKSPACE=true gemini mcp list 2>&1",
        r"memoryd: .*memctl mcp .* Connected",
    ),
    "openclaw": ("openclaw plugins inspect memoryd --json", r'"status": "loaded"'),
}
"""A command of each agent that says whether it has the memory, and a part of its output."""


@pytest.fixture(scope="module", params=AGENTS)
def asked(request: pytest.FixtureRequest, model: ScriptedModel) -> Iterator[Conversation]:
    agent = AGENTS[request.param]
    with ScratchHome(NOTES) as home:
        agent.prepare(home, model.url)
        home.memctl("connect", agent.name)
        yield ask(agent, home, model)


def test_a_note_reaches_the_model_by_tool_call(asked: Conversation) -> None:
    assert BY_TOOL not in asked.sent(0)
    assert BY_TOOL in asked.sent(-1)
    assert "memory/boiler.md" in asked.sent(-1)


def test_memory_reaches_the_model_when_a_session_starts(asked: Conversation) -> None:
    """OpenClaw itself adds MEMORY.md; the others have it from memoryd."""
    assert BY_CONTEXT in asked.sent(0)


def test_a_note_that_fits_the_prompt_reaches_the_model(asked: Conversation) -> None:
    assert BY_RECALL in asked.sent(0)


def test_the_agent_itself_lists_memoryd(asked: Conversation) -> None:
    command, shown = LISTED[asked.agent.name]
    assert re.search(shown, asked.home.run("sh", "-c", command))


def test_the_transcript_is_found_without_what_memoryd_put_into_it(asked: Conversation) -> None:
    """Its hook has had it indexed; nothing else does with these settings."""

    def is_found(text: str) -> bool:
        hits = asked.home.search(text, "--source", "sessions")
        return any(text in hit["snippet"] for hit in hits)

    eventually(lambda: is_found(SAID))
    assert not any(map(is_found, (BY_CONTEXT, BY_RECALL, BY_TOOL)))


def test_disconnecting_after_a_run_removes_only_the_entries_of_memoryd(asked: Conversation) -> None:
    settings = {*asked.agent.files(""), ".config/memoryd/config.toml"}
    before = asked.home.snapshot()
    asked.home.memctl("disconnect", asked.agent.name)
    after = asked.home.snapshot()
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed <= settings
    for path in asked.agent.files(""):
        assert not any(name in after[path] for name in (b"memoryd", b"memctl")), after[path]
        assert of_others(parsed(path, before[path])) == of_others(parsed(path, after[path]))


def parsed(path: str, content: bytes) -> Any:
    return (tomllib.loads if path.endswith(".toml") else pyjson5.loads)(content.decode())


def of_others(value: Any) -> Any:
    """Return settings without memoryd's entries and what is empty then, None if nothing is left."""
    if isinstance(value, str):
        return None if "memoryd" in value or "memctl" in value else value
    if isinstance(value, list):
        return [found for inner in value if (found := of_others(inner)) is not None] or None
    if isinstance(value, dict):
        left = {
            key: found
            for key, inner in value.items()
            if key not in ("memoryd", "memory-core") and (found := of_others(inner)) is not None
        }
        is_hook = "command" in value or isinstance(value.get("hooks"), list)
        return (
            left
            if left and not (is_hook and left.keys().isdisjoint(("command", "hooks")))
            else None
        )
    return value


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_undoing_at_once_restores_every_byte(agent: Agent, model: ScriptedModel) -> None:
    with ScratchHome(NOTES) as home:
        agent.prepare(home, model.url)
        before = home.snapshot()
        home.memctl("connect", agent.name)
        assert home.snapshot() != before
        home.memctl("disconnect", agent.name)
        assert home.snapshot() == before
