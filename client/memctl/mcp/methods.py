"""Methods of the MCP server: introductions, lists, tools, notes as resources, and one prompt."""

from collections.abc import Callable
from typing import Any, get_args

from memctl.mcp import fact_tools, note_tool
from memctl.mcp.jsonrpc import (
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    RESOURCE_NOT_FOUND,
    RpcCall,
    RpcError,
    RpcResult,
)
from memoryd_client import __version__, tool_answers, tools
from memoryd_client.client import Client
from memoryd_client.errors import DeniedError, MemorydError, NotFoundError

SERVER = {"name": "memoryd", "title": "memoryd", "version": __version__}
INSTRUCTIONS = (
    "Before you answer anything about earlier work, decisions, dates, people, preferences or "
    "to-dos, call memory_search, and memory_get for the lines that you need. If no result fits, "
    "say that you searched memory and are not sure."
)
STATIC_MS = 300_000
"""Milliseconds for which a client may keep lists that depend on our version alone."""
PAGE_NOTES = 200
MAX_NOTE_CHARS = 100_000
"""Maximum characters of a note that a client reads whole."""
CHAT_TYPE_KEY = "memoryd/chatType"
"""Key in the `_meta` of a tool call: the kind of chat in which the answer is read."""
URI_PREFIX = "memory://note/"
CONTEXT_URI = "memory://context"
RECALL_PREFIX = "memory://recall/"
_MARKDOWN = "text/markdown"
_CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
_READING = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
_ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""Keeps Claude Code from hiding the tool behind its search for tools."""
_SETTINGS = {
    note_tool.NOTE: note_tool.SETTING,
    **dict.fromkeys(fact_tools.DEFINITIONS, fact_tools.SETTING),
}
"""Tools that are off by default, and the setting that allows each."""
_PROMPT = {
    "name": "recall",
    "title": "Recall",
    "description": "Search memory for a topic and answer from it, with sources.",
    "arguments": [{"name": "topic", "description": "Question or words.", "required": True}],
}


def _initialize(call: RpcCall) -> RpcResult:
    """Return our introduction, and the client's version if it is one of ours, else our newest."""
    asked = call.params.get("protocolVersion")
    version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return RpcResult(
        {
            "protocolVersion": version,
            "capabilities": _CAPABILITIES,
            "serverInfo": SERVER,
            "instructions": INSTRUCTIONS,
        }
    )


def _discover(_: RpcCall) -> RpcResult:
    found = {
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": _CAPABILITIES,
        "instructions": INSTRUCTIONS,
    }
    return RpcResult(found, fresh_ms=STATIC_MS, is_public=True)


def _list_tools(client: Client, _: RpcCall, timeout_s: float) -> RpcResult:
    """Return the tools; those that write only where the configuration allows it."""
    listed = [_definition(tool, _READING) for tool in tools.TOOLS]
    allowed = note_tool.allowed(client, timeout_s)
    if note_tool.SETTING in allowed:
        listed.append(_definition(note_tool.DEFINITION, note_tool.ANNOTATIONS))
    if fact_tools.SETTING in allowed:
        listed += [_definition(*tool) for tool in fact_tools.DEFINITIONS.values()]
    return RpcResult({"tools": listed}, fresh_ms=0)


def _definition(tool: tools.ToolDefinition, annotations: dict[str, bool]) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "annotations": annotations,
        "_meta": _ALWAYS_LOADED,
    }


def _templates(_: RpcCall) -> RpcResult:
    templates = [
        {
            "uriTemplate": f"{URI_PREFIX}{{+path}}",
            "name": "note",
            "title": "Memory note",
            "description": "A note by its path, such as memory/2026-11-28.md.",
            "mimeType": _MARKDOWN,
        },
        {
            "uriTemplate": f"{RECALL_PREFIX}{{message}}",
            "name": "recall",
            "title": "Recall",
            "description": "Entries of notes that clearly fit a message, if any.",
            "mimeType": _MARKDOWN,
        },
    ]
    return RpcResult({"resourceTemplates": templates}, fresh_ms=STATIC_MS, is_public=True)


IMMEDIATE: dict[str, Callable[[RpcCall], RpcResult]] = {
    "initialize": _initialize,
    "server/discover": _discover,
    "ping": lambda _: RpcResult({}),
    "resources/templates/list": _templates,
    "prompts/list": lambda _: RpcResult({"prompts": [_PROMPT]}, STATIC_MS, is_public=True),
}
"""Methods that need no daemon."""


def check(call: RpcCall) -> None:
    """Raise `RpcError` for a request that no method answers, or that names no known thing."""
    params = call.params
    if call.method not in IMMEDIATE and call.method not in ASKING:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {call.method}")
    match call.method:
        case "tools/call":
            names = [tool.name for tool in tools.TOOLS]
            if params.get("name") not in (*names, *_SETTINGS):
                raise RpcError(INVALID_PARAMS, f"Unknown tool; the tools are {', '.join(names)}")
            _arguments(call)
            _chat_type(call)
        case "resources/read":
            uri = params.get("uri")
            prefixes = (URI_PREFIX, RECALL_PREFIX)
            if not isinstance(uri, str) or not (uri == CONTEXT_URI or uri.startswith(prefixes)):
                known = f"{URI_PREFIX}PATH, {CONTEXT_URI} or {RECALL_PREFIX}MESSAGE"
                raise _no_resource(call, f"a resource is {known}")
        case "resources/list":
            if not isinstance(params.get("cursor") or "", str):
                raise RpcError(INVALID_PARAMS, "cursor must be a string")
        case "prompts/get":
            topic = _arguments(call).get("topic")
            if params.get("name") != _PROMPT["name"]:
                raise RpcError(INVALID_PARAMS, f"Unknown prompt; the prompt is {_PROMPT['name']}")
            if not isinstance(topic, str) or not topic.strip():
                raise RpcError(INVALID_PARAMS, "the prompt needs a topic")


def _arguments(call: RpcCall) -> dict[str, Any]:
    arguments = call.params.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "arguments must be an object")
    return arguments


def _chat_type(call: RpcCall) -> tools.ChatType:
    """Return the kind of chat in which an answer is read. Raises `RpcError` for an unknown one."""
    meta = call.params.get("_meta")
    found = meta.get(CHAT_TYPE_KEY, "direct") if isinstance(meta, dict) else "direct"
    kinds: tuple[tools.ChatType, ...] = get_args(tools.ChatType)
    for known in kinds:
        if found == known:
            return known
    raise RpcError(INVALID_PARAMS, f"{CHAT_TYPE_KEY} must be one of {', '.join(kinds)}")


def _call_tool(client: Client, call: RpcCall, timeout_s: float) -> RpcResult:
    """Return the text of a tool; a failure is a text for the model too."""
    name, arguments, chat_type = call.params["name"], _arguments(call), _chat_type(call)
    try:
        in_group = chat_type != "direct"
        if (setting := _SETTINGS.get(name)) and setting not in note_tool.allowed(client, timeout_s):
            hint = f"the user can set {setting} = true"
            raise DeniedError(f"{name} is not allowed here", hint=hint)
        if name == note_tool.NOTE:
            text = note_tool.write(client, arguments, in_group=in_group, timeout_s=timeout_s)
        elif name in fact_tools.DEFINITIONS:
            text = fact_tools.run(client, name, arguments, in_group=in_group, timeout_s=timeout_s)
        else:
            found = tools.run(client, name, arguments, chat_type=chat_type, timeout_s=timeout_s)
            text = tool_answers.text(found)
    except MemorydError as error:
        return failed_tool(error)
    return RpcResult({"content": [{"type": "text", "text": text}], "isError": False})


def failed_tool(error: MemorydError) -> RpcResult:
    """Return the result of a tool that failed."""
    text = tool_answers.failure_text(error)
    return RpcResult({"content": [{"type": "text", "text": text}], "isError": True})


def _list_resources(client: Client, call: RpcCall, timeout_s: float) -> RpcResult:
    """Return the context of a session, then the notes."""
    from urllib.parse import quote

    after = call.params.get("cursor") or None
    page = client.files_page(after=after, limit=PAGE_NOTES, timeout_s=timeout_s)
    notes = [
        {"uri": URI_PREFIX + quote(file.path), "name": file.path, "mimeType": _MARKDOWN}
        | ({} if file.size_bytes is None else {"size": file.size_bytes})
        for file in page.files
        if file.source == "memory"
    ]
    context = {
        "uri": CONTEXT_URI,
        "name": "context",
        "description": "What a session should begin with: MEMORY.md, USER.md, the latest notes.",
        "mimeType": _MARKDOWN,
    }
    first = [context] if after is None else []
    more = {} if page.next_after is None else {"nextCursor": page.next_after}
    return RpcResult({"resources": [*first, *notes], **more}, fresh_ms=0)


def _read_resource(client: Client, call: RpcCall, timeout_s: float) -> RpcResult:
    """Return the context of a session, what recall finds, or a note."""
    from urllib.parse import unquote

    uri = call.params["uri"]
    if uri == CONTEXT_URI:
        text = client.context(now=tools.now(), timeout_s=timeout_s).text
    elif uri.startswith(RECALL_PREFIX):
        message = unquote(uri.removeprefix(RECALL_PREFIX))
        text = client.recall(message, now=tools.now(), timeout_s=timeout_s).text
    else:
        text = _note(client, call, unquote(uri.removeprefix(URI_PREFIX)), timeout_s)
    content = {"uri": uri, "mimeType": _MARKDOWN, "text": text}
    return RpcResult({"contents": [content]}, fresh_ms=0)


def _note(client: Client, call: RpcCall, path: str, timeout_s: float) -> str:
    """Return a note as it is, up to `MAX_NOTE_CHARS`."""
    text, start_line = "", 1
    while True:
        try:
            part = client.get(path, start_line=start_line, timeout_s=timeout_s)
        except (NotFoundError, DeniedError) as error:
            raise _no_resource(call, str(error)) from error
        text += part.text if start_line == 1 else f"\n{part.text}"
        if part.next_from is None:
            break
        start_line = part.next_from
        if len(text) >= MAX_NOTE_CHARS:
            text += f"\n\n[More content available. Use memory_get with from={start_line}.]"
            break
    return text


def _no_resource(call: RpcCall, reason: str) -> RpcError:
    code = INVALID_PARAMS if call.modern else RESOURCE_NOT_FOUND
    data = {"uri": call.params.get("uri")}
    return RpcError(code, f"Resource not found: {reason}", data=data)


def _get_prompt(client: Client, call: RpcCall, timeout_s: float) -> RpcResult:
    topic = _arguments(call)["topic"].strip()
    found = tools.run(client, tools.SEARCH, {"query": topic}, timeout_s=timeout_s)
    asked = f"Answer from the memories above, and name the source of each fact: {topic}"
    text = f"{tool_answers.text(found)}\n{asked}"
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return RpcResult({"description": _PROMPT["description"], "messages": [message]})


LIST_TOOLS = "tools/list"
"""Method that asks the daemon, but never waits for a missing one."""
ASKING: dict[str, Callable[[Client, RpcCall, float], RpcResult]] = {
    LIST_TOOLS: _list_tools,
    "tools/call": _call_tool,
    "resources/list": _list_resources,
    "resources/read": _read_resource,
    "prompts/get": _get_prompt,
}
"""Methods that ask the daemon. They may take as many seconds as their last argument says."""


def ask(client: Client, call: RpcCall, timeout_s: float) -> RpcResult:
    """Answer a request with the daemon's help. Raises `RpcError`."""
    try:
        return ASKING[call.method](client, call, timeout_s)
    except MemorydError as error:
        raise RpcError(INTERNAL_ERROR, str(error)) from error


def late(call: RpcCall, error: MemorydError) -> RpcResult:
    """Return the answer to a request whose time is up. Raises `RpcError`."""
    if call.method == "tools/call":
        return failed_tool(error)
    raise RpcError(INTERNAL_ERROR, str(error))
