"""The record of forgotten texts has no hash that anybody could guess a text from."""

import hashlib
import hmac
import stat
from pathlib import Path

import pytest
from keywords import IDENTITY
from writing import opened

from memoryd.index import schema
from memoryd.index.driver import sqlite
from memoryd.index.forget import load_tombstones
from memoryd.index.rebuild.carry_over import copy_records
from memoryd.index.store import Store, StoreOptions
from memoryd.index.tombstone_key import CHUNK, MASKED_MESSAGE, NOTE, SUFFIX, TombstoneKey

PIN = hashlib.sha256(b"User: my pin is 4711").hexdigest()
OTHER = hashlib.sha256(b"another text").hexdigest()


def put(path: Path, *rows: tuple[str, str]) -> None:
    connection = sqlite.connect(str(path), isolation_level=None)
    connection.executemany("INSERT INTO forgotten VALUES (?, ?)", rows)
    connection.close()


async def rows(store: Store) -> set[tuple[str, str]]:
    def read(connection: object) -> set[tuple[str, str]]:
        return set(connection.execute("SELECT kind, value FROM forgotten").fetchall())  # type: ignore[attr-defined]

    return await store.readers.read(read)


async def test_plain_hashes_of_an_earlier_version_are_converted(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    async with opened(path):
        pass
    names = {("path", "sessions/a.jsonl"), ("session", "s1")}
    put(path, ("message", PIN), ("chunk", OTHER), *names)
    for _ in range(2):
        async with opened(path) as bench:
            key = Path(f"{path}{SUFFIX}").read_bytes()
            made = [hmac.new(key, h.encode(), hashlib.sha256).hexdigest() for h in (PIN, OTHER)]
            assert await rows(bench.store) == {(MASKED_MESSAGE, made[0]), (CHUNK, made[1]), *names}
            assert bench.store.tombstone_key.hashed(PIN) == made[0]
            assert bench.store.tombstone_key.problem is None
            loaded = await bench.store.readers.read(load_tombstones)
            assert loaded == {(MASKED_MESSAGE, made[0]), *names}
    assert stat.S_IMODE(Path(f"{path}{SUFFIX}").stat().st_mode) == 0o600
    assert len(key) == 32
    for plain in (PIN, OTHER):
        assert plain.encode() not in path.read_bytes()


async def test_an_index_without_tombstones_needs_no_key(tmp_path: Path) -> None:
    async with opened(tmp_path / "main.sqlite") as bench:
        assert bench.store.tombstone_key.problem is None
        assert not bench.store.tombstone_key.path.exists()


@pytest.mark.parametrize("what", ["missing", "another", "short"])
async def test_a_lost_key_is_told_until_the_next_forgetting(tmp_path: Path, what: str) -> None:
    path, key_path = tmp_path / "main.sqlite", tmp_path / f"main.sqlite{SUFFIX}"
    async with opened(path):
        pass
    put(path, ("message", PIN), ("path", "sessions/a.jsonl"))
    async with opened(path):
        pass
    good = key_path.read_bytes()
    if what == "missing":
        key_path.unlink()
    else:
        key_path.write_bytes(bytes(32 if what == "another" else 31))
    async with opened(path) as bench:
        store = bench.store
        assert str(key_path) in (store.tombstone_key.problem or "")
        assert len(await rows(store)) == 2, "the key may come back"
    key_path.write_bytes(good)
    async with opened(path) as bench:
        assert bench.store.tombstone_key.problem is None
    key_path.unlink()
    async with opened(path) as bench:
        key = bench.store.tombstone_key
        key.create()
        await bench.store.database.run(key.adopt)
        assert key.problem is None
        assert await rows(bench.store) == {("path", "sessions/a.jsonl")}


async def test_a_new_index_takes_the_key_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    async with opened(path):
        pass
    put(path, ("message", PIN))
    async with opened(path) as bench:
        old = bench.store
        options = StoreOptions(
            tmp_path / "new.sqlite", Path("/w"), None, "", None, key_path=old.tombstone_key.path
        )
        new = Store(options, IDENTITY)
        await new.open()
        await new.database.run(lambda c: copy_records(c, path))
        await new.database.run(lambda c: new.tombstone_key.open(c, convert=False))
        assert new.tombstone_key.hashed(PIN) == old.tombstone_key.hashed(PIN)
        assert await new.database.run(lambda c: schema.get_note(c, NOTE))
        assert not Path(f"{new.path}{SUFFIX}").exists()
        await new.close()


def test_a_key_that_is_no_regular_file_of_ours_is_refused(tmp_path: Path) -> None:
    key = TombstoneKey(tmp_path / "key")
    (tmp_path / "other").write_bytes(bytes(32))
    key.path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"."):
        key.create()
    key.path.unlink()
    key.path.mkdir()
    with pytest.raises(OSError, match=r"."):
        key.create()
