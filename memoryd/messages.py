"""Messages between the stages: one small type per arrow of the data path.

    watch ── Hint ──► reconcile ── FileChanged │ FileGone ──► parser ── ParsedFile ──► WRITER
    rebuild ── Replace ──► WRITER ── None (wake up) ──► feeder ── Embedded ──► WRITER

Every stage passes a `SyncMarker` on, behind all earlier messages.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from memoryd.identity import Choice, Identity
from memoryd_client.schema.search import Origin

T = TypeVar("T")
Text = tuple[str, str]
"""(text hash, text) without a vector."""
StoredVector = tuple[Identity, str, bytes]
"""The identity an embedding was made for, the text hash, and the embedding."""

_SQLITE_MAX = 2**63 - 1


class FileKey(NamedTuple):
    """Key of an indexed file: its source (`memory`, …) and its path as results show it."""

    source: str
    path: str


class FileStat(NamedTuple):
    """Stat of a file for the quick check: if it is unchanged, so is the content.

    `ctime_ns` also changes if a program sets the modification time back.
    """

    mtime_ns: int
    size: int
    inode: int
    ctime_ns: int = 0


def file_stat(found: os.stat_result) -> FileStat:
    """Return the stat for the quick check, within the signed 64 bits that SQLite stores.

    Inodes of network file systems use all 64 bits, and dates from the year 2400 on need more.
    """
    mtime_ns, ctime_ns, most = found.st_mtime_ns, found.st_ctime_ns, _SQLITE_MAX
    if not (-most <= mtime_ns <= most and -most <= ctime_ns <= most):
        mtime_ns, ctime_ns = (max(-most, min(ns, most)) for ns in (mtime_ns, ctime_ns))
    return FileStat(mtime_ns, found.st_size, found.st_ino & _SQLITE_MAX, ctime_ns)


class FileFacts(msgspec.Struct, frozen=True):
    """Facts about a file as a whole.

    `date` is the day, `YYYY-MM-DD`, or the first and the last one with a slash between them, that
    the file is of; "" if it has none. `properties` are those of front matter, by name
    in lower case.
    """

    title: str = ""
    date: str = ""
    properties: dict[str, tuple[str, ...]] = {}


NO_FACTS = FileFacts()


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A run of whole lines of one file. Lines are 1-based and inclusive.

    `text` never holds a lone surrogate; `heading` is the path of Markdown headings above the
    first line, joined with ` > `. The garbage collector does not track chunks, because those of a
    file of a million lines would keep it busy.

    `line_map` is for texts whose lines differ from the file's: for each line of the text the number
    of its line in the file, separated by commas. `origin` is that of its least trusted line;
    `voices` has the voice of each line (see `encode_voices`), "" for the owner's notes. No chunk
    has both untrusted and other lines, or lines of two channels.
    """

    start_line: int
    end_line: int
    text: str
    heading: str
    line_map: str = ""
    origin: Origin = Origin.OWNER
    voices: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """Paths where the watcher saw a change; None means a full scan."""

    paths: frozenset[Path] | None = None
    reason: str = ""


OnProgress = Callable[[int, int, str], None]
"""Called with (completed, total, label), from the event loop."""


@dataclass(slots=True, eq=False)
class SyncMarker:
    """Marker that travels the whole path, behind the messages of earlier changes.

    The writer resolves `text` when they are searchable by keyword, and the feeder `vectors` when
    they have vectors or the provider is unavailable. `meant`: missing files count as deleted, even
    if their disk seems to be missing. With `paths`, it is about the changes of these notes only.
    """

    text: asyncio.Future[None] = field(default_factory=lambda: _new_future())
    vectors: asyncio.Future[None] = field(default_factory=lambda: _new_future())
    meant: bool = False
    paths: frozenset[Path] | None = None


class MeteredQueue(asyncio.Queue[T]):
    """Bounded queue with a name and a high-water mark; calls `on_put` with every added item."""

    def __init__(
        self, name: str, maxsize: int, *, on_put: Callable[[T], None] = lambda item: None
    ) -> None:
        super().__init__(maxsize)
        self.name = name
        self.high_water = 0
        self._on_put = on_put

    def put_nowait(self, item: T) -> None:
        """Add an item. Raises `asyncio.QueueFull`."""
        super().put_nowait(item)
        self.high_water = max(self.high_water, self.qsize())
        self._on_put(item)


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


class FileContent(NamedTuple):
    """A file that was read: its stat before reading, the SHA-256 of its bytes, and its lines.

    Lines are as `split_lines` counts them, without private text. `remarks` are for people.
    """

    stat: FileStat
    hash: str
    lines: list[str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A file that differs from its row in the index or has none. `size` is its size on disk."""

    key: FileKey
    real_path: Path
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class FileGone:
    """A file with rows in the index that is no longer memory.

    `absent` is its path if it is missing. The parser checks it again, because a queued message may
    be newer than this one.
    """

    key: FileKey
    absent: Path | None = field(default=None, compare=False)


class ConversationTopic(msgspec.Struct, frozen=True):
    """Subject of a conversation: its title, or else the first words of its first question.

    A title replaces one of the same `rank` or a lower one. `is_outside`: the question is a
    stranger's, because the owner has said nothing yet. `last_record` is the id of the latest record
    that has one. All are "" if unknown.
    """

    title: str = ""
    rank: int = 0
    question: str = ""
    is_outside: bool = False
    last_record: str = ""

    def shown(self, *, trusted: bool) -> str:
        """Return the subject for a result; a trusted one shows no stranger's question."""
        return self.title or ("" if trusted and self.is_outside else self.question)


class TranscriptState(msgspec.Struct, frozen=True):
    """Reading state of a transcript, so that the next reading covers only added records.

    The file is the same as long as `device`, `inode` and the hash of its first `head_bytes` stay
    and it does not shrink; else it gets another `generation`. `offset` is the end of the last
    complete line, `lines` the number of lines before it. The last chunk is open: it begins with the
    record at `tail_offset`, line `tail_line` (1-based), and is replaced with the added records.
    `messages` and `malformed` count lines; `open_messages` of the messages are in a last line
    without a line end, which the next reading reads again. `session` and `owner` (an agent id) are
    "" if unknown. `reading` names the rules of reading: with others, all is read again. `first_at`
    and `last_at` are Unix times of the earliest and latest message, None if none has a time.
    `gone_at` is the Unix time at which its file was missed, `first_record` the id of the first
    message. `repeats` names the transcripts that keep records left out here, with a number that
    differs when they keep others. `chat_type` is `direct`, `group`, `channel`, or "" if unknown.
    `spawned_by` has the keys and ids of the sessions above this one.
    """

    format: str
    device: int
    inode: int
    generation: int
    offset: int
    lines: int
    head_bytes: int
    head_hash: str
    tail_offset: int
    tail_line: int
    messages: int = 0
    malformed: int = 0
    session: str = ""
    owner: str = ""
    reading: str = ""
    first_at: float | None = None
    last_at: float | None = None
    open_messages: int = 0
    gone_at: float | None = None
    topic: ConversationTopic = ConversationTopic()
    first_record: str = ""
    repeats: dict[str, int] = {}
    chat_type: str = ""
    spawned_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The present content of a file as chunks; `hash` is the SHA-256 of its bytes.

    With `from_line`, the chunks are those that begin there or later; rows of earlier chunks stay.
    `transcript` is the state at the end of the reading, `extends` that at its start: unless the
    rows in the index have the state `extends`, nothing changes. `committed` resolves after that.
    """

    key: FileKey
    stat: FileStat
    hash: str
    chunks: list[Chunk]
    remarks: tuple[str, ...] = ()
    from_line: int = 1
    transcript: TranscriptState | None = None
    extends: TranscriptState | None = None
    committed: asyncio.Future[None] | None = None
    facts: FileFacts = NO_FACTS


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that can't be read at present. Its rows stay."""

    key: FileKey
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The result of embedding for `identity`.

    `vectors` are (text hash, little-endian float32 bytes), with one vector or more of `dims`
    numbers each (None: one). `bad` are (text hash, reason) of texts that can't be embedded.
    """

    identity: Identity
    vectors: list[tuple[str, bytes]]
    bad: list[tuple[str, str]]
    dims: int | None = None
    committed: asyncio.Future[None] = field(default_factory=lambda: _new_future())


@dataclass(frozen=True, slots=True)
class GivesDims:
    """The provider now returns vectors with another number of dimensions."""

    dims: int


@dataclass(frozen=True, slots=True, eq=False)
class Replace:
    """A finished index file, to replace the present one; `finish` adds later changes, closes it."""

    path: Path
    identity: Identity
    finish: Callable[[], Awaitable[None]]
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True, eq=False)
class KeepEmbeddings:
    """An unfinished index file and embeddings it could not store, all of which are to be kept."""

    path: Path
    paid: list[StoredVector]
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True, eq=False)
class Forget:
    """Files to remove permanently, and the (kind, value) tombstones that keep them out."""

    keys: list[FileKey]
    tombstones: list[tuple[str, str]]
    done: asyncio.Future[None] = field(default_factory=lambda: _new_future())


class BatchJobRow(msgspec.Struct, frozen=True):
    """A job of a provider's batch API, stored before it is submitted.

    `key` is memoryd's name for the job, `remote_id` the provider's, None until it has answered.
    `attempts` counts the runs of the texts, `hashes` has the text of each line of the job.
    """

    key: str
    provider: str
    model: str
    provider_key: str
    created_at: float
    hashes: list[str]
    attempts: int = 1
    remote_id: str | None = None


@dataclass(frozen=True, slots=True)
class MountPoints:
    """The folder, as (device, inode), expected at each place of a source."""

    source: str
    folders: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class JobChange:
    """A batch job to store, or to remove if it is `over`."""

    job: BatchJobRow
    over: bool = False
    done: asyncio.Future[None] = field(default_factory=lambda: _new_future())


@dataclass(frozen=True, slots=True, eq=False)
class Choose:
    """The provider of the index from the next start on."""

    choice: Choice
    done: asyncio.Future[None] = field(default_factory=lambda: _new_future())


@dataclass(frozen=True, slots=True, eq=False)
class RecordChange:
    """A change of records that are not of files: `write(connection)` makes it in a transaction."""

    write: Callable[[Any], None]
    done: asyncio.Future[None] = field(default_factory=lambda: _new_future())


ToReconcile = Hint | SyncMarker
ToParser = FileChanged | FileGone | SyncMarker
ToWriter = (
    ParsedFile
    | Unreadable
    | FileGone
    | Embedded
    | GivesDims
    | Replace
    | KeepEmbeddings
    | Forget
    | Choose
    | JobChange
    | RecordChange
    | MountPoints
    | SyncMarker
)
ToFeeder = SyncMarker | None


def split_lines(text: str) -> list[str]:
    """Split a text into lines without their ends, as every stage and `get` count them.

    A line ends at LF, CR LF or CR, as in editors; a line end at the very end starts no new line.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines
