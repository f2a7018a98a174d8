"""Pages of the indexed, skipped and unreadable files of an agent."""

import bisect
from collections.abc import Iterable
from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd.api.get import absolute, as_named
from memoryd.errors import bad_request
from memoryd.fs.directories import shown_path
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
    if body.path is not None:
        return FilesResult([await _one(agent, body.path)], 1)
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
    return _page(agent, entries[start : start + body.limit + 1], len(entries), body)


async def _indexed(agent: Agent, body: FilesBody) -> FilesResult:
    after, limit = body.after, body.limit + 1
    found = await agent.index.store.readers.read(lambda c: read_files(c, after, limit))
    known = remarks(agent.index.store.catalog)
    entries = [
        FileEntry(path, body.state, source, size, chunks, known.get(FileKey(source, path)))
        for path, source, size, chunks in found
    ]
    return _page(agent, entries, len(agent.index.store.catalog.rows), body)


async def _one(agent: Agent, named: str) -> FileEntry:
    """Return the state of one path. Raises `RequestFailedError`."""
    if not named or "\0" in named:
        raise bad_request("the path is empty or has a NUL")
    path = await as_named(agent, named)
    real_path = absolute(agent.notes.discovery.workspace, path)
    rows = agent.index.store.catalog.rows
    note, transcript = agent.notes.discovery.key(real_path), FileKey(SESSIONS, path)
    key = transcript if transcript in rows else note
    set_aside = await agent.index.store.readers.read(read_set_aside)
    if problems := failed(agent, set_aside).get(key):
        return FileEntry(key.path, "failed", key.source, reason="; ".join(problems))
    if (row := rows.get(key)) is not None:
        remark = "; ".join(row.remarks) or None
        state = "indexed" if remark is None else "remarked"
        return FileEntry(key.path, state, key.source, row.stat.size, row.chunks, remark)
    state, reason = await _why_not_indexed(agent, real_path, path)
    return FileEntry(key.path, state, key.source, reason=reason)


async def _why_not_indexed(agent: Agent, real_path: Path, path: str) -> tuple[str, str]:
    """Return the state of a path that is not in the index, and the reason."""
    discovery = agent.notes.discovery
    passed_over = {shown: why for _, shown, why in skipped(agent)}
    if (why := passed_over.get(path, passed_over.get(shown_path(real_path)))) is not None:
        return "skipped", why
    for parent in map(shown_path, real_path.parents):
        if parent in passed_over:
            return "skipped", f"{parent}: {passed_over[parent]}"
    try:
        rule = await agent.look_up(discovery.why_not, real_path, at=real_path)
        if rule is not None:
            return "hidden", rule
        found = await agent.look_up(discovery.stat, real_path, at=real_path)
    except OSError as error:
        return "failed", f"can't be read: {error.strerror or error}"
    if found is None or (stat := found[1]) is None:
        return "missing", "there is no such file"
    for other, row in agent.index.store.catalog.rows.items():
        if row.stat.inode == stat.inode:
            return "skipped", f"the same file as {other.path}"
    return "pending", "it is not read yet"


def _page(agent: Agent, entries: list[FileEntry], total: int, body: FilesBody) -> FilesResult:
    """Return a page of entries; one entry more than the limit means that another page follows."""
    shown = entries[: body.limit]
    next_after = shown[-1].path if len(entries) > len(shown) else None
    return FilesResult(shown, total, next_after, agent.notes.reconciler.stats().hidden)
