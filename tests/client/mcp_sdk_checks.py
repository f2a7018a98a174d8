"""Checks of `memctl mcp` with the official SDK's client, in an environment that has the SDK.

Run `python mcp_sdk_checks.py COMMAND…` with the command of a server whose memory has the notes of
test_mcp_sdks.py; prints a line per kind of client, and exits with 0 if all checks pass. The SDK's
own models validate every answer.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import mcp  # type: ignore[import-not-found]
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client  # type: ignore[import-not-found]

IS_OLD = version("mcp").startswith("1.")
TEMPLATE = "memory://note/{+path}"


def server() -> Any:
    command, *arguments = sys.argv[1:]
    return StdioServerParameters(command=command, args=arguments, env=dict(os.environ))


@asynccontextmanager
async def old_client() -> AsyncIterator[tuple[Any, Any]]:
    """Connect as version 1 does; yield the session and the server's introduction."""
    async with stdio_client(server()) as streams, mcp.ClientSession(*streams) as session:
        yield session, await session.initialize()


@asynccontextmanager
async def new_client(mode: str) -> AsyncIterator[tuple[Any, Any]]:
    """Connect as version 2 does, by `server/discover` or by the handshake."""
    from mcp.client.client import Client  # type: ignore[import-not-found]

    async with Client(stdio_client(server()), mode=mode) as client:
        yield client, client


async def check(client: Any, about: Any, protocol: str) -> None:
    """Use everything that the server has."""
    told = about.protocolVersion if IS_OLD else about.protocol_version
    assert told == protocol, told
    assert "memory_search" in about.instructions
    info = about.serverInfo if IS_OLD else about.server_info
    assert info.name == "memoryd"
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == ["memory_search", "memory_get"]
    annotations = tools["memory_search"].annotations
    assert (annotations.readOnlyHint if IS_OLD else annotations.read_only_hint) is True
    assert tools["memory_search"].meta["anthropic/alwaysLoad"] is True
    found = await client.call_tool("memory_search", {"query": "who is the dentist?"})
    assert not (found.isError if IS_OLD else found.is_error)
    assert (found.structuredContent if IS_OLD else found.structured_content) is None
    assert "Dr. Nakamura" in found.content[0].text
    assert 'path="MEMORY.md:1-4"' in found.content[0].text
    got = await client.call_tool("memory_get", {"path": "MEMORY.md:3"})
    assert "She is in" not in got.content[0].text
    wrong = await client.call_tool("memory_search", {})
    assert wrong.isError if IS_OLD else wrong.is_error
    assert "missing required field `query`" in wrong.content[0].text
    both = await asyncio.gather(
        *(client.call_tool("memory_search", {"query": word}) for word in ("dentist", "tea") * 8)
    )
    assert all(one.content[0].text for one in both)
    await resources_and_prompt(client)
    if protocol < "2026":
        await client.send_ping()


async def resources_and_prompt(client: Any) -> None:
    """Read notes, and the one prompt."""
    notes = (await client.list_resources()).resources
    assert [note.name for note in notes] == ["context", "MEMORY.md", "memory/a b.md"]
    for note in notes:
        read = await client.read_resource(note.uri)
        assert read.contents[0].text
    templates = await client.list_resource_templates()
    found = templates.resourceTemplates if IS_OLD else templates.resource_templates
    assert TEMPLATE in [one.uriTemplate if IS_OLD else one.uri_template for one in found]
    kind = mcp.McpError if IS_OLD else mcp.MCPError
    said = ""
    try:
        await client.read_resource("memory://note/memory/none.md")
    except kind as error:
        said = str(error)
    assert "Resource not found" in said
    (prompt,) = (await client.list_prompts()).prompts
    assert prompt.description
    told = await client.get_prompt("recall", {"topic": "dentist"})
    assert "Dr. Nakamura" in told.messages[0].content.text


async def main() -> None:
    """Check each kind of client that this SDK has."""
    if IS_OLD:
        async with old_client() as (session, about):
            await check(session, about, "2025-11-25")
        print("handshake: satisfied")
        return
    for mode, protocol in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        async with new_client(mode) as (client, about):
            await check(client, about, protocol)
        print(f"{mode}: satisfied")


if __name__ == "__main__":
    asyncio.run(main())
