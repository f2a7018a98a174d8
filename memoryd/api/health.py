"""Problems of an agent, as `status` reports them."""

from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd.index.tombstone_key import KEY_ADVICE
from memoryd_client.schema import status as wire


def degraded(agent: Agent, daemon_problem: str | None) -> list[str]:
    """Return a line for each problem, that of the daemon included."""
    found = agent.warnings()
    if daemon_problem is not None:
        found.append(daemon_problem)
    if agent.index.recovered is not None:
        found.append(agent.index.recovered.message)
    batches = agent.embedding.batches
    if batches is not None and (off := batches.mode.off_reason) is not None:
        found.append(f"the batch API is disabled: {off}")
    watcher, store = agent.notes.watcher, agent.index.store
    if watcher is not None and (error := watcher.stats().error) is not None:
        found.append(f"watching is off, scans find changes: {error}")
    if (lost := store.tombstone_key.problem) is not None:
        found.append(f"{lost}; {KEY_ADVICE}")
    if store.fts_error is not None:
        found.append(f"keyword search is off: {store.fts_error}")
    if agent.config.settings.store.vector.enabled and store.vec_error is not None:
        found.append(f"sqlite-vec is off, search uses the vectors in memory: {store.vec_error}")
    if agent.embedding.pool is not None and (problem := store.vector_problem()) is not None:
        found.append(f"vector search is off: {problem}")
    backend = agent.backend.status()
    if backend.state == "unavailable":
        found.append(f"{backend.name} can't answer, the built-in index does: {backend.reason}")
    elif backend.problem is not None:
        found.append(f"{backend.name}: {backend.problem}")
    return found + exposed(agent)


def errors(agent: Agent) -> list[wire.Failure]:
    """Return the last errors with the times of the next retries."""
    found: list[wire.Failure] = []
    if (outage := agent.index.store.outage).error is not None:
        found.append(wire.Failure("index", outage.reason, retry_in_s=outage.retry_in_s))
    pool = agent.embedding.pool
    if pool is not None and (stats := pool.stats()).last_error is not None:
        found.append(wire.Failure("embedding", stats.last_error, retry_in_s=stats.retry_in_s))
    if (failed := agent.index.rebuilder.stats().last_error) is not None:
        found.append(wire.Failure("rebuild", failed))
    return found


def exposed(agent: Agent) -> list[str]:
    """Return a line with a fix for each secret that other users can read."""
    found = [] if agent.config.exposed is None else [exposed_hint(agent.config.exposed)]
    provider = agent.embedding.provider
    if provider is not None and provider.warning is not None:
        found.append(provider.warning)
    return found


def exposed_hint(file: Path) -> str:
    """Return the warning about a configuration file with headers that other users can read."""
    return (
        f"other users can read {file} and its headers, which may be secret; run `chmod 600` on it,"
        " then `memctl reload`"
    )
