"""Pages of the indexed, skipped and unreadable files of an agent."""

import bisect
from collections.abc import Iterable

from memoryd.agent.agent import Agent
from memoryd.errors import bad_request
from memoryd.index.catalog import Catalog
from memoryd.index.queries import SetAside, read_files, read_set_aside
from memoryd.messages import FileKey
from memoryd.source.notes.discover import SOURCE
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd_client.schema.memory import FileEntry, FilesBody, FilesResult

STATES = ("indexed", "remarked", "skipped", "failed")
MAX_PAGE = 1_000


def remarks(catalog: Catalog) -> dict[FileKey, str]:
    """Return the remarks on indexed files."""
    return {key: "; ".join(row.remarks) for key, row in catalog.rows.items() if row.remarks}


def skipped(agent: Agent) -> list[tuple[str, str, str]]:
    """Return (source, displayed path, reason) of the skipped paths."""
    found = [(SOURCE, path, why) for path, why in agent.notes.reconciler.stats().skipped]
    if agent.transcripts is not None:
        tracked = agent.transcripts.tracker.stats()
        found += [(SESSIONS, path, why) for path, why in tracked.skipped.items()]
    return found


def failed(agent: Agent, set_aside: Iterable[SetAside]) -> dict[FileKey, list[str]]:
    """Return the problems of files that can't be read, or that lack a vector for good."""
    found = {key: [reason] for key, reason in agent.events.unreadable.items()}
    if agent.embedding.pool is None:
        return found
    lines: dict[tuple[FileKey, str], list[str]] = {}
    for source, path, first, last, reason in set_aside:
        shown = str(first) if first == last else f"{first}-{last}"
        lines.setdefault((FileKey(source, path), reason), []).append(shown)
    for (key, reason), places in lines.items():
        name = "line" if len(places) == 1 and places[0].isdecimal() else "lines"
        without = f"no vector for {name} {', '.join(places)}: {reason}"
        found.setdefault(key, []).append(without)
    return found


async def page(agent: Agent, body: FilesBody) -> FilesResult:
    """Return at most `body.limit` files of `body.state` whose paths follow `body.after`.

    Raises `RequestFailedError`.
    """
    if not 1 <= body.limit <= MAX_PAGE or body.state not in STATES:
        raise bad_request(
            f"limit must be from 1 to {MAX_PAGE}, and state one of {', '.join(STATES)}"
        )
    if body.state == "indexed":
        return await _indexed(agent, body)
    found: Iterable[tuple[str, str, str]]
    match body.state:
        case "skipped":
            found = skipped(agent)
        case "failed":
            set_aside = await agent.index.store.readers.read(read_set_aside)
            problems = failed(agent, set_aside)
            found = ((*key, "; ".join(reasons)) for key, reasons in problems.items())
        case _:
            found = ((*key, remark) for key, remark in remarks(agent.index.store.catalog).items())
    entries = sorted(
        (FileEntry(path, body.state, source, reason=why) for source, path, why in found),
        key=lambda entry: entry.path,
    )
    start = 0
    if body.after is not None:
        start = bisect.bisect_right(entries, body.after, key=lambda entry: entry.path)
    return _page(entries[start : start + body.limit + 1], len(entries), body)


async def _indexed(agent: Agent, body: FilesBody) -> FilesResult:
    after, limit = body.after, body.limit + 1
    found = await agent.index.store.readers.read(lambda c: read_files(c, after, limit))
    known = remarks(agent.index.store.catalog)
    entries = [
        FileEntry(path, body.state, source, size, chunks, known.get(FileKey(source, path)))
        for path, source, size, chunks in found
    ]
    return _page(entries, len(agent.index.store.catalog.rows), body)


def _page(entries: list[FileEntry], total: int, body: FilesBody) -> FilesResult:
    """Return a page of entries; one entry more than the limit means that another page follows."""
    shown = entries[: body.limit]
    return FilesResult(shown, total, shown[-1].path if len(entries) > len(shown) else None)
