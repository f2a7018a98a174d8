"""Search of one agent: its back end plus freshness, visibility and warnings."""

import asyncio
import math
import os
from collections import defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path

from memoryd.agent.agent import EVERYWHERE, Agent
from memoryd.api.visibility import audience, narrowed, visible_files
from memoryd.errors import ECHO_CHARS, RequestFailedError, bad_request
from memoryd.messages import FileKey, Hint
from memoryd.search.request import BadQueryError
from memoryd.source.notes.discover import SOURCE
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd_client.schema.search import SearchBody, SearchResult
from memoryd_client.shared.humanize import duration

CATCH_UP_S = 0.005
NO_TRANSCRIPTS = (
    "this memory has no past conversations: transcripts are not enabled (`sessions.enabled`)"
)
NOT_THERE = "some of the results are in missing files: their disk may not be mounted"
FIRST_INDEX_S = 2.0
"""Seconds that a search waits for the first index."""
DELETED_LIMIT_S = 1.0
"""Seconds to check whether the files of results still exist."""


async def search(
    agent: Agent, body: SearchBody, *, deadline_s: float | None = None
) -> SearchResult:
    """Search. Noticed changes that are not searchable yet make the answer `stale`.

    A search waits a moment for the first index, unless it has to answer within `deadline_s`.
    Raises `RequestFailedError` for an invalid request.
    """
    who = audience(agent, body.visibility, body.session, body.chat_type)
    under_way = await _first_index(agent, deadline_s)
    sync = agent.config.settings.sync
    if sync.on_search and agent.notes.watcher is not None:
        agent.notes.watcher.flush_now()
        await _catch_up(agent, sync.on_search_wait_ms / 1000)
    late: list[str] = []
    gone = partial(gone_from_disk, agent, late)
    try:
        result = await agent.backend.search(body, visible_files(agent, who), gone)
    except BadQueryError as error:
        raise bad_request(str(error)) from error
    result.pending_files = agent.pending_files()
    result.pending_vectors = agent.pending_chunks()
    result.stale = result.pending_files > 0
    if under_way is not None:
        result.stale, result.first_index = True, under_way
        result.warnings.append(under_way)
    elif not agent.notes.reconciler.stats().scans:
        result.stale = True
        result.warnings.append(
            "the first scan is running: changes made while memoryd was stopped may not be"
            " searchable yet"
        )
    if (old := _unwatched(agent)) is not None:
        result.stale = True
        result.warnings.append(old)
    if agent.transcripts is not None and (to_read := agent.transcripts.tracker.stats().to_read):
        result.stale = True
        result.warnings.append(f"memoryd is reading transcripts, {to_read} remaining")
    result.warnings += narrowed(body.chat_type)
    if agent.transcripts is None and SESSIONS in (body.sources or ()):
        result.warnings.append(NO_TRANSCRIPTS)
    result.warnings += late[:1] + agent.warnings()
    resolved = agent.embedding.resolved
    result.fallback = resolved.provider if resolved.is_fallback else None
    result.backend = result.backend or agent.backend.name
    result.agent = agent.config.agent
    result.workspace_dir = str(agent.config.workspace)
    agent.events.publish("searched", count=len(result.results), text=body.query[:ECHO_CHARS])
    return result


async def _first_index(agent: Agent, deadline_s: float | None) -> str | None:
    """Wait a moment for the first index. Return how far it is, None if it is complete."""
    reconciler, catalog = agent.notes.reconciler, agent.index.store.catalog
    if reconciler.first_done.is_set():
        return None
    if SOURCE in catalog.counts() and not reconciler.sent() - catalog.rows.keys():
        return None
    # Half of the deadline remains for the search itself.
    most_s = FIRST_INDEX_S if deadline_s is None else min(FIRST_INDEX_S, deadline_s / 2)
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await reconciler.first_done.wait()
        return None
    files, _ = catalog.counts().get(SOURCE, (0, 0))
    total = files + len(reconciler.sent() - catalog.rows.keys())
    if not total:  # the files have not been counted yet
        return "first index under way"
    return f"first index under way, {files:,} of {total:,} {'file' if total == 1 else 'files'}"


def _unwatched(agent: Agent) -> str | None:
    """Return how old the view of a search may be, None while watching works."""
    watcher = agent.notes.watcher
    if watcher is None or (error := watcher.stats().error) is None:
        return None
    if (s_ago := agent.notes.reconciler.stats().last_scan_s_ago) is None:
        return None
    age = duration(math.ceil(s_ago))
    return (
        f"watching is off ({error}): changes of the last {age} may be missing; `memctl sync` finds"
        " them"
    )


async def _catch_up(agent: Agent, most_s: float) -> None:
    """Wait a moment for noticed changes."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + most_s
    # Pending changes are spread over all stages, so no single stage knows when they are done.
    while agent.pending_files() and loop.time() < end_s:  # noqa: ASYNC110
        await asyncio.sleep(CATCH_UP_S)


async def gone_from_disk(agent: Agent, late: list[str], keys: set[FileKey]) -> set[FileKey]:
    """Return the indexed notes that are deleted on disk, or hidden by an ignore file.

    Notes on a missing disk, or on one that does not answer within `DELETED_LIMIT_S`, don't count as
    deleted; `late` then gets a warning. A missing disk also starts a scan.
    """
    gone, away, hidden = set[FileKey](), set[FileKey](), set[FileKey]()

    async def check(notes: dict[FileKey, str], place: str) -> None:
        def stat_notes() -> tuple[set[FileKey], set[FileKey], set[FileKey]]:
            lost = {key for key, path in notes.items() if _is_gone(path)}
            without_disk = {key for key in lost if agent.notes.mounts.away(Path(notes[key]))}
            hidden = agent.notes.discovery.hidden_among(notes.values())
            return lost, without_disk, {key for key, path in notes.items() if path in hidden}

        try:
            async with asyncio.timeout(DELETED_LIMIT_S):
                lost, without_disk, ignored = await agent.look_up(stat_notes, at=place)
        except (TimeoutError, RequestFailedError):
            late.append(f"{place} does not answer: some of its results may be deleted")
            return
        gone.update(lost)
        away.update(without_disk)
        hidden.update(ignored)

    by_place = defaultdict[str, dict[FileKey, str]](dict)
    places = [(begin, str(place)) for begin, place in agent.places()]
    workspace = str(agent.notes.discovery.workspace)
    for key in keys:
        if key.source == SOURCE:
            path = os.path.join(workspace, key.path)  # a fifth of the time of `Path`
            inside, at = f"{path}/", EVERYWHERE
            for begin, place in places:
                if inside.startswith(begin):
                    at = place
                    break
            by_place[at][key] = path
    checks = [check(notes, place) for place, notes in by_place.items()]
    if len(checks) == 1:  # most memories have one place, and need no task for it
        await checks[0]
    else:
        await asyncio.gather(*checks)
    if away:
        late.append(NOT_THERE)
        if agent.notes.reconciler.stats().problem is None and agent.queues.reconcile.empty():
            agent.queues.reconcile.put_nowait(Hint(reason="missing files"))
    return gone - away | hidden


def _is_gone(path: str) -> bool:
    """Return whether a file is deleted; one that can't be checked may exist."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False
