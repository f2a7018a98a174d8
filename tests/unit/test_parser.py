"""The parser as an actor: order, and its limited lead over the writer."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from memoryd.chunk.parser import AHEAD_BYTES, BATCH_FILES, ChunkOptions, Parser
from memoryd.messages import (
    FileChanged,
    FileContent,
    FileGone,
    FileKey,
    FileStat,
    ParsedFile,
    SyncMarker,
    ToParser,
    ToWriter,
    Unreadable,
)

OPTIONS = ChunkOptions(400, 80, 8000)


class Bench:
    """A parser with its queues, and files that are read from memory."""

    def __init__(self) -> None:
        self.inbox = asyncio.Queue[ToParser]()
        self.writer = asyncio.Queue[ToWriter]()
        self.sizes: dict[str, int] = {}
        self.failing: dict[str, OSError] = {}
        self.read: list[str] = []

    def read_file(self, path: Path) -> FileContent:
        self.read.append(path.name)
        if error := self.failing.get(path.name):
            raise error
        stat = FileStat(1, self.sizes.get(path.name, 1), 1)
        return FileContent(stat, path.name, [f"# {path.name}", "text"], ("remark",))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Parser]:
        with ThreadPoolExecutor(1) as thread:
            parser = Parser(
                self.inbox,
                self.writer,
                self.writer,
                read=self.read_file,
                options=OPTIONS,
                thread=thread,
            )
            task = asyncio.create_task(parser.run())
            try:
                yield parser
            finally:
                task.cancel()
                await asyncio.wait({task})

    async def outcomes(self, count: int) -> list[ToWriter]:
        """Return the next messages, as a writer takes them."""
        taken = []
        for _ in range(count):
            taken.append(await self.writer.get())
            self.writer.task_done()
        return taken


def changed(name: str) -> FileChanged:
    return FileChanged(FileKey("memory", name), Path("/w") / name)


async def test_what_comes_out_is_in_the_order_of_what_went_in() -> None:
    bench = Bench()
    bench.failing = {
        "gone.md": FileNotFoundError(2, "No such file"),
        "secret.md": PermissionError(13, "Permission denied"),
    }
    marker = SyncMarker()
    first = [f"{number}.md" for number in range(2 * BATCH_FILES + 3)]
    messages: list[ToParser] = [
        *map(changed, first),
        FileGone(FileKey("memory", "old.md")),
        changed("gone.md"),
        changed("secret.md"),
        marker,
        changed("last.md"),
    ]
    for message in messages:
        bench.inbox.put_nowait(message)
    async with bench.running() as parser:
        outcomes = await bench.outcomes(len(messages))
        assert parser.stats() == len(first) + 3
    assert [o.key.path for o in outcomes if isinstance(o, ParsedFile)] == [*first, "last.md"]
    old, gone, secret, passed_on, _ = outcomes[len(first) :]
    assert old == FileGone(FileKey("memory", "old.md"))
    assert gone == FileGone(FileKey("memory", "gone.md"))
    assert secret == Unreadable(FileKey("memory", "secret.md"), "Permission denied")
    assert passed_on is marker


async def test_a_file_is_parsed_with_all_that_is_known_of_it() -> None:
    bench = Bench()
    bench.inbox.put_nowait(changed("a.md"))
    async with bench.running():
        (parsed,) = await bench.outcomes(1)
    assert isinstance(parsed, ParsedFile)
    assert (parsed.stat, parsed.hash) == (FileStat(1, 1, 1), "a.md")
    assert parsed.remarks == ("remark",)
    assert [(c.start_line, c.end_line, c.text) for c in parsed.chunks] == [(1, 2, "# a.md\ntext")]


async def test_no_more_is_parsed_than_the_writer_can_take() -> None:
    """Otherwise several huge files would be in memory at once."""
    bench = Bench()
    bench.sizes = {"huge1.md": AHEAD_BYTES, "huge2.md": AHEAD_BYTES}
    for name in ("huge1.md", "huge2.md", "small.md"):
        bench.inbox.put_nowait(changed(name))
    async with bench.running() as parser:
        first = await bench.writer.get()
        bench.inbox.put_nowait(changed("later.md"))
        assert isinstance(first, ParsedFile)
        assert bench.read == ["huge1.md"]
        assert (parser.stats(), parser.in_hand()) == (1, 2)
        bench.writer.task_done()
        assert len(await bench.outcomes(3)) == 3
        assert (parser.stats(), parser.in_hand()) == (4, 0)
    assert bench.read == ["huge1.md", "huge2.md", "small.md", "later.md"]


async def test_a_file_that_has_come_back_is_read_and_not_forgotten(tmp_path: Path) -> None:
    """The scan that missed the file may be older than its state in the index."""
    bench = Bench()
    back, away = tmp_path / "back.md", tmp_path / "away.md"
    back.write_text("here again")
    for path in (back, away):
        bench.inbox.put_nowait(FileGone(FileKey("memory", path.name), path))
    async with bench.running():
        first, second = await bench.outcomes(2)
    assert isinstance(first, ParsedFile)
    assert first.key.path == "back.md"
    assert second == FileGone(FileKey("memory", "away.md"))


async def test_waiting_writers_of_one_note_share_its_parsing() -> None:
    bench = Bench()
    markers = [SyncMarker(paths=frozenset({Path("/w/a.md")})) for _ in range(4)]
    everything = SyncMarker()
    messages: list[ToParser] = [
        *(changed("a.md"), markers[0], changed("a.md"), markers[1]),
        *(changed("b.md"), markers[2], everything, changed("b.md"), markers[3]),
    ]
    for message in messages:
        bench.inbox.put_nowait(message)
    async with bench.running() as parser:
        outcomes = await bench.outcomes(8)
        assert (parser.stats(), parser.in_hand()) == (3, 0)
    assert bench.read == ["a.md", "b.md", "b.md"]
    passed_on = [o.key.path if isinstance(o, ParsedFile) else o for o in outcomes]
    first, second, third, fourth = markers
    assert passed_on == ["a.md", first, second, "b.md", third, everything, "b.md", fourth]
