"""Effect of each operation, which decides whether the restricted socket may offer it."""

from collections.abc import Iterable, Mapping
from typing import Literal

from memoryd_client.wire.protocol import Op

Effect = Literal["none", "reads", "changes"]
"""`none`: part of the protocol, always permitted. `reads`: shows memory or state. `changes`:
changes files, the index, settings or a process, or makes memoryd work or pay for a client."""

EFFECTS: Mapping[Op, Effect] = {
    Op.PING: "none",
    Op.SEARCH: "reads",
    Op.GET: "reads",
    Op.CONTEXT: "reads",
    Op.RECALL: "reads",
    Op.STATUS: "reads",
    Op.FILES: "reads",
    Op.SESSIONS: "reads",
    Op.AGENTS: "reads",
    Op.CONFIG: "reads",
    Op.EVENTS: "reads",
    Op.SYNC: "changes",  # makes memoryd read and embed everything now
    Op.PROBE: "changes",  # sends a request to the provider
    Op.SESSION_START: "changes",  # starts a scan and the model
    Op.TRANSCRIPT_UPDATED: "changes",  # makes memoryd check any path
    Op.INDEX: "changes",
    Op.FORGET: "changes",
    Op.EXPORT: "changes",  # shows whole conversations, of any agent and chat, whatever is visible
    Op.IMPORT: "changes",
    Op.NOTE: "changes",
    Op.PROMOTE: "changes",
    Op.STALE: "changes",  # searches once for each entry of MEMORY.md
    Op.FACT_STORE: "changes",
    Op.FACT_RECALL: "changes",  # shows facts of any owner, because the client names the owner
    Op.FACT_FORGET: "changes",
    Op.FACTS: "changes",  # as FACT_RECALL
    Op.FACT_CAPTURE: "changes",
    Op.ADD: "changes",
    Op.DROP: "changes",
    Op.RELOAD: "changes",
}

READING = tuple(op for op, effect in EFFECTS.items() if effect == "reads")
"""Operations that `socket.allow` may list."""


def permitted(allow: Iterable[str]) -> frozenset[Op]:
    """Return the operations of the restricted socket. An operation without an effect is denied."""
    always = {op for op, effect in EFFECTS.items() if effect == "none"}
    return frozenset(always | {op for op in READING if op in allow})
