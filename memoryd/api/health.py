"""What doesn't work as it should: the warnings that answers carry, and what `status` says of it."""

from collections.abc import Callable
from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd_client.schema import status as wire
from memoryd_client.shared.humanize import counted


class Health:
    """Asks all parts of one agent. `daemon_problem` returns what is wrong with the daemon."""

    def __init__(self, agent: Agent, daemon_problem: Callable[[], str | None]) -> None:
        self._agent = agent
        self._daemon_problem = daemon_problem

    def warnings(self) -> list[str]:
        """Return what makes answers less than they should be, a line each."""
        agent = self._agent
        found: list[str] = []
        if (unwritable := agent.store.outage.warning) is not None:
            found.append(unwritable)
        found += agent.hung_disks()
        rebuild = agent.rebuilder.stats()
        if rebuild.last_error is not None and agent.store.difference():
            found.append(f"the last rebuild failed: {rebuild.last_error}")
        if (problem := agent.reconciler.stats().problem) is not None:
            found.append(f"scan: {problem}")
        if agent.tracker is not None:
            found += [f"transcripts: {why}" for why in agent.tracker.stats().problems]
        if (choice := agent.resolved.fallback) is not None:
            found.append(
                f"the fallback provider {choice.provider} embeds: {choice.why}"
                f" - `memctl index --provider {choice.instead_of}` goes back"
            )
        if agent.pool is not None and (reason := agent.pool.stats().blocked_reason) is not None:
            waiting = agent.pending_chunks()
            without = f"{counted(waiting, 'chunk')} without a vector yet"
            found.append(f"embedding is paused, {without}: {reason}")
        return found

    def degraded(self) -> list[str]:
        """Return everything that doesn't work as it should, a line each."""
        agent = self._agent
        found = self.warnings()
        if (problem := self._daemon_problem()) is not None:
            found.append(problem)
        if agent.recovered is not None:
            found.append(agent.recovered.message)
        if agent.batches is not None and (off := agent.batches.mode.off_reason) is not None:
            found.append(f"the batch API is not used: {off}")
        if agent.watcher is not None and (error := agent.watcher.stats().error) is not None:
            found.append(f"watching is off, changes are found by scanning: {error}")
        if agent.store.fts_error is not None:
            found.append(f"keyword search is off: {agent.store.fts_error}")
        if agent.config.settings.store.vector.enabled and agent.store.vec_error is not None:
            found.append(
                f"sqlite-vec is off, vectors are searched in memory: {agent.store.vec_error}"
            )
        if agent.pool is not None and (problem := agent.store.vector_problem()) is not None:
            found.append(f"vector search is off: {problem}")
        return found + exposed(agent)

    def errors(self) -> list[wire.Failure]:
        """Return what failed last, and when it is tried again."""
        agent = self._agent
        found: list[wire.Failure] = []
        if (outage := agent.store.outage).error is not None:
            found.append(wire.Failure("index", outage.reason, retry_in_s=outage.retry_in_s))
        if agent.pool is not None and (stats := agent.pool.stats()).last_error is not None:
            found.append(wire.Failure("embedding", stats.last_error, retry_in_s=stats.retry_in_s))
        if (failed := agent.rebuilder.stats().last_error) is not None:
            found.append(wire.Failure("rebuild", failed))
        return found


def exposed(agent: Agent) -> list[str]:
    """Return what others can read of the user's secrets, and what to do, a line each."""
    found = [] if agent.config.exposed is None else [exposed_hint(agent.config.exposed)]
    if agent.provider is not None and agent.provider.warning is not None:
        found.append(agent.provider.warning)
    return found


def exposed_hint(file: Path) -> str:
    """Say that others can read the secrets of a configuration file, and what to do."""
    return (
        f"others can read {file}, and the headers in it, which may be secret; `chmod 600` it, then"
        " `memctl reload`"
    )
