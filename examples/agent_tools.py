"""The two tools of memory for any agent, without a framework and without HTTP.

Usage: agent_tools.py QUESTION. Prints the section for the agent's prompt, the answer to a model's
search, and the JSON that OpenClaw's memory tools would give.
"""

import json
import sys
from contextlib import closing

from memoryd_client import Client, tools


def main(question: str) -> None:
    """Show what an agent passes to its model: prompt section, definitions, answers."""
    print(tools.prompt_section(citations="on"))
    print("tools:", ", ".join(tool["name"] for tool in tools.anthropic_tools()), end="\n\n")
    with closing(Client()) as memory:
        # A failure is a text as well, which tells the model what to do.
        print(tools.call(memory, tools.SEARCH, {"query": question, "maxResults": 3}))
        found = tools.call_json(memory, tools.SEARCH, {"query": question, "maxResults": 1})
        print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
