"""An agent's loop: the model asks for tools until it has an answer. The model here is a script.

Usage: agent_loop.py QUESTION. Replace `scripted_model` by a call of your vendor's messages API with
`system`, `messages` and `tools`; the messages have Anthropic's form.
"""

import re
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from memoryd_client import Client, tools

Message = dict[str, Any]
Model = Callable[[str, list[Message], list[dict[str, Any]]], list[dict[str, Any]]]
"""Returns the blocks of the next answer to a system prompt, messages and definitions of tools."""
MAX_TURNS = 8


def run(memory: Client, model: Model, question: str) -> str:
    """Return the model's answer to a question, with what it looks up in memory."""
    system = "You are a helpful assistant.\n\n" + tools.prompt_section(citations="on")
    messages: list[Message] = [{"role": "user", "content": question}]
    for _ in range(MAX_TURNS):
        blocks = model(system, messages, tools.anthropic_tools())
        messages.append({"role": "assistant", "content": blocks})
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return "\n".join(block["text"] for block in blocks)
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": tools.call(memory, call["name"], call["input"]),
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    return "no answer within the turns"


def scripted_model(
    system: str, messages: list[Message], definitions: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Search for the question, read the first result's file, then quote it."""
    search, get = (tool["name"] for tool in definitions)
    if len(messages) == 1:
        asked = {"query": messages[0]["content"], "maxResults": 3}
        return [{"type": "tool_use", "id": "1", "name": search, "input": asked}]
    text = messages[-1]["content"][0]["content"]
    cited = re.search(r'<(?:untrusted-)?memory path="([^"]+)"', text)
    if cited is None:
        return [{"type": "text", "text": f"I looked in memory and am not sure. {text}"}]
    if len(messages) == 3:
        return [{"type": "tool_use", "id": "2", "name": get, "input": {"path": cited[1]}}]
    quoted = text.partition(">\n")[2].partition("\n</")[0]
    return [{"type": "text", "text": f"{quoted}\n\nSource: {cited[1]}"}]


if __name__ == "__main__":
    with closing(Client()) as client:
        print(run(client, scripted_model, " ".join(sys.argv[1:])))
