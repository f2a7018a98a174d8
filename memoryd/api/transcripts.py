"""Pages of the transcripts of an agent."""

import bisect
from datetime import datetime
from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd.agent.transcripts import Transcripts
from memoryd.api.files import MAX_PAGE
from memoryd.errors import bad_request
from memoryd.fs.directories import shown_path
from memoryd.messages import FileKey
from memoryd.source.transcripts.locations import SOURCE, Found, owner_of
from memoryd_client.schema.transcripts import SessionEntry, SessionsBody, SessionsResult


async def page(agent: Agent, body: SessionsBody) -> SessionsResult:
    """Return at most `body.limit` transcripts whose names follow `body.after`.

    Raises `RequestFailedError`.
    """
    if not 1 <= body.limit <= MAX_PAGE:
        raise bad_request(f"limit must be from 1 to {MAX_PAGE}")
    if agent.transcripts is None:
        return SessionsResult(enabled=False, sessions=[], total=0)
    transcripts = agent.transcripts.files
    found = await agent.look_up(transcripts.find)
    indexed = {key for key in agent.index.store.catalog.rows if key.source == SOURCE}
    keys = sorted(found.files.keys() | indexed)
    start = 0 if body.after is None else bisect.bisect_right(keys, FileKey(SOURCE, body.after))
    shown = keys[start : start + body.limit]
    missing, unmatched = found.missing, found.unmatched
    if not transcripts.places.configured:
        missing, unmatched = [], []
    return SessionsResult(
        enabled=True,
        sessions=[_entry(agent, transcripts, key, found) for key in shown],
        total=len(keys),
        next_after=shown[-1].path if start + len(shown) < len(keys) else None,
        missing=[shown_path(place.folder) for place in missing],
        elsewhere=[
            *(f"{shown_path(place.folder / place.pattern)}: no transcript" for place in unmatched),
            *(f"{path}: {why}" for path, why in sorted(found.skipped.items())),
        ],
    )


def _entry(agent: Agent, transcripts: Transcripts, key: FileKey, found: Found) -> SessionEntry:
    path = transcripts.places.real_path(key) or Path(key.path)
    if key in found.files:
        path = found.files[key][0]
    row = agent.index.store.catalog.rows.get(key)
    entry = SessionEntry(key.path, str(path), "new", owner=owner_of(path))
    if row is not None and row.transcript is not None:
        state = row.transcript
        entry.state, entry.gone_at = "indexed", state.gone_at
        if state.gone_at is not None:
            day = datetime.fromtimestamp(state.gone_at).date()
            entry.state, entry.reason = "kept", f"its file is gone since {day}"
        entry.format, entry.session = state.format, state.session
        entry.messages, entry.malformed, entry.chunks = state.messages, state.malformed, row.chunks
    # A change of owner or name alone adds nothing.
    if key in found.files and (row is None or row.stat[:3] != found.files[key][1][:3]):
        read = 0 if row is None or row.transcript is None else row.transcript.offset
        size = found.files[key][1].size
        entry.pending_bytes = size - read if size >= read else size
        entry.state = "new" if row is None else "pending"
    if (reason := agent.events.unreadable.get(key)) is not None:
        entry.state, entry.reason = "failed", reason
    assert agent.transcripts is not None  # noqa: S101 - `page` has asked
    if (why := agent.transcripts.tracker.stats().left_out.get(key)) is not None:
        entry.state, entry.reason, entry.pending_bytes = "left out", why, 0
    return entry
