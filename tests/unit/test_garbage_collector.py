"""Python's garbage collector stops all threads, so it must traverse few objects."""

import gc
from collections.abc import Iterator

import pytest

from memoryd.__main__ import GC_THRESHOLDS
from memoryd.messages import FileKey

MANY = 300_000
"""The number of objects that a scan of 15,000 files creates, roughly."""


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("thresholds")
def test_no_collection_looks_at_more_than_a_moment_allows() -> None:
    looked_at: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            ages = range(info["generation"] + 1)
            looked_at.append(sum(len(gc.get_objects(age)) for age in ages))

    gc.callbacks.append(note)
    try:
        keys = [FileKey("memory", str(number)) for number in range(MANY)]
    finally:
        gc.callbacks.remove(note)
    assert len(keys) == MANY
    assert looked_at
    assert max(looked_at) <= 15_000
