"""Facts of an agent, in the store that the configuration names."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd.agent.agent import Agent
from memoryd.agent.factories import redactor

if TYPE_CHECKING:
    from memoryd.facts.memory import FactMemory
    from memoryd.facts.store import FactStore

PLACE = "facts"
"""The place of a lookup in facts."""
LANCEDB_SUFFIX = ".lancedb"
HOUR_S = 3_600.0


def facts_of(agent: Agent) -> "FactMemory":
    """Return the facts of an agent. The first call loads what they need."""
    if agent.facts is None:
        from memoryd.agent.fact_model import AgentFactModel
        from memoryd.facts.memory import FactMemory

        agent.facts = FactMemory(
            _store(agent),
            AgentFactModel.of(agent.embedding),
            mask=redactor(agent.config.settings),
            owner=agent.config.agent,
        )
    return agent.facts


def _store(agent: Agent) -> "FactStore":
    settings, index = agent.config.settings.facts, agent.config.db_path
    if settings.store == "builtin":
        from memoryd.facts.builtin import BuiltinFacts

        return BuiltinFacts(index, partial(agent.look_up, at=PLACE))
    from memoryd.facts.lance import LanceFacts

    uri = settings.lancedb.path or f"{index}{LANCEDB_SUFFIX}"
    if "://" not in uri:
        uri = str(Path(uri).expanduser())
    retention_s = settings.lancedb.retention_hours * HOUR_S
    return LanceFacts(uri, settings.lancedb.table, retention_s=retention_s)
