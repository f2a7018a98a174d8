"""The standing of an agent: present or not, how far connected, and proofs that memory answers."""

import os
from collections.abc import Mapping
from shutil import which

from msgspec import Struct

from memctl.connect import files, plan, round_trip
from memctl.connect.agents import HostAgent
from memctl.connect.codex import ENVIRONMENT
from memctl.connect.entries import ConnectError
from memctl.connect.round_trip import Proof

_PASSED = {"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
"""Variables that Codex passes on to MCP servers, besides those that its configuration names."""
_RECALLING = ("SessionStart", "UserPromptSubmit", "BeforeAgent")
"""Events whose hooks answer with memory."""


class Standing(Struct):
    """Standing of one agent.

    `state` is `absent` (not installed), `disconnected`, `partial` (entries are missing or
    different), `connected` or `unreadable`, with the reason. `command` is the MCP server that the
    agent starts. `transcripts` tells whether memoryd's configuration includes its transcripts.
    """

    agent: str
    title: str
    state: str = "absent"
    reason: str = ""
    missing: list[str] = []
    command: list[str] = []
    transcripts: bool = False
    proofs: list[Proof] = []


def is_present(agent: HostAgent) -> bool:
    """Return whether an agent is installed, or has run."""
    return os.path.isdir(agent.home) or which(agent.program) is not None


def standing(agent: HostAgent, environ: Mapping[str, str]) -> Standing:
    """Return how an agent stands, with a proof for each of its commands."""
    found = Standing(agent.name, agent.title)
    if not is_present(agent):
        return found
    try:
        texts = [plan.text_of(target, files.peek(target.path)) for target in agent.targets]
    except ConnectError as error:
        found.state, found.reason = "unreadable", error.message
        return found
    hooks: dict[str, list[str]] = {}
    is_there = False
    for file, text in zip(agent.files, texts, strict=False):
        is_there = is_there or bool(file.command(text)) or any(file.hook_commands(text).values())
        found.missing += file.missing(text)
        found.command = found.command or file.command(text) or []
        hooks |= file.hook_commands(text)
    if agent.sessions is not None:
        found.transcripts = not agent.sessions.missing(texts[-1])
    found.state = "connected" if not found.missing else "partial" if is_there else "disconnected"
    if found.command:
        found.proofs.append(round_trip.mcp(found.command, _environment(agent, environ)))
    found.proofs += [
        round_trip.hook(event, command, environ, os.getcwd())
        for event in _RECALLING
        for command in hooks.get(event, ())
    ]
    return found


def _environment(agent: HostAgent, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment in which an agent starts MCP servers."""
    if agent.name != "codex":
        return environ
    return {name: value for name, value in environ.items() if name in (*_PASSED, *ENVIRONMENT)}
