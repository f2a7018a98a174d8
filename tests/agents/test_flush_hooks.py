"""Before an agent compacts a conversation, its model is asked once to save notes, and does."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from real_agents import CLAUDE, CODEX, CONFIGURATION, GEMINI, Agent, ScratchHome
from scripted_model import Body, ScriptedModel

from memoryd_client.flush import MARK

pytestmark = pytest.mark.agents

SAID = "Zed prefers jasmine tea."
CONTINUED = {
    "claude": ("claude", "--print", "--continue", "--allowedTools=mcp__memoryd__memory_note"),
    "codex": (*CODEX.command, "resume", "--last"),
    "gemini": (*GEMINI.command[:-1], "--resume", "latest", "--yolo", "--prompt"),
}
"""Command line for the next prompt of the same session."""
NEAR = {"claude": 150_000, "codex": 210_000, "gemini": 470_000}
"""Tokens with which a compaction is near, but does not happen yet."""
FULL = {"codex": 250_000, "gemini": 530_000}
"""Tokens with which the agent compacts by itself."""


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, GEMINI], ids=["claude", "codex", "gemini"])
def test_the_model_is_asked_once_before_each_compaction(agent: Agent, model: ScriptedModel) -> None:
    with ScratchHome({"MEMORY.md": "# Memory\n"}) as home:
        home.write(
            ".config/memoryd/config.toml",
            f'{CONFIGURATION}notes = {{ tool = true }}\ntimezone = "UTC"\n',
        )
        home.memctl("reload")
        agent.prepare(home, model.url)
        home.memctl("connect", agent.name)
        home.make_hooks_patient()
        counted = 0

        def say(text: str, tokens: int, *call: Any, command: Sequence[str] = ()) -> bool:
            """Say something to the agent; return whether its model was asked for notes anew."""
            nonlocal counted
            model.tokens = tokens
            model.follow("Good.", *call)
            home.run(*(command or CONTINUED[agent.name]), text)
            before, counted = counted, given(home)
            return counted > before

        note: tuple[str, Body] = ("memory_note", {"text": SAID, "kind": "preference"})
        search: tuple[str, Body] = ("memory_search", {"query": "tea"})
        near = NEAR[agent.name]
        try:
            assert not say("one", near, command=agent.command)
            assert say("two", near, *note)
            assert MARK in json.dumps(model.requests[0])
            (written,) = (home.folder / "notes/memory").iterdir()
            assert SAID in written.read_text()
            assert written.stem == datetime.now(UTC).date().isoformat()
            assert not say("three", FULL.get(agent.name, near), *search)
            assert not say("/compact" if agent is CLAUDE else "four", 9_000)
            assert not say("five", near)
            assert say("six", near)
        finally:
            model.tokens = 9


def given(home: ScratchHome) -> int:
    """Return how often the instruction joined a prompt, by the records of the agent's hooks."""
    found = 0
    for name, content in home.snapshot().items():
        if not name.endswith(".jsonl") or not name.startswith((".claude/", ".codex/", ".gemini/")):
            continue
        for line in content.decode().splitlines():
            record = json.loads(line)
            is_of_hook = (
                record.get("attachment", {}).get("type") == "hook_additional_context"
                or record.get("payload", {}).get("role") == "developer"
                or (record.get("type") == "user" and "id" in record)
            )
            found += is_of_hook and MARK in line
    return found
