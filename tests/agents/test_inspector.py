"""The MCP Inspector, which is written in TypeScript, understands `memctl mcp`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from real_agents import ScratchHome

pytestmark = pytest.mark.agents

NOTES = {"MEMORY.md": "The service number of the boiler is ZANZIBAR-77.\n"}


@pytest.fixture(scope="module")
def home() -> Iterator[ScratchHome]:
    with ScratchHome(NOTES) as made:
        yield made


def inspect(home: ScratchHome, method: str, *options: str) -> Any:
    server = ("memctl", "mcp")
    return json.loads(home.run("mcp-inspector", "--cli", *server, "--method", method, *options))


def test_it_lists_tools_that_only_read(home: ScratchHome) -> None:
    tools = inspect(home, "tools/list")["tools"]
    assert [tool["name"] for tool in tools] == ["memory_search", "memory_get"]
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools)


def test_it_searches(home: ScratchHome) -> None:
    query = ("--tool-name", "memory_search", "--tool-arg", "query=number of the boiler")
    (content,) = inspect(home, "tools/call", *query)["content"]
    assert content["type"] == "text"
    assert "ZANZIBAR-77" in content["text"]
    assert "MEMORY.md:1" in content["text"]


def test_it_reads_lines(home: ScratchHome) -> None:
    path = ("--tool-name", "memory_get", "--tool-arg", "path=MEMORY.md")
    (content,) = inspect(home, "tools/call", *path)["content"]
    assert NOTES["MEMORY.md"].strip() in content["text"]


def test_it_reads_notes_as_resources(home: ScratchHome) -> None:
    listed = inspect(home, "resources/list")["resources"]
    texts = {}
    for resource in listed:
        (read,) = inspect(home, "resources/read", "--uri", resource["uri"])["contents"]
        texts[read["uri"]] = read["text"]
    assert texts["memory://note/MEMORY.md"] == NOTES["MEMORY.md"].strip()
    assert "ZANZIBAR-77" in texts["memory://context"]


def test_it_lists_the_prompt(home: ScratchHome) -> None:
    (prompt,) = inspect(home, "prompts/list")["prompts"]
    assert (prompt["name"], prompt["arguments"][0]["name"]) == ("recall", "topic")
