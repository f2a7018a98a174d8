"""Compares disk and index, and says of what differs whether that will pass or is an error."""

import time
from dataclasses import dataclass, field
from typing import Protocol

from memoryd.agent.factories import note_reader
from memoryd.agent.transcripts import Transcripts
from memoryd.config.load import AgentConfig, ConfigError
from memoryd.doctor.conversations import Conversations
from memoryd.doctor.disk import Differences, Notes, What, changed_since
from memoryd.doctor.finding import Finding, Tally, Topic
from memoryd.doctor.running import RunningDaemon, in_sync
from memoryd.doctor.structure import REBUILD
from memoryd.identity import Identity
from memoryd.index.driver import Connection, Error
from memoryd.source.notes.discover import Discovery
from memoryd_client.shared.humanize import counted

LOOKS = 3
"""What differs, while a daemon runs, is looked at again behind a `sync`."""
_STAYS = "what the index has of it stays meanwhile"
_UNSEEN = f"bring it back, or let memoryd's user read it; {_STAYS}"
_UNREAD = f"put right what the reason says; {_STAYS}"
_WHAT: dict[What, str] = {
    "new": "not in the index",
    "changed": "other than in the index",
    "gone": "in the index, but not on disk",
    "wrong": "with other chunks in the index than the text gives",
    "unreadable": "that can't be read",
}


class _Comparison(Protocol):
    """`problems` say where nothing is known of files that were not seen."""

    problems: list[str]

    def compare(self, only: Differences | None = None) -> Differences:
        """Return what differs between disk and index, among `only` these files if given."""


@dataclass(slots=True)
class Compared:
    """What was found, and how many folders there are to be watched."""

    findings: list[Finding] = field(default_factory=list)
    folders: int = 0


def compare(
    connection: Connection, config: AgentConfig, identity: Identity, daemon: RunningDaemon | None
) -> Compared:
    """Compare an agent's notes and transcripts with its index."""
    settings, agent = config.settings, config.agent
    disk, compared = Topic("disk", agent), Compared()
    try:
        transcripts = Transcripts(config, identity) if settings.sessions.enabled else None
        discovery = Discovery(config.workspace, settings.extra_paths)
        notes = Notes(
            connection,
            discovery,
            identity,
            note_reader(settings, discovery, None),
            with_transcripts=transcripts is not None,
        )
    except ConfigError as error:
        wrong = Topic("configuration", agent)
        wrong.error(str(error), "correct it, then `memctl reload`")
        return Compared(wrong.findings)
    Settling(disk, daemon, agent).settle(notes, "note")
    compared.folders = notes.folders
    compared.findings = disk.fine(f"{counted(notes.files, 'file')}: the index has them as they are")
    if transcripts is not None:
        topic = Topic("transcripts", agent)
        conversations = Conversations(connection, transcripts, identity)
        Settling(topic, daemon, agent).settle(conversations, "transcript")
        counts = counted(conversations.files, "transcript")
        compared.findings += topic.fine(f"{counts}: the index has them as they are")
    return compared


class Settling:
    """Looks until nothing differs any more, or what does has no excuse."""

    def __init__(self, topic: Topic, daemon: RunningDaemon | None, agent: str) -> None:
        self._topic = topic
        self._daemon = daemon
        self._agent = agent
        self._problem: str | None = None
        self._since_ns = 0

    def settle(self, comparison: _Comparison, noun: str) -> None:
        """Compare, and tell what differs."""
        self._sync()
        try:
            found = comparison.compare()
            for _ in range(LOOKS - 1):
                if not found or self._daemon is None or self._problem is not None:
                    break
                self._sync()
                found = comparison.compare(found)
        except Error as error:
            self._topic.error(f"the index can't be compared: {error}", REBUILD)
            return
        self._tell(found, noun)
        for problem in comparison.problems:
            self._topic.warning(problem, _UNSEEN)

    def _sync(self) -> None:
        self._since_ns = time.time_ns()
        self._problem = None if self._daemon is None else in_sync(self._daemon, self._agent)

    def _tell(self, found: Differences, noun: str) -> None:
        tallies: dict[tuple[What, bool], Tally] = {}
        for key, difference in found.items():
            may_pass = self._may_pass(difference.what) or changed_since(
                difference.path, self._since_ns
            )
            name = f"{key.path} ({difference.reason})" if difference.reason else key.path
            tallies.setdefault((difference.what, may_pass), Tally()).add(name)
        for (what, may_pass), names in tallies.items():
            message = f"{counted(names.count, noun)} {_WHAT[what]}: {names}"
            if what == "unreadable":
                self._topic.warning(message, _UNREAD)
            elif not may_pass:
                self._topic.error(message, REBUILD)
            elif self._daemon is None:
                self._topic.warning(message, "the next start reads what has changed")
            else:
                held_up = f": {self._problem}" if self._problem else ""
                self._topic.warning(message, f"memoryd has not read them yet{held_up}")

    def _may_pass(self, what: What) -> bool:
        in_sync = self._daemon is not None and self._problem is None
        return what == "unreadable" or (what != "wrong" and not in_sync)
