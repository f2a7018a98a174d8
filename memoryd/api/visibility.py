"""Limits of a request: transcripts by session and agent, private memory by the kind of chat."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd.errors import RequestFailedError, bad_request
from memoryd.index.catalog import FileRow
from memoryd.messages import FileKey
from memoryd.source.filenames import ROOT_FILES, is_session_note
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd.source.transcripts.locations import owner_of
from memoryd_client.schema.memory import GetBody
from memoryd_client.wire.protocol import ErrorCode

VISIBILITIES = ("self", "tree", "agent", "all")
"""Transcripts that a search sees, from few to all."""
CHAT_TYPES = ("direct", "group", "channel")
_PRIVATE_NOTES = frozenset(name.casefold() for name in ROOT_FILES)


@dataclass(frozen=True, slots=True)
class Audience:
    """Readers of an answer; `is_private`: nobody reads along but the owner.

    `copied` are the transcripts that have the session's first messages, which its own leaves out.
    """

    agent: str
    visibility: str
    session: str
    is_private: bool
    copied: frozenset[str] = frozenset()

    def may_see(self, rows: Mapping[FileKey, FileRow], key: FileKey) -> bool:
        """Return whether a file may be shown: notes, and transcripts as `visibility` says.

        Where others read along, neither curated notes nor private conversations, or notes about
        them, are shown. A conversation of an unknown kind is private.
        """
        if key.source != SESSIONS:
            return self.is_private or not _is_private_note(key.path)
        state = rows[key].transcript if key in rows else None
        if state is None or not (self.is_private or state.chat_type in ("group", "channel")):
            return False
        if self.visibility == "all":
            return True
        if self.visibility == "agent":
            return state.owner in ("", self.agent)
        is_own = state.session == self.session or key.path in self.copied
        is_below = self.visibility == "tree" and self.session in state.spawned_by
        return bool(self.session) and (is_own or is_below)


def audience(
    agent: Agent, visibility: str | None, session: str | None, chat_type: str | None
) -> Audience:
    """Return who reads an answer. Raises `RequestFailedError` for what is not allowed."""
    most = agent.config.settings.sessions.visibility
    asked = visibility or most
    if asked not in VISIBILITIES:
        raise bad_request(f"visibility must be one of {', '.join(VISIBILITIES)}")
    if VISIBILITIES.index(asked) > VISIBILITIES.index(most):
        message = f"visibility {asked} exceeds sessions.visibility, which is {most}"
        raise RequestFailedError(ErrorCode.DENIED, message)
    copied: frozenset[str] = frozenset()
    if session and asked in ("self", "tree"):
        states = [row.transcript for row in agent.index.store.catalog.copy().values()]
        own = (state for state in states if state is not None and state.session == session)
        copied = frozenset(name for state in own for name in state.repeats)
    return Audience(agent.config.agent, asked, session or "", is_direct(chat_type), copied)


def is_direct(chat_type: str | None) -> bool:
    """Return whether nobody else reads along. Raises `RequestFailedError` for another kind."""
    if chat_type is not None and chat_type not in CHAT_TYPES:
        raise bad_request(f"chat_type must be one of {', '.join(CHAT_TYPES)}")
    return chat_type in (None, "direct")


def visible_files(agent: Agent, who: Audience) -> Callable[[FileKey], bool] | None:
    """Return the rule for the files that a search may see, None for all."""
    if who.is_private and (agent.transcripts is None or who.visibility == "all"):
        return None
    rows = agent.index.store.catalog.rows
    return lambda key: who.may_see(rows, key)


def narrowed(chat_type: str | None) -> list[str]:
    """Return the warning about what is left out in a kind of chat, none in a direct one."""
    if is_direct(chat_type):
        return []
    return [f"in a {chat_type}, MEMORY.md, USER.md and private conversations are left out"]


def _is_private_note(path: str) -> bool:
    return path.casefold() in _PRIVATE_NOTES or is_session_note(path)


def check_note(agent: Agent, path: str, chat_type: str | None) -> None:
    """Raise `RequestFailedError` for a note that is not for this kind of chat."""
    if is_direct(chat_type):
        return
    file = Path(os.path.normpath(agent.notes.discovery.workspace / path))
    if _is_private_note(agent.notes.discovery.key(file).path):
        raise _refused(path, chat_type)


def check_transcript(agent: Agent, body: GetBody) -> None:
    """Raise `RequestFailedError` for a transcript that a search of the same request can't see."""
    who = audience(agent, None, body.session, body.chat_type)
    rows, key = agent.index.store.catalog.rows, FileKey(SESSIONS, body.path)
    if who.may_see(rows, key):
        return
    if not who.is_private and not replace(who, visibility="all").may_see(rows, key):
        raise _refused(body.path, body.chat_type)
    if key not in rows and who.is_private and agent.transcripts is not None:
        path = agent.transcripts.files.places.real_path(key) or Path()
        is_own = who.visibility == "agent" and owner_of(path) in ("", who.agent)
        if is_own or who.visibility == "all":
            return  # not indexed yet
    raise RequestFailedError(
        ErrorCode.DENIED,
        f"{body.path} can't be seen: sessions.visibility is {who.visibility}",
        "it is of another agent" if who.visibility == "agent" else "name the session that asks",
    )


def _refused(path: str, chat_type: str | None) -> RequestFailedError:
    return RequestFailedError(
        ErrorCode.DENIED,
        f"{path} is private: it is not for a {chat_type}",
        "ask in a direct chat",
    )
