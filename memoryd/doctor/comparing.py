"""Comparison of disk and index, with the differences that memoryd will resolve by itself."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from memoryd.agent.factories import note_reader
from memoryd.agent.transcripts import Transcripts
from memoryd.config.load import AgentConfig
from memoryd.config.validate import ConfigError
from memoryd.doctor.disk import (
    Difference,
    Differences,
    Notes,
    What,
    changed_since,
    indexed_file,
    is_wrong,
)
from memoryd.doctor.finding import Finding, Tally, Topic
from memoryd.doctor.kept import check_copies
from memoryd.doctor.rows import read
from memoryd.doctor.running import RunningDaemon, in_sync
from memoryd.doctor.structure import REBUILD
from memoryd.identity import Identity
from memoryd.index.catalog import decode_transcript
from memoryd.index.driver import Connection, Error
from memoryd.index.forget import load_tombstones
from memoryd.index.schema import get_places
from memoryd.index.tombstone_key import KEY_ADVICE, SUFFIX, TombstoneKey
from memoryd.messages import FileKey, TranscriptState
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.read import TICK_NS
from memoryd.source.transcripts.format import LeftOutError
from memoryd.source.transcripts.locations import SOURCE
from memoryd.source.transcripts.openclaw_json5 import NAME as STORE
from memoryd_client.shared.humanize import counted

TRIES = 3
"""Maximum comparisons while a daemon runs, each after a `sync`."""
_STAYS = "the indexed files stay searchable meanwhile"
_UNSEEN = f"restore it, or let memoryd's user read it; {_STAYS}"
_UNREAD = f"fix the reason; {_STAYS}"
_WHAT: dict[What, str] = {
    "new": "not in the index",
    "changed": "different from the index",
    "gone": "in the index but not on disk",
    "wrong": "with chunks in the index that do not match the text",
    "unreadable": "unreadable",
}


class _Comparison(Protocol):
    """`problems` names folders that could not be read, so that their files are unknown."""

    problems: list[str]

    def compare(self, only: Differences | None = None) -> Differences:
        """Return the differences between disk and index, limited to the files of `only`."""


def compare(
    connection: Connection, config: AgentConfig, identity: Identity, daemon: RunningDaemon | None
) -> tuple[list[Finding], int]:
    """Compare an agent's notes and transcripts with its index.

    Also returns the number of folders to watch.
    """
    settings, agent = config.settings, config.agent
    disk = Topic("disk", agent)
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
        wrong.error(error.message, error.hint or "correct it, then `memctl reload`")
        return wrong.findings, 0
    Settling(disk, daemon, agent).settle(notes, "note")
    findings = disk.fine(f"{counted(notes.files, 'file')}: the index is up to date")
    if transcripts is not None:
        topic = Topic("transcripts", agent)
        key = transcripts.forgotten.key = TombstoneKey(Path(f"{config.db_path}{SUFFIX}"))
        key.open(connection, convert=False)
        if key.problem is not None:
            topic.error(key.problem, KEY_ADVICE)
            return findings + topic.findings, notes.folders
        conversations = Conversations(connection, transcripts, identity)
        Settling(topic, daemon, agent).settle(conversations, "transcript")
        check_copies(topic, transcripts.kept.copies, conversations.kept)
        counts = counted(conversations.files, "transcript")
        findings += topic.fine(f"{counts}: the index is up to date")
    return findings, notes.folders


class Settling:
    """Repeated comparison, until nothing differs or the daemon has no reason to lag."""

    def __init__(self, topic: Topic, daemon: RunningDaemon | None, agent: str) -> None:
        self._topic = topic
        self._daemon = daemon
        self._agent = agent
        self._problem: str | None = None
        self._since_ns = 0

    def settle(self, comparison: _Comparison, noun: str) -> None:
        """Compare and report the differences."""
        self._sync()
        try:
            found = comparison.compare()
            for _ in range(TRIES - 1):
                if not found or self._daemon is None or self._problem is not None:
                    break
                self._sync()
                found = comparison.compare(found)
            found = self._confirmed(found, comparison)
        except Error as error:
            self._topic.error(f"the index can't be compared: {error}", REBUILD)
            return
        self._report(found, noun)
        for problem in comparison.problems:
            self._topic.warning(problem, _UNSEEN)

    def _sync(self) -> None:
        # A file's time may be a tick behind; waiting keeps earlier changes out of that tick.
        time.sleep(TICK_NS / 1e9)
        self._since_ns = time.time_ns() - TICK_NS
        self._problem = self._ask()

    def _ask(self) -> str | None:
        return None if self._daemon is None else in_sync(self._daemon, self._agent)

    def _confirmed(self, found: Differences, comparison: _Comparison) -> Differences:
        """Compare those files again of which the difference would be an error.

        While a file is truncated, it has no text and still its old time.
        """
        lasting = {key: each for key, each in found.items() if not self._may_pass(each)}
        if not lasting:
            return found
        self._problem = self._ask()
        passing = {key: each for key, each in found.items() if key not in lasting}
        return passing | comparison.compare(lasting)

    def _report(self, found: Differences, noun: str) -> None:
        tallies: dict[tuple[What, bool], Tally] = {}
        for key, difference in found.items():
            may_pass = self._may_pass(difference)
            name = f"{key.path} ({difference.reason})" if difference.reason else key.path
            tallies.setdefault((difference.what, may_pass), Tally()).add(name)
        for (what, may_pass), names in tallies.items():
            message = f"{counted(names.count, noun)} {_WHAT[what]}: {names}"
            if what == "unreadable":
                self._topic.warning(message, _UNREAD)
            elif not may_pass:
                self._topic.error(message, REBUILD)
            elif self._daemon is None:
                self._topic.warning(message, "the next start reads the changes")
            else:
                held_up = f": {self._problem}" if self._problem else ""
                self._topic.warning(message, f"memoryd has not read them yet{held_up}")

    def _may_pass(self, difference: Difference) -> bool:
        what, in_sync = difference.what, self._daemon is not None and self._problem is None
        is_late = what == "unreadable" or (what != "wrong" and not in_sync)
        return is_late or changed_since(difference.path, self._since_ns)


class Conversations:
    """Comparison of an agent's transcripts with its index."""

    def __init__(
        self, connection: Connection, transcripts: Transcripts, identity: Identity
    ) -> None:
        self.files = 0
        self.problems: list[str] = []
        self.kept: set[str] = set()
        self._connection = connection
        self._transcripts = transcripts
        self._identity = identity

    def compare(self, only: Mapping[FileKey, object] | None = None) -> Differences:
        """Read all transcripts, or `only` these, and return those that differ."""
        self._transcripts.forgotten.add(load_tombstones(self._connection))
        found = self._transcripts.find()
        self.files = len(found.files)
        differences: Differences = {}
        self.kept = {
            name
            for name, encoded in read(
                self._connection, "SELECT path, transcript FROM files WHERE source = ?", SOURCE
            )
            if (state := _decoded(encoded)) is not None and state.gone_at is not None
        }
        for key, (path, _) in found.files.items():
            if only is None or key in only:
                difference = self._examine(key, path)
                is_copy = self._transcripts.kept.copies.holds(path)
                # `check_copies` reports damaged ones.
                if difference is not None and not (is_copy and difference.what == "unreadable"):
                    differences[key] = difference
        places = self._transcripts.places
        rows = read(self._connection, "SELECT path FROM files WHERE source = ?", SOURCE)
        indexed = [FileKey(SOURCE, name) for (name,) in rows]
        mounts = Mounts(get_places(self._connection, SOURCE), locate=places.real_path)
        away = mounts.judge(found, indexed).away
        self.problems = list(away.values())
        # The files of a missing folder are unknown: its disk may be unmounted.
        unseen = [*found.unread, *away]
        for key in indexed:
            path = places.real_path(key) or Path("/")
            unknown = key in found.files or any(path.is_relative_to(folder) for folder in unseen)
            unknown |= key.path in self.kept
            if not unknown and (only is None or key in only):
                differences[key] = Difference("gone", path)
        return differences

    def _examine(self, key: FileKey, path: Path) -> Difference | None:
        indexed = indexed_file(self._connection, key)
        state = None if indexed is None else _decoded(indexed.transcript)
        try:
            delta = self._transcripts.read_as(path, state)
        except (FileNotFoundError, LeftOutError):
            return None if indexed is None else Difference("gone", path)
        except OSError as error:
            return Difference("unreadable", path, error.strerror or str(error))
        if indexed is None or state is None:
            return Difference("new", path)
        if delta is None:
            return None
        now = delta.state
        # A chat in one document has no offset: its hash covers the whole document.
        is_same = (
            now.format,
            now.offset,
            now.open_messages,
            now.head_hash,
            now.reading,
        ) == (
            state.format,
            state.offset,
            state.open_messages,
            state.head_hash,
            state.reading,
        )
        if not is_same or (now.format == STORE and delta.hash != indexed.hash):
            return Difference("changed", path)
        if is_wrong(key, indexed, delta.chunks, self._identity):
            return Difference("wrong", path)
        return None


def _decoded(encoded: str | None) -> TranscriptState | None:
    try:
        return decode_transcript(encoded)
    except msgspec.MsgspecError:
        return None  # reported with the index
