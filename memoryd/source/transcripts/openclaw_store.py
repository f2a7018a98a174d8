"""OpenClaw's SQLite store since version 2026.7: `openclaw-agent.sqlite`, schema version 23.

Only the current branch of a conversation counts. A rewind copies a conversation under another id,
without the events behind it, and leaves the old one as it was.
"""

import errno
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memoryd.messages import FileStat
from memoryd.source.transcripts.foreign_sqlite import ForeignDatabase, columns
from memoryd.source.transcripts.format import Message, Record
from memoryd.source.transcripts.openclaw import OpenClaw
from memoryd.source.transcripts.openclaw_archives import (
    COLD,
    Archive,
    archived_records,
    archives,
    branch_of,
    cold_records,
)
from memoryd.source.transcripts.openclaw_sessions import (
    KeyedSession,
    kind_of_chat,
    names_above,
    why_without_people,
)
from memoryd.source.transcripts.stored import StoredConversation, StoredRecord, lineage

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Maximum size of an unpacked event, which the schema sets."""
_GROUPS = frozenset({"group", "channel"})
_IN_GROUP = re.compile(r":([^:]*):(?:group|channel):")
_OF_HOOK = ":hook:"
_SPAWNED = ":subagent:"
"""Parts of the keys of sessions."""
_RESETS = frozenset({"reset", "rollover"})
"""Reasons of a session to follow another one, which has ended."""
_ALONE = {"cron": "a cron run", "spawn": "a spawned run", "internal": "an internal run"}
"""Origins of sessions in which no person takes part."""
_NEEDED = {
    "transcript_events": {"session_id", "seq", "event_json"},
    "session_windows": {"session_id", "session_key"},
}
_OPTIONAL = {
    "session_windows": (
        "created_at",
        "transcript_updated_at",
        "previous_session_id",
        "session_scope",
        "chat_type",
        "channel",
        "hook_external_content_source",
        "parent_session_key",
        "spawned_by",
        "reason",
    ),
    "session_nodes": ("created_via", "parent_session_key", "spawned_by"),
    "transcript_rewrite_watermarks": ("generation",),
    "conversations": ("label",),
}
"""Columns that count if they are there."""


class _Window(NamedTuple):
    """Row of a session, in the order of the query."""

    session_id: str
    key: str
    created_at: int | None
    updated_at: int | None
    previous: str | None
    scope: str | None
    chat_type: str | None
    channel: str | None
    hook_source: str | None
    parent: str | None
    spawned_by: str | None
    reason: str | None
    created_via: str | None
    node_parent: str | None
    node_spawned_by: str | None
    generation: str | None
    label: str | None
    cold_last: int | None
    cold_generation: str | None
    last: int | None
    last_active: int | None
    active: int | None


class OpenClawStore:
    """The events of a session are what the lines of its file were before, numbered by `seq`."""

    format = OpenClaw.name

    def conversations(
        self,
        connection: ForeignDatabase,
        before: Mapping[str, StoredConversation],
    ) -> dict[str, StoredConversation]:
        """Return the conversations by id. Those in `before` with the same `token` are reused."""
        windows = [_Window(*row) for row in connection.execute(_query(connection))]
        sessions = {window.key: _keyed(window) for window in windows}
        rewound = _rewound(connection, windows)
        forgotten = _forgotten(connection)
        ended = _ended(windows)
        found: dict[str, StoredConversation] = {}
        for window in windows:
            if window.last is None and window.cold_last is None:
                continue
            left_out = forgotten.get(window.session_id) or _why_left_out(window, sessions, rewound)
            above = names_above(window.key, sessions)
            token = (*window, left_out, *above)
            known = before.get(window.session_id)
            if known is None or known.token != token:
                known = _conversation(connection, window, left_out, above)
                known = known._replace(token=token)
            found[window.session_id] = known._replace(is_over=window.session_id in ended)
        for archive in archives(connection):
            left_out = forgotten.get(archive.session_id) or _why_key_left_out(archive.key, {})
            known = before.get(archive.name)
            if known is None or known.token != (*archive, left_out):
                known = _archived(connection, archive, left_out)
            found[archive.name] = known
        # A conversation that OpenClaw has forgotten leaves the index also if it has no rows.
        for name, left_out in forgotten.items():
            unknown = StoredConversation(name, FileStat(0, 1, lineage(left_out)), left_out)
            found.setdefault(name, unknown)
        return found

    def fingerprint(self, connection: ForeignDatabase, name: str, end: int) -> str:
        """Return nothing: any change of earlier events changes the lineage."""
        return ""

    def records(
        self, connection: ForeignDatabase, path: Path, name: str, start: int
    ) -> Iterator[StoredRecord]:
        """Yield the events of the current branch, from the number `start` on."""
        archive = next((a for a in archives(connection) if a.name == name), None)
        if archive is not None:
            yield from archived_records(connection, archive, start)
            return
        if _is_cold(connection, name):
            yield from cold_records(connection, path, name, start)
            return
        packed = "event_zstd" in columns(connection, "transcript_events")
        branch = "TRUE"
        if _is_indexed(connection, name):
            branch = (
                "EXISTS (SELECT 1 FROM session_transcript_active_events AS a"
                " WHERE a.session_id = e.session_id AND a.event_seq = e.seq)"
            )
        rows = connection.execute(
            f"SELECT seq, event_json, {'event_zstd' if packed else 'NULL'} FROM transcript_events"
            f" AS e WHERE session_id = ? AND seq >= ? AND {branch} ORDER BY seq",
            (name, start),
        )
        for number, text, data in rows:
            yield StoredRecord(number, _unpacked(data) if text is None else text.encode())

    def message(self, record: Record, conversation: StoredConversation) -> Message | None:
        """Return the message of an event, None if it has none. Never raises."""
        message = OpenClaw().message(record)
        if message is None:
            return None
        sender = message.sender
        if conversation.chat is not None:
            chat = sender.channel or conversation.chat
            sender = replace(sender, in_group=True, channel=chat)
        if conversation.outside:
            sender = replace(sender, is_owner=False)
        return replace(message, sender=sender)


def _query(connection: ForeignDatabase) -> str:
    """Return the query of all sessions. Raises `OSError` if a column is missing."""
    for table, needed in _NEEDED.items():
        if missing := needed - columns(connection, table):
            name = f"{table}.{min(missing)}"
            raise OSError(errno.EPROTO, f"a store of an unknown OpenClaw: it has no {name}")
    there = {table: columns(connection, table) for table in _OPTIONAL}
    has_nodes = "session_key" in there["session_nodes"]
    has_marks = "session_id" in there["transcript_rewrite_watermarks"]
    has_chats = "conversation_id" in there["conversations"]
    has_chats &= "primary_conversation_id" in there["session_windows"]
    aliases = {
        "session_windows": "w",
        "session_nodes": "n" if has_nodes else "",
        "transcript_rewrite_watermarks": "g" if has_marks else "",
        "conversations": "c" if has_chats else "",
    }
    chosen = ["w.session_id", "w.session_key"]
    for table, names in _OPTIONAL.items():
        alias = aliases[table]
        chosen += [f"{alias}.{n}" if alias and n in there[table] else "NULL" for n in names]
    active = "FROM session_transcript_active_events AS a WHERE a.session_id = w.session_id"
    has_branch = "active_position" in columns(connection, "session_transcript_active_events")
    has_cold = {"last_seq", "archive_blob"} <= columns(connection, COLD)
    chosen += ["x.last_seq", "x.generation"] if has_cold else ["NULL", "NULL"]
    chosen += [
        "(SELECT max(seq) FROM transcript_events AS e WHERE e.session_id = w.session_id)",
        f"(SELECT max(event_seq) {active})" if has_branch else "NULL",
        f"(SELECT max(active_position) + 1 {active})" if has_branch else "NULL",
    ]
    joins = [
        " LEFT JOIN session_nodes AS n ON n.session_key = w.session_key" if has_nodes else "",
        " LEFT JOIN transcript_rewrite_watermarks AS g ON g.session_id = w.session_id"
        if has_marks
        else "",
        f" LEFT JOIN {COLD} AS x ON x.session_id = w.session_id" if has_cold else "",
        " LEFT JOIN conversations AS c ON c.conversation_id = w.primary_conversation_id"
        if has_chats
        else "",
    ]
    return f"SELECT {', '.join(chosen)} FROM session_windows AS w{''.join(joins)}"


def _keyed(window: _Window) -> KeyedSession:
    return KeyedSession(
        session_id=window.session_id,
        spawned_by=window.spawned_by or window.node_spawned_by,
        parent=window.parent or window.node_parent,
    )


def _why_left_out(
    window: _Window, sessions: Mapping[str, KeyedSession], rewound: Mapping[str, str]
) -> str:
    if reason := _ALONE.get(window.created_via or ""):
        return reason
    if reason := _why_key_left_out(window.key, sessions):
        return reason
    if window.session_id in rewound:
        return f"rewound; it continues as {rewound[window.session_id]}"
    return ""


def _why_key_left_out(key: str, sessions: Mapping[str, KeyedSession]) -> str:
    if reason := why_without_people(key, sessions):
        return f"a {reason}"
    is_spawned = _SPAWNED in key or sessions.get(key, KeyedSession()).spawned_by
    return "a spawned run" if is_spawned else ""


def _forgotten(connection: ForeignDatabase) -> dict[str, str]:
    """Return the ids of the conversations that were forgotten in OpenClaw, with the reason."""
    if "session_id" not in columns(connection, "memory_session_tombstones"):
        return {}
    rows = connection.execute("SELECT session_id FROM memory_session_tombstones")
    return {name: "its session was forgotten in OpenClaw" for (name,) in rows}


def _ended(windows: list[_Window]) -> set[str]:
    """Return the ids of the conversations after which another began under the same key."""
    keys = {window.session_id: window.key for window in windows}
    return {
        window.previous
        for window in windows
        if window.previous is not None
        and window.reason in _RESETS
        and keys.get(window.previous) == window.key
    }


def _rewound(connection: ForeignDatabase, windows: list[_Window]) -> dict[str, str]:
    """Return the ids of the conversations that a rewind has copied, with those of the copies."""
    if "event_id" not in columns(connection, "transcript_event_identities"):
        return {}
    keys = {window.session_id: window.key for window in windows}
    # The header, number 0, is never copied.
    first = (
        "SELECT event_id FROM transcript_event_identities WHERE session_id = ? AND seq > 0"
        " ORDER BY seq LIMIT 1"
    )
    found: dict[str, str] = {}
    for window in windows:
        if window.previous is None or keys.get(window.previous) != window.key:
            continue
        firsts = [
            connection.execute(first, (name,)).fetchone()
            for name in (window.previous, window.session_id)
        ]
        if firsts[0] is not None and firsts[0] == firsts[1]:
            found[window.previous] = window.session_id
    return found


def _conversation(
    connection: ForeignDatabase, window: _Window, left_out: str, above: tuple[str, ...]
) -> StoredConversation:
    last = window.cold_last or 0 if window.last is None else window.last
    abandoned: list[int] = []
    if window.last_active is not None:
        last = window.last_active
        if window.active != last:  # apart from the header, number 0
            rows = connection.execute(
                "SELECT event_seq FROM session_transcript_active_events WHERE session_id = ?",
                (window.session_id,),
            )
            abandoned = sorted(set(range(1, last + 1)) - {number for (number,) in rows})
    outside = window.hook_source is not None
    is_group = window.chat_type in _GROUPS or window.scope in _GROUPS
    chat = (window.label or window.channel or "") if is_group else None
    generation = window.cold_generation or window.generation
    kind = kind_of_chat(window.key, KeyedSession(chat_type=window.chat_type or window.scope))
    number = lineage(generation, abandoned, left_out, outside, chat, kind, above)
    changed_ms = window.updated_at or window.created_at or 0
    stat = FileStat(changed_ms * 1_000_000, last + 1, number)
    return StoredConversation(
        *(window.session_id, stat, left_out, outside, chat), chat_type=kind, spawned_by=above
    )


def _archived(connection: ForeignDatabase, archive: Archive, left_out: str) -> StoredConversation:
    branch = branch_of(connection, archive)
    outside = _OF_HOOK in archive.key
    group = _IN_GROUP.search(archive.key)
    chat = None if group is None else group[1]
    kind = kind_of_chat(archive.key, KeyedSession())
    number = lineage(archive.generation, branch.abandoned, left_out, outside, chat, kind)
    stat = FileStat(archive.created_at * 1_000_000, branch.last + 1, number)
    token = (*archive, left_out)
    return StoredConversation(
        *(archive.session_id, stat, left_out, outside, chat, token, archive.reason == "reset"),
        chat_type=kind,
    )


def _is_cold(connection: ForeignDatabase, name: str) -> bool:
    if not columns(connection, COLD):
        return False
    events = "SELECT 1 FROM transcript_events WHERE session_id = ? LIMIT 1"
    return connection.execute(events, (name,)).fetchone() is None


def _is_indexed(connection: ForeignDatabase, name: str) -> bool:
    if not columns(connection, "session_transcript_active_events"):
        return False
    query = "SELECT 1 FROM session_transcript_active_events WHERE session_id = ? LIMIT 1"
    return connection.execute(query, (name,)).fetchone() is not None


def _unpacked(data: bytes) -> bytes | None:
    import zstandard  # takes memory, so only when needed

    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_EVENT_BYTES)
    except zstandard.ZstdError:
        return None
