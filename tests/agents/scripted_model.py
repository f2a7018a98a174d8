"""A model on the loopback address that speaks the protocols of four agents and follows a script.

It answers the first request that offers the scripted tool with a call of it, and all others with
the scripted text. It records every request, because the tests ask what reaches a model.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

Body = dict[str, Any]

CALL_ID = "toolu0001"
"""An id that all agents leave as it is."""


class ScriptedModel:
    """The requests so far, and the script. `answer` is the text; `call` ends the tool's name."""

    def __init__(self) -> None:
        self.url = ""
        self.tokens = 9
        """Tokens that every request is said to have."""
        self.follow("ok")

    def follow(self, answer: str, call: str = "", arguments: Body | None = None) -> None:
        """Replace the script and forget the requests."""
        self.answer, self.call, self.arguments = answer, call, arguments or {}
        self.requests: list[Body] = []

    def due(self, body: Body) -> tuple[str, Body] | None:
        """Return the offered name of the tool to call now, with its outer declaration."""
        self.requests.append(body)
        found = (tool for tool in offered(body) if self.call and tool[0].endswith(self.call))
        tool = next(found, None)
        if tool is not None:
            self.call = ""
        return tool


def offered(body: Body) -> Iterator[tuple[str, Body]]:
    """Yield the tools that a request offers, with the outer declaration of each."""
    for outer in body.get("tools") or ():
        for tool in outer.get("functionDeclarations") or outer.get("tools") or [outer]:
            if "name" in tool:
                yield tool["name"], outer


async def anthropic(model: ScriptedModel, request: web.Request) -> web.StreamResponse:
    body = await request.json()
    tool = model.due(body)
    block: Body = {"type": "text", "text": ""}
    delta: Body = {"type": "text_delta", "text": model.answer}
    if tool is not None:
        block = {"type": "tool_use", "id": CALL_ID, "name": tool[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(model.arguments)}
    reason = "tool_use" if tool else "end_turn"
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": model.tokens, "output_tokens": 9},
    }
    if not body.get("stream"):
        whole = block | ({"input": model.arguments} if tool else {"text": model.answer})
        return web.json_response(message | {"content": [whole], "stop_reason": reason})
    return await stream(
        request,
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    )


async def responses(model: ScriptedModel, request: web.Request) -> web.StreamResponse:
    tool = model.due(await request.json())
    item: Body = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "content": [{"type": "output_text", "text": model.answer}],
    }
    if tool is not None:
        name, outer = tool
        item = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": CALL_ID,
            "name": name,
            "arguments": json.dumps(model.arguments),
        } | ({"namespace": outer["name"]} if outer.get("type") == "namespace" else {})
    usage = {"input_tokens": model.tokens, "output_tokens": 9, "total_tokens": model.tokens + 9}
    return await stream(
        request,
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    )


async def gemini(model: ScriptedModel, request: web.Request) -> web.StreamResponse:
    tool = model.due(await request.json())
    part: Body = {"text": model.answer}
    if tool is not None:
        call = {"id": CALL_ID, "name": tool[0], "args": model.arguments}
        part = {"functionCall": call}
    answer = {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": model.tokens,
            "candidatesTokenCount": 9,
            "totalTokenCount": model.tokens + 9,
        },
    }
    if "stream" in request.path:
        return await stream(request, answer)
    return web.json_response(answer)


async def stream(request: web.Request, *events: Body) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        await response.write(f"{name}data: {json.dumps(event)}\n\n".encode())
    await response.write_eof()
    return response


def application(model: ScriptedModel) -> web.Application:
    async def answer(request: web.Request) -> web.StreamResponse:
        path = request.path
        if path.endswith(("/count_tokens", ":countTokens")):
            return web.json_response({"input_tokens": 9, "totalTokens": 9})
        if path.endswith("/messages"):
            return await anthropic(model, request)
        if path.endswith("/responses"):
            return await responses(model, request)
        if path.endswith((":generateContent", ":streamGenerateContent")):
            return await gemini(model, request)
        return web.json_response({"data": [], "models": []})

    served = web.Application(client_max_size=2**26)
    served.router.add_route("*", "/{path:.*}", answer)
    return served


@contextmanager
def serving() -> Iterator[ScriptedModel]:
    """Serve a model on a free loopback port, in a thread of its own."""
    model = ScriptedModel()
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def run() -> None:
        runner = web.AppRunner(application(model))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        model.url = f"http://{host}:{port}"
        ready.set()
        await ended.wait()
        await runner.cleanup()

    ended = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
