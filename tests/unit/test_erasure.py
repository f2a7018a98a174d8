"""No trace of a deleted text remains in the state folder."""

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from identities import identity
from writing import Bench, file, key, opened

from memoryd.index import erasure, quantize, schema, statements
from memoryd.index.cache import drop_deleted
from memoryd.index.driver import bundled_extension, sqlite
from memoryd.index.erasure import Erasure
from memoryd.index.repair.recover import copies
from memoryd.index.store import Store, StoreOptions
from memoryd.index.transactions import Transactions
from memoryd.index.vec_table import mean_of
from memoryd.messages import Chunk, FileGone, FileKey, FileStat, ParsedFile, SyncMarker

DAY_S = 86_400.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path / "main.sqlite") as bench:
        yield bench


def remains(folder: Path, *words: str) -> list[tuple[str, str]]:
    """Return each word with the name of a file that contains it."""
    files = [(found.name, found.read_bytes()) for found in folder.rglob("*") if found.is_file()]
    return [(word, name) for word in words for name, data in files if word.encode() in data]


def terms(store: Store) -> set[str]:
    """Return the words of the keyword index, of which FTS5 stores only differing parts."""
    connection = sqlite.connect(f"file:{store.path}?mode=ro", uri=True)
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, chunks_fts, 'row')")
        return {term for (term,) in connection.execute("SELECT term FROM temp.v")}
    finally:
        connection.close()


def words(dice: random.Random, count: int, start: str = "") -> list[str]:
    letters = "bcdfgklmnprtvxz"  # the stemmer changes nothing
    return [start + "".join(dice.choices(letters, k=10)) for _ in range(count)]


async def test_a_deleted_word_is_nowhere_when_a_sync_has_answered(bench: Bench) -> None:
    dice = random.Random(7)
    common = words(dice, 500)
    there: dict[str, str] = {}
    gone: list[str] = []
    for step in range(12):
        messages: list[Any] = []
        for number in range(20):
            (word,) = words(dice, 1, "zq")
            there[name := f"{step}-{number}.md"] = word
            messages.append(file(name, " ".join([*dice.choices(common, k=150), word])))
        for name in dice.sample(sorted(there), 12):
            gone.append(there.pop(name))
            if step % 2:
                messages.append(FileGone(key(name)))
            else:
                (there[name],) = words(dice, 1, "zq")
                messages.append(file(name, " ".join([*dice.choices(common, k=99), there[name]])))
        marker = SyncMarker()
        await bench.write(*messages, marker)
        assert marker.text.done()
        assert remains(bench.store.path.parent, *gone) == []
        assert not terms(bench.store) & set(gone)
    assert not bench.store.erased
    assert terms(bench.store) >= set(there.values())
    assert {word for word, _ in remains(bench.store.path.parent, *there.values())}


async def test_a_text_that_was_deleted_right_before_a_stop_is_gone_after_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "main.sqlite") as bench:
        await bench.write(file("a.md", "a mulberry"), file("b.md", "a fig"))
        await bench.write(FileGone(key("a.md")))
        assert bench.store.erased
    assert remains(tmp_path, "mulberry") == []
    assert remains(tmp_path, "fig")


async def test_a_crash_between_deletion_and_erasure_is_made_good(tmp_path: Path) -> None:
    async with opened(tmp_path / "main.sqlite") as bench:
        await bench.write(file("a.md", "a mulberry"), file("b.md", "a fig"))
        await bench.write(FileGone(key("a.md")))
        await bench.store.readers.close()
        bench.store.erased = False  # the process ends without closing the index as it should
    async with opened(tmp_path / "main.sqlite") as bench:
        assert bench.store.erased, "the index itself has the note"
        await bench.write(SyncMarker())
        assert remains(tmp_path, "mulberry") == []
        assert "mulberri" not in terms(bench.store)


async def test_additions_to_a_transcript_erase_nothing(bench: Bench) -> None:
    await bench.write(file("a.md", "a fig"), file("b.md", "a plum"))
    assert not bench.store.erased
    await bench.write(file("a.md", "a fig", "another"))
    assert not bench.store.erased, "an unchanged chunk keeps its row"


async def test_a_reader_of_the_log_delays_an_erasure_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "PATIENCE_S", 0.05)
    await bench.write(file("a.md", "a mulberry"), file("b.md", "a fig"))
    reader = sqlite.connect(f"file:{bench.store.path}?mode=ro", uri=True, isolation_level=None)
    try:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM chunks").fetchone() == (2,)
        marker = SyncMarker()
        await bench.write(FileGone(key("a.md")), marker)
        assert marker.text.done()
        assert bench.store.erased
    finally:
        reader.close()
    await bench.write(SyncMarker())
    assert not bench.store.erased
    assert remains(bench.store.path.parent, "mulberry") == []


async def test_a_corrupt_copy_is_emptied_and_keeps_its_name(bench: Bench) -> None:
    copy = Path(f"{bench.store.path}.damaged-20260102T030405Z-malformed")
    copy.write_bytes(b"a mulberry")
    Path(f"{copy}-wal").write_bytes(b"a mulberry")
    await bench.write(file("a.md", "a fig"), SyncMarker())
    assert remains(copy.parent, "mulberry"), "nothing was deleted yet"
    await bench.write(FileGone(key("a.md")), SyncMarker())
    assert copies(bench.store.path) == [copy]
    assert remains(copy.parent, "mulberry") == []


class Clocks:
    """Both clocks, which a test moves."""

    def __init__(self) -> None:
        self.now_s = time.time()

    def __call__(self) -> float:
        return self.now_s


async def aged(bench: Bench, clocks: Clocks) -> Erasure:
    """Return an erasure with these clocks."""
    transactions = Transactions(bench.store, restart=lambda: None, on_recovered=lambda: None)
    return Erasure(bench.store, transactions, clock=clocks, wall_clock=clocks)


async def note(store: Store, name: str) -> str | None:
    return await store.database.run(lambda c: schema.get_note(c, name))


async def test_the_file_is_rewritten_a_day_after_a_deletion(bench: Bench) -> None:
    clocks = Clocks()
    work = await aged(bench, clocks)
    await bench.write(file("a.md", "a mulberry"), file("b.md", "a fig"))
    await work.when_idle()
    assert "VACUUM" not in bench.statements
    await bench.write(FileGone(key("a.md")), SyncMarker())
    clocks.now_s += DAY_S / 2
    await work.when_idle()
    assert "VACUUM" not in bench.statements
    clocks.now_s += DAY_S
    await work.when_idle()
    assert bench.statements.count("VACUUM") == 1
    clocks.now_s += 2 * DAY_S
    await work.when_idle()
    assert bench.statements.count("VACUUM") == 1
    assert await note(bench.store, schema.REWRITE_AT) == ""


async def test_an_index_from_before_is_rewritten_once(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    async with opened(path) as bench:
        await bench.write(file("a.md", "a mulberry"), file("b.md", "a fig"))
    connection = sqlite.connect(str(path), isolation_level=None)
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute("DELETE FROM chunks WHERE text = 'a mulberry'")
    connection.execute("DELETE FROM files WHERE path = 'a.md'")
    connection.execute("DELETE FROM meta WHERE key IN ('erased', 'rewrite at')")
    connection.close()
    assert remains(tmp_path, "mulberry")
    async with opened(path) as bench:
        work = await aged(bench, Clocks())
        await work.when_idle()
        assert bench.statements.count("VACUUM") == 1
        assert remains(tmp_path, "mulberry") == []
        assert await bench.store.database.run(lambda c: schema.get_note(c, "erased")) == "0"


async def test_a_large_file_is_not_rewritten_by_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "MAX_REWRITE_BYTES", 1)
    await bench.store.database.run(lambda c: c.execute("DELETE FROM meta WHERE key = 'rewrite at'"))
    await (await aged(bench, Clocks())).when_idle()
    assert "VACUUM" not in bench.statements


# --- vectors


MODEL = identity("openai", "m", dims=8, provider_key="")


@pytest.fixture
async def with_vectors(tmp_path: Path) -> AsyncIterator[Store]:
    options = StoreOptions(tmp_path / "v.sqlite", Path("/w"), bundled_extension(), None, None)
    store = Store(options, MODEL)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def put(store: Store, name: str, text: str, embedding: bytes | None) -> None:
    parsed = ParsedFile(FileKey("memory", name), FileStat(1, 1, 1), text, [Chunk(1, 1, text, "")])
    await store.database.run_steps(lambda c: statements.write_files(c, store.tables, [parsed]))
    if embedding is not None:
        made = [(statements.text_hash(text), embedding)]
        await store.database.run(lambda c: statements.put_vectors(c, store.tables, made))


async def delete(store: Store, name: str) -> None:
    gone = FileGone(FileKey("memory", name))
    await store.database.run_steps(lambda c: statements.write_files(c, store.tables, [gone]))


async def test_vectors_of_deleted_texts_go_after_the_grace_time(with_vectors: Store) -> None:
    store = with_vectors
    odd = [struct.pack("<8f", *[0.1 * n for n in range(m, m + 8)]) for m in (1, 20)]
    await put(store, "a.md", "a mulberry", odd[0])
    await put(store, "b.md", "a fig", odd[1])
    await delete(store, "a.md")

    def cached() -> Any:
        return store.database.run(
            lambda c: c.execute("SELECT count(*) FROM embedding_cache").fetchall()
        )

    await store.database.run(lambda c: drop_deleted(c, time.time() - 60))
    assert await cached() == [(2,)], "restored text costs nothing"
    await store.database.run(lambda c: drop_deleted(c, time.time() + 60))
    assert await cached() == [(1,)], "a vector in use stays, however old"
    transactions = Transactions(store, restart=lambda: None, on_recovered=lambda: None)
    store.erased = True
    await Erasure(store, transactions).finish()
    data = store.path.read_bytes()
    gone, kept = (
        quantize.encode(embedding, 8, statements.text_hash(text))
        for text, embedding in zip(("a mulberry", "a fig"), odd, strict=True)
    )
    assert gone not in data
    assert mean_of(gone, 8) not in data
    assert data.count(kept) == 1, "once in the cache"
    assert data.count(mean_of(kept, 8)) == 1, "once in sqlite-vec's table"


async def test_a_vendors_words_about_a_text_go_with_it(with_vectors: Store) -> None:
    store = with_vectors
    for name in ("a.md", "b.md"):
        await put(store, name, "a mulberry", None)
    refused = [(statements.text_hash("a mulberry"), "it says 'mulberry'")]
    await store.database.run(lambda c: statements.put_vectors(c, store.tables, [], refused))
    query = "SELECT count(*) FROM set_aside"
    for name, left in (("a.md", 1), ("b.md", 0)):
        await delete(store, name)
        found = await store.database.run(lambda c: c.execute(query).fetchone())
        assert found == (left,)


async def test_an_erasure_while_others_read_does_not_block_the_loop(bench: Bench) -> None:
    """The steps run on the connection's thread."""
    await bench.write(*(file(f"{n}.md", f"note{n} " * 200) for n in range(100)))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await bench.write(*(FileGone(key(f"{n}.md")) for n in range(50)), SyncMarker())
    ticking.cancel()
    with suppress(asyncio.CancelledError):
        await ticking
    assert ticks > 10
    assert not bench.store.erased


async def test_a_long_log_is_emptied_when_idle(bench: Bench) -> None:
    log, work = Path(f"{bench.store.path}-wal"), await aged(bench, Clocks())
    await work.when_idle()
    await bench.write(file("a.md", "a fig"))
    await work.when_idle()
    assert log.stat().st_size > 0, "a small one is not worth it"
    texts = (" ".join(words(random.Random(n), 300)) for n in range(60))
    await bench.write(*(file(f"{n}.md", text) for n, text in enumerate(texts)))
    assert log.stat().st_size > 128 * 1024
    await work.when_idle()
    assert log.stat().st_size == 0
