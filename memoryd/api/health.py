"""What doesn't work as it should: the warnings that answers carry, and what `status` says of it."""

from collections.abc import Callable
from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd_client.schema import status as wire


class Health:
    """Asks all parts of one agent. `daemon_problem` returns what is wrong with the daemon."""

    def __init__(self, agent: Agent, daemon_problem: Callable[[], str | None]) -> None:
        self._agent = agent
        self._daemon_problem = daemon_problem

    def degraded(self) -> list[str]:
        """Return everything that doesn't work as it should, a line each."""
        agent = self._agent
        found = agent.warnings()
        if (problem := self._daemon_problem()) is not None:
            found.append(problem)
        if agent.index.recovered is not None:
            found.append(agent.index.recovered.message)
        batches = agent.embedding.batches
        if batches is not None and (off := batches.mode.off_reason) is not None:
            found.append(f"the batch API is not used: {off}")
        watcher, store = agent.notes.watcher, agent.index.store
        if watcher is not None and (error := watcher.stats().error) is not None:
            found.append(f"watching is off, changes are found by scanning: {error}")
        if store.fts_error is not None:
            found.append(f"keyword search is off: {store.fts_error}")
        if agent.config.settings.store.vector.enabled and store.vec_error is not None:
            found.append(f"sqlite-vec is off, vectors are searched in memory: {store.vec_error}")
        if agent.embedding.pool is not None and (problem := store.vector_problem()) is not None:
            found.append(f"vector search is off: {problem}")
        return found + exposed(agent)

    def errors(self) -> list[wire.Failure]:
        """Return what failed last, and when it is tried again."""
        agent = self._agent
        found: list[wire.Failure] = []
        if (outage := agent.index.store.outage).error is not None:
            found.append(wire.Failure("index", outage.reason, retry_in_s=outage.retry_in_s))
        if (
            agent.embedding.pool is not None
            and (stats := agent.embedding.pool.stats()).last_error is not None
        ):
            found.append(wire.Failure("embedding", stats.last_error, retry_in_s=stats.retry_in_s))
        if (failed := agent.index.rebuilder.stats().last_error) is not None:
            found.append(wire.Failure("rebuild", failed))
        return found


def exposed(agent: Agent) -> list[str]:
    """Return what others can read of the user's secrets, and what to do, a line each."""
    found = [] if agent.config.exposed is None else [exposed_hint(agent.config.exposed)]
    if agent.embedding.provider is not None and agent.embedding.provider.warning is not None:
        found.append(agent.embedding.provider.warning)
    return found


def exposed_hint(file: Path) -> str:
    """Say that others can read the secrets of a configuration file, and what to do."""
    return (
        f"others can read {file}, and the headers in it, which may be secret; `chmod 600` it, then"
        " `memctl reload`"
    )
