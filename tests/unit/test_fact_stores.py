"""The contract of every store of facts."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from memoryd.facts.builtin import BuiltinFacts, copies
from memoryd.facts.lance import LanceFacts
from memoryd.facts.store import FactStore, FactStoreError, Vector
from memoryd_client.schema.facts import Fact
from memoryd_client.schema.search import Origin

KEY = "model 4"


def opened(kind: str, folder: Path) -> FactStore:
    if kind == "builtin":
        return BuiltinFacts(folder / "main.sqlite", asyncio.to_thread)
    pytest.importorskip("lancedb", exc_type=ImportError)
    return LanceFacts(str(folder / "facts"), "memories", retention_s=0)


@pytest.fixture(params=["builtin", pytest.param("lancedb", marks=pytest.mark.long)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FactStore]:
    made = opened(request.param, tmp_path)
    yield made
    await made.close()


def fact(text: str, at: float = 1.0, owner: str = "main", origin: Origin = Origin.AGENT) -> Fact:
    return Fact(str(uuid.uuid4()), text, 0.5, "decision", at, origin, owner)


def vector(*numbers: float) -> Vector:
    row = np.array(numbers, np.float32)
    return row / np.linalg.norm(row)


async def test_an_empty_store_has_nothing(store: FactStore) -> None:
    assert await store.all("main") == []
    assert await store.nearest(vector(1, 0, 0, 0), KEY, "main", 5) == []
    assert await store.remove("x", "main") is None
    assert await store.missing(KEY, 5) == ([], 0)
    await store.embed({}, KEY)


async def test_facts_come_back_whole_and_oldest_first(store: FactStore) -> None:
    facts = [fact(f"it's {at}", at, origin=Origin.OWNER) for at in (1.001, 2.0, 3.5)]
    for one in reversed(facts):
        await store.put(one, vector(1, one.created_at, 0, 0), KEY)
    await store.put(facts[0], vector(1, 0, 0, 0), KEY)  # a second time
    await store.put(fact("another's", owner="it's ben"), vector(1, 0, 0, 0), KEY)
    assert await store.all("main") == facts
    assert [one.text for one in await store.all("it's ben")] == ["another's"]
    assert await store.all("") == []


async def test_facts_that_are_stored_and_read_at_once_are_all_there(tmp_path: Path) -> None:
    for name in map(str, range(5)):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "main.sqlite"
        stores = [BuiltinFacts(path, asyncio.to_thread) for _ in range(8)]
        await asyncio.gather(
            *(store.put(fact("new"), vector(1, 0, 0, 0), KEY) for store in stores),
            *(store.all("main") for store in stores),
        )
        assert len(await stores[0].all("main")) == 8


async def test_corrupt_facts_are_repaired_once(tmp_path: Path) -> None:
    store = BuiltinFacts(tmp_path / "main.sqlite", asyncio.to_thread)
    for at in range(40):
        await store.put(fact("x" * 400, at), vector(1, at, 0, 0), KEY)
    with store.path.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(b"x" * 4096)
    read = await asyncio.gather(*(store.all("main") for _ in range(8)))
    assert len(copies(store.path)) == 1
    assert len({len(facts) for facts in read}) == 1


async def test_more_than_a_page_of_facts_is_listed(store: FactStore) -> None:
    for at in range(25):
        await store.put(fact(f"fact {at}", at), vector(1, at, 0, 0), KEY)
    assert len(await store.all("main")) == 25


async def test_owners_are_chosen_before_the_ranking(store: FactStore) -> None:
    for at in range(20):
        await store.put(fact("theirs", owner="ben"), vector(1, 0.001 * at, 0, 0), KEY)
    near, far = fact("near"), fact("far")
    await store.put(far, vector(0, 1, 0, 0), KEY)
    await store.put(near, vector(1, 1, 0, 0), KEY)
    found = await store.nearest(vector(1, 0, 0, 0), KEY, "main", 2)
    assert [one for one, _ in found] == [near, far]
    assert [cosine for _, cosine in found] == pytest.approx([0.7071, 0.0], abs=1e-3)
    assert len(await store.nearest(vector(1, 0, 0, 0), KEY, "ben", 3)) == 3


async def test_facts_get_their_vectors_later(store: FactStore) -> None:
    await store.put(fact("first"), vector(1, 0, 0, 0), KEY)
    late = fact("late")
    await store.put(late, None, "")
    assert await store.missing(KEY, 5) == ([late], 1)
    assert await store.missing(KEY, 0) == ([], 1)
    found = await store.nearest(vector(0, 1, 0, 0), KEY, "main", 5)
    assert late not in [one for one, _ in found]
    await store.embed({late.id: vector(0, 1, 0, 0), "gone": vector(1, 0, 0, 0)}, KEY)
    assert await store.missing(KEY, 5) == ([], 0)
    assert (await store.nearest(vector(0, 1, 0, 0), KEY, "main", 1))[0][0] == late
    assert len(await store.all("main")) == 2


async def test_only_its_owner_removes_a_fact_and_nothing_of_it_stays(
    store: FactStore, tmp_path: Path
) -> None:
    gone, stays = fact("the secret plan"), fact("a plan that stays")
    for one in (gone, stays):
        await store.put(one, vector(1, 0, 0, 0), KEY)
    assert await store.remove(gone.id, "ben") is None
    assert await store.remove(gone.id, "main") == gone
    assert await store.remove(gone.id, "main") is None
    assert await store.all("main") == [stays]
    if isinstance(store, LanceFacts):
        await store.clean()  # the retention of this one is over
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"a plan that stays" in data for data in files)
    assert not any(b"the secret plan" in data for data in files)


@pytest.mark.long
async def test_a_fact_leaves_a_lancedb_table_in_one_commit(tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb", exc_type=ImportError)
    store = opened("lancedb", tmp_path)
    try:
        gone, stays = fact("the secret plan"), fact("a plan that stays")
        await store.put(gone, vector(1, 0, 0, 0), KEY)
        await store.put(stays, None, KEY)
        table = lancedb.connect(tmp_path / "facts").open_table("memories")
        before = table.version
        await store.remove(gone.id, "main")
        table.checkout_latest()
        assert table.version == before + 1  # a process killed between two would leave its bytes
        # Somebody else has given two facts one id.
        rows = table.to_arrow().to_pylist()
        table.add([row | {"agentId": "ben", "text": "ben's"} for row in rows])
        assert await store.remove(stays.id, "main") == stays
        assert await store.all("main") == []
        assert [one.text for one in await store.all("ben")] == ["ben's"]
    finally:
        await store.close()


async def test_two_who_share_a_table_see_all_at_once(tmp_path: Path) -> None:
    first, second = opened("builtin", tmp_path), opened("builtin", tmp_path)
    one = fact("shared")
    await first.put(one, None, "")
    assert await second.all("main") == [one]
    assert await second.remove(one.id, "main") == one
    assert await first.all("main") == []


@pytest.mark.long
async def test_daemons_share_one_lancedb_table(tmp_path: Path) -> None:
    first, second = opened("lancedb", tmp_path), opened("lancedb", tmp_path)
    try:
        facts = [fact(f"fact {at}", at) for at in range(20)]
        puts = [
            (first, second)[at % 2].put(one, vector(1, at, 0, 0), KEY)
            for at, one in enumerate(facts)
        ]
        await asyncio.gather(*puts)
        assert await first.all("main") == await second.all("main") == facts
        await asyncio.gather(first.remove(facts[0].id, "main"), second.remove(facts[1].id, "main"))
        assert await first.all("main") == await second.all("main") == facts[2:]
        with pytest.raises(FactStoreError, match="have 4 dimensions, and this model's 3"):
            await first.put(fact("other model"), vector(1, 0, 0), KEY)
    finally:
        await first.close()
        await second.close()


@pytest.mark.long
async def test_a_table_of_the_plugin_opens_with_its_facts(tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb", exc_type=ImportError)
    row = {
        "id": str(uuid.uuid4()),
        "text": "Ana moved",
        "vector": [1.0, 0.0, 0.0, 0.0],
        "importance": 0.7,
        "category": "entity",
        "createdAt": 1_764_000_000_123.0,
        "agentId": "main",
        "scope": "",
    }
    table = lancedb.connect(tmp_path / "facts").create_table("memories", [row])
    store = opened("lancedb", tmp_path)
    try:
        (known,) = await store.all("main")
        assert (known.text, known.category, known.created_at) == (
            "Ana moved",
            "entity",
            1_764_000_000.123,
        )
        await store.put(fact("Ben stays"), vector(1, 1, 0, 0), KEY)
        with pytest.raises(FactStoreError, match="no column that could mark"):
            await store.put(fact("x", origin=Origin.UNTRUSTED), vector(1, 0, 0, 0), KEY)
        table.checkout_latest()
        assert sorted(table.to_arrow().column("text").to_pylist()) == ["Ana moved", "Ben stays"]
        assert set(table.to_arrow().column("scope").to_pylist()) == {""}
    finally:
        await store.close()


@pytest.mark.long
async def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    store = opened("lancedb", tmp_path)
    assert isinstance(store, LanceFacts)
    try:
        await store.put(fact("before"), vector(1, 0, 0, 0), KEY)
        assert store._process is not None
        store._process.kill()
        after = fact("after")
        await store.put(after, vector(1, 0, 0, 0), KEY)
        await store.put(after, vector(1, 0, 0, 0), KEY)
        assert [one.text for one in await store.all("main")] == ["after", "before"] or len(
            await store.all("main")
        ) == 2
    finally:
        await store.close()
