"""What travels between the stages: one small type per arrow of the data path.

    watch ── Hint ──► reconcile ── FileChanged │ FileGone ──► parser ── ParsedFile ──► WRITER
    rebuild ── Replace ──► WRITER ── None (wake up) ──► feeder ── Embedded ──► WRITER

A `SyncMarker` is passed on by every stage behind all that came before it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from memoryd.identity import Choice, Identity

T = TypeVar("T")
Text = tuple[str, str]
"""(text hash, text): what waits for a vector."""
StoredVector = tuple[Identity, str, bytes]
"""What an embedding was made for, the text's hash, and the embedding."""

_SQLITE_MAX = 2**63 - 1


class FileKey(NamedTuple):
    """Names one indexed file: its source (`memory`, …) and its path as results show it."""

    source: str
    path: str


class FileStat(NamedTuple):
    """The quick check: if none of these changed, neither did the content."""

    mtime_ns: int
    size: int
    inode: int


def file_stat(found: os.stat_result) -> FileStat:
    """Return the quick check, within the signed 64 bits that SQLite stores.

    Inodes of network file systems use all 64, and a date of the year 2400 has more nanoseconds.
    """
    mtime_ns = max(-_SQLITE_MAX, min(found.st_mtime_ns, _SQLITE_MAX))
    return FileStat(mtime_ns, found.st_size, found.st_ino & _SQLITE_MAX)


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A run of whole lines of one file. Lines are 1-based and inclusive.

    `text` never holds a lone surrogate; `heading` is the path of Markdown headings above the
    first line, joined with ` > `. Out of sight of the garbage collector, which a file of a
    million lines would keep busy.

    `line_map` is for texts whose lines are not the file's: for each line of the text the line of
    the file it stands in, separated by commas.
    """

    start_line: int
    end_line: int
    text: str
    heading: str
    line_map: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """The watcher saw something at these paths; no paths: look everywhere."""

    paths: frozenset[Path] | None = None
    reason: str = ""


OnProgress = Callable[[int, int, str], None]
"""Called with (completed, total, label), from the event loop."""


@dataclass(slots=True, eq=False)
class SyncMarker:
    """Travels the whole path; `text` and `vectors` resolve when all before it is searchable.

    The writer resolves `text` and the feeder, last, `vectors`. While the provider is out of order
    nobody is kept waiting for it. `meant`: what is missing was deleted, even where it looks as if
    its disk were not there.
    """

    text: asyncio.Future[None] = field(default_factory=lambda: _new_future())
    vectors: asyncio.Future[None] = field(default_factory=lambda: _new_future())
    meant: bool = False


class MeteredQueue(asyncio.Queue[T]):
    """A bounded queue with a name, that remembers how full it has been.

    `on_put` is called with every item that is added.
    """

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
    """A file as it was read: its stat before reading, the SHA-256 of its bytes, and its lines.

    Lines are as `split_lines` counts them; what is private is taken out. `remarks` say
    what people should know about it, such as bytes that are not UTF-8.
    """

    stat: FileStat
    hash: str
    lines: list[str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A file on disk differs from its row in the index, or has none. `size` is that on disk."""

    key: FileKey
    real_path: Path
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class FileGone:
    """A file with rows in the index is no longer memory.

    `absent` is where it was, if it is because there is nothing now: before its rows go that is
    looked at again, for what is already on its way may be newer than this message.
    """

    key: FileKey
    absent: Path | None = field(default=None, compare=False)


class TranscriptState(msgspec.Struct, frozen=True):
    """How far a transcript has been read, so that only what was added is read the next time.

    It is of one file as long as `device`, `inode` and the hash of its first `head_bytes` stay, and
    it does not shrink; else it is another `generation`. `offset` is behind the last complete line,
    `lines` how many there are up to it. The last chunk is open: it begins with the record at
    `tail_offset`, line `tail_line` (1-based), and is made again with what is added. `messages` and
    `malformed` count lines; `session` and `owner` (an agent's id) are "" where they are not known.
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


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file's present content as chunks; `hash` is the SHA-256 of its bytes.

    With `from_line`, they are only those that begin there or later; the rows of earlier ones stay.
    `transcript` is then where the reading has ended, `extends` where it began: the file's rows must
    be those of that state, else nothing is changed. `committed` resolves once it is dealt with.
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


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file could not be read. Its old rows stay until it can."""

    key: FileKey
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What came back from the provider for `identity`.

    `vectors` are (text hash, little-endian float32 bytes), one vector or more of `dims` numbers
    each (None: one); `bad` (text hash, reason) of texts it can't embed, which stay
    keyword-searchable.
    """

    identity: Identity
    vectors: list[tuple[str, bytes]]
    bad: list[tuple[str, str]]
    dims: int | None = None
    committed: asyncio.Future[None] = field(default_factory=lambda: _new_future())


@dataclass(frozen=True, slots=True)
class GivesDims:
    """The provider gives every text a vector of so many numbers now, unlike before."""

    dims: int


@dataclass(frozen=True, slots=True, eq=False)
class Replace:
    """A finished index file that is to take the place of the present one.

    `finish` brings it up to what the present one has been given meanwhile, and closes it.
    """

    path: Path
    identity: Identity
    finish: Callable[[], Awaitable[None]]
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True, eq=False)
class KeepEmbeddings:
    """An unfinished index file whose embeddings are to be kept, and those it could not take."""

    path: Path
    paid: list[StoredVector]
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True, eq=False)
class Forget:
    """Files that are to go for good, and (kind, value) of what keeps them from coming back."""

    keys: list[FileKey]
    tombstones: list[tuple[str, str]]
    done: asyncio.Future[None]


class BatchJobRow(msgspec.Struct, frozen=True):
    """Texts that a provider's batch API has been given, or is about to be.

    `key` is our name for it, which the provider keeps too; `remote_id` the provider's, None until
    it has answered. `created_at` is Unix time; `attempts` counts the runs of these texts; a line's
    number in the job is its place in `hashes`, of texts.
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
    """Which folder, as (device, inode), is to be found at each place of a source."""

    source: str
    folders: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class JobChange:
    """A batch job that is to be written down anew, or removed when it is `over`."""

    job: BatchJobRow
    over: bool = False
    done: asyncio.Future[None] = field(default_factory=lambda: _new_future())


@dataclass(frozen=True, slots=True, eq=False)
class Choose:
    """Which provider the index is to have from the next start on."""

    choice: Choice
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
    | MountPoints
    | SyncMarker
)
ToFeeder = SyncMarker | None


def split_lines(text: str) -> list[str]:
    """Split a text into lines without their ends, as every stage and `get` count them.

    A line ends at LF, CR LF or CR, as in editors; a line end at the very end starts no new line.
    """
    # Four times as fast as one regular expression, which moreover holds the GIL to its end.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


async def first_of(*waits: Awaitable[Any]) -> None:
    """Wait for the first; cancel those that are no tasks, which were made for this wait alone."""
    made = [asyncio.ensure_future(wait) for wait in waits if not isinstance(wait, asyncio.Task)]
    tasks = [wait for wait in waits if isinstance(wait, asyncio.Task)]
    try:
        await asyncio.wait([*made, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in made:
            future.cancel()
