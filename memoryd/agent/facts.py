"""Facts of an agent, in the store that the configuration names."""

from collections.abc import Callable
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd.agent.agent import Agent
from memoryd.agent.factories import redactor
from memoryd.facts import FILE_SUFFIX
from memoryd.fs.directories import shown_path

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


async def forget_facts(
    agent: Agent, has: Callable[[str], bool], *, dry_run: bool
) -> tuple[list[str], list[str]]:
    """Forget the facts whose text `has` something; return their ids, and what may remain."""
    is_builtin, index = agent.config.settings.facts.store == "builtin", agent.config.db_path
    if is_builtin and agent.facts is None and not await agent.look_up(_files, index, at=PLACE):
        return [], []
    from memoryd.facts.store import FactStoreError

    try:
        ids = await facts_of(agent).forget_texts(has, dry_run=dry_run)
    except FactStoreError as error:
        return [], [f"the facts were not searched, and may have the text: {error.message}"]
    files = await agent.look_up(_files, index, at=PLACE)
    unread = [file for file in files if not is_builtin or file.suffix != FILE_SUFFIX]
    return ids, [f"{shown_path(file)} was not searched, and may have the text" for file in unread]


def _files(index: Path) -> list[Path]:
    """Return the files of built-in facts: the present one, and corrupt ones. Blocking."""
    named = f"{escape(index.name)}{FILE_SUFFIX}"
    return sorted([*index.parent.glob(named), *index.parent.glob(f"{named}.*")])


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
