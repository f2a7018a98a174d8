"""A writer with its queues on a keyword index, and files for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from keywords import IDENTITY

from memoryd.index.driver import Connection
from memoryd.index.store import Store, StoreOptions
from memoryd.index.writer import Writer
from memoryd.messages import Chunk, FileKey, FileStat, ParsedFile, ToFeeder, ToWriter, Unreadable


class Bench:
    """A writer with its queues, and its messages."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.inbox = asyncio.Queue[ToWriter]()
        self.feeder = asyncio.Queue[ToFeeder]()
        self.unreadable: list[Unreadable] = []
        self.written: list[FileKey] = []
        self.statements: list[str] = []
        self.restarts: list[None] = []
        self.coming = 0
        self.writer = Writer(
            self.inbox,
            self.feeder,
            store,
            coming=lambda: self.coming,
            on_unreadable=self.unreadable.append,
            on_written=lambda key, changed: self.written.append(key),
            on_wanted=lambda: None,
            restart=lambda: self.restarts.append(None),
        )

    async def write(self, *messages: ToWriter) -> None:
        """Handle messages that wait together, and wait until all are done."""
        for message in messages:
            self.inbox.put_nowait(message)
        running = asyncio.create_task(self.writer.run())
        joined = asyncio.create_task(self.inbox.join())
        await asyncio.wait({running, joined}, return_when=asyncio.FIRST_COMPLETED)
        joined.cancel()
        if running.done():
            running.result()
        running.cancel()
        await asyncio.wait({running})

    def commits(self) -> int:
        return self.statements.count("COMMIT")


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Bench]:
    """Provide an index and its writer; it counts as locked while there is no file `unlocked`."""
    unlocked = path.with_name("unlocked")
    options = StoreOptions(
        path, Path("/w"), None, "switched off", None, is_locked=lambda: not unlocked.exists()
    )
    store = Store(options, IDENTITY)
    await store.open()
    bench = Bench(store)
    if store.writable:
        await store.database.run(lambda c: c.set_trace_callback(bench.statements.append))
    try:
        yield bench
    finally:
        await store.close()


def key(path: str) -> FileKey:
    return FileKey("memory", path)


def file(path: str, *texts: str, size: int = 1, remarks: tuple[str, ...] = ()) -> ParsedFile:
    chunks = [Chunk(n, n, text, "") for n, text in enumerate(texts, start=1)]
    return ParsedFile(key(path), FileStat(1, size, 1), str(texts), chunks, remarks)


def texts(connection: Connection) -> list[str]:
    found = connection.execute("SELECT text FROM chunks ORDER BY text")
    return [text for (text,) in found]
