"""One question to an agent, and facts that it can know from notes alone."""

import json
from dataclasses import dataclass

from real_agents import Agent, ScratchHome
from scripted_model import Body, ScriptedModel

BY_CONTEXT, BY_RECALL, BY_TOOL = "QUARTZ-11", "MANGROVE-33", "ZANZIBAR-77"
"""What the model must get to know, by the way in which it does."""
NOTES = {
    "MEMORY.md": f"# Memory\n\n- The alarm of the house is switched off with {BY_CONTEXT}.\n",
    "memory/ferry.md": f"# Ferry\n\nThe ferry to Vis leaves from pier {BY_RECALL}.\n",
    "memory/boiler.md": f"# Boiler\n\nThe service number of the boiler is {BY_TOOL}.\n",
}
PROMPT = "Which pier does the ferry to Vis leave from?"
QUERY = "service number of the boiler"
SAID = "OSPREY-55"
"""What only the conversation has."""
ANSWER = f"The harbour office {SAID} has the timetable."


@dataclass(frozen=True, slots=True)
class Conversation:
    """An agent that was asked, and what its model was sent."""

    agent: Agent
    home: ScratchHome
    requests: list[Body]

    def sent(self, at: int) -> str:
        """Return one request of the conversation; requests for other purposes have no tools."""
        asked = [request for request in self.requests if request.get("tools")]
        return json.dumps(asked[at], ensure_ascii=False)


def ask(agent: Agent, home: ScratchHome, model: ScriptedModel) -> Conversation:
    """Ask an agent, whose model calls `memory_search` before it answers."""
    home.make_hooks_patient()
    model.follow(ANSWER, *agent.call("memory_search", {"query": QUERY}))
    assert ANSWER in home.run(*agent.command, PROMPT)
    return Conversation(agent, home, model.requests)
