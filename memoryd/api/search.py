"""What a search of one agent takes beside the engine: freshness, whose transcripts, warnings."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from memoryd.agent.agent import EVERYWHERE, Agent
from memoryd.agent.transcripts import visible
from memoryd.api.status import Status
from memoryd.errors import ECHO_CHARS, RequestFailedError
from memoryd.messages import FileKey, Hint
from memoryd.search.engine import BadQueryError
from memoryd.source.notes.discover import SOURCE
from memoryd_client.schema.memory import SearchBody, SearchResult
from memoryd_client.wire.protocol import ErrorCode

VISIBILITIES = ("self", "agent", "all")
"""Whose transcripts a search sees, each more than the one before."""
CATCH_UP_S = 0.005
NOT_THERE = "some of the files found are not there at present: their disk may not be mounted"
LOOK_S = 1.0
"""For a look whether what was found is still on disk."""


async def search(agent: Agent, status: Status, body: SearchBody) -> SearchResult:
    """Search. What is noticed but not yet searchable makes the answer `stale`.

    Raises `RequestFailedError` for a request that can't be carried out.
    """
    sync = agent.config.settings.sync
    if sync.on_search and agent.watcher is not None:
        agent.watcher.flush_now()
        await _catch_up(agent, sync.on_search_wait_ms / 1000)
    late: list[str] = []
    gone = partial(gone_from_disk, agent, late)
    try:
        result = await agent.engine.search(body, _visible(agent, body), gone)
    except BadQueryError as error:
        raise RequestFailedError(ErrorCode.BAD_REQUEST, str(error)) from error
    result.pending_files = agent.pending_files()
    result.pending_vectors = agent.pending_chunks()
    result.stale = result.pending_files > 0
    if not agent.reconciler.stats().scans:
        result.stale = True
        result.warnings.append(
            "the first scan is under way: what changed while memoryd did not run"
            " may not be searchable yet"
        )
    if agent.tracker is not None and (to_read := agent.tracker.stats().to_read):
        result.stale = True
        result.warnings.append(f"transcripts are being read, {to_read} to go")
    result.warnings += late[:1] + status.health.warnings()
    result.fallback = agent.resolved.provider if agent.resolved.is_fallback else None
    result.agent = agent.config.agent
    result.workspace_dir = str(agent.config.workspace)
    agent.publish("searched", count=len(result.results), text=body.query[:ECHO_CHARS])
    return result


async def _catch_up(agent: Agent, most_s: float) -> None:
    """Wait a moment for changes that have been noticed."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + most_s
    # What is on its way is spread over all stages; none could tell when the last of it is through.
    while agent.pending_files() and loop.time() < end_s:  # noqa: ASYNC110
        await asyncio.sleep(CATCH_UP_S)


async def gone_from_disk(agent: Agent, late: list[str], keys: set[FileKey]) -> set[FileKey]:
    """Return the notes that are not on disk any more, though the index still has them.

    Those on a disk that is not there, as it seems, still count; a scan then says so. A disk that
    does not answer within a second is not waited for. `late` gets a warning in both cases.
    """
    workspace = agent.discovery.workspace
    gone, away = set[FileKey](), set[FileKey]()

    async def look_at(notes: list[FileKey], place: Path | str) -> None:
        def look() -> tuple[set[FileKey], set[FileKey]]:
            lost = {key for key in notes if _is_gone(workspace / key.path)}
            return lost, {key for key in lost if agent.mounts.away(workspace / key.path)}

        try:
            async with asyncio.timeout(LOOK_S):
                lost, without_disk = await agent.look_up(look, at=place)
        except (TimeoutError, RequestFailedError):
            late.append(f"{place} does not answer: some of these may be gone from it")
            return
        gone.update(lost)
        away.update(without_disk)

    by_place = defaultdict[Path | str, list[FileKey]](list)
    for key in keys:
        if key.source == SOURCE:
            by_place[agent.place_of(workspace / key.path) or EVERYWHERE].append(key)
    await asyncio.gather(*(look_at(notes, place) for place, notes in by_place.items()))
    if away:
        late.append(NOT_THERE)
        if agent.reconciler.stats().problem is None and agent.to_reconcile.empty():
            agent.to_reconcile.put_nowait(Hint(reason="files are away"))
    return gone - away


def _is_gone(path: Path) -> bool:
    """Say whether there is nothing; what can't be looked at may be there."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _visible(agent: Agent, body: SearchBody) -> Callable[[FileKey], bool] | None:
    """Return which files a search may see, None for all. Raises `RequestFailedError`."""
    most = agent.config.settings.sessions.visibility
    asked = body.visibility or most
    if asked not in VISIBILITIES:
        known = ", ".join(VISIBILITIES)
        raise RequestFailedError(ErrorCode.BAD_REQUEST, f"visibility must be one of {known}")
    if VISIBILITIES.index(asked) > VISIBILITIES.index(most):
        raise RequestFailedError(
            ErrorCode.DENIED,
            f"visibility {asked} is more than sessions.visibility allows: {most}",
        )
    if agent.transcripts is None or asked == "all":
        return None
    rows = agent.store.catalog.rows
    return partial(visible, rows, asked, agent.config.agent, body.session or "")
