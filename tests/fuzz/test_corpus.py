"""Repeats all earlier findings, on every machine, without the fuzzer."""

import pytest

from fuzz import scratch
from fuzz.target import CORPUS, NAMES, REGRESSIONS, load

KEPT_BYTES = 200 * 1024


@pytest.mark.parametrize("name", NAMES)
def test_every_input_that_is_kept_does_no_harm(name: str) -> None:
    target = load(name)
    inputs = list(target.kept())
    assert inputs
    try:
        for data in inputs:
            target.check(data)
    finally:
        target.close()
        scratch.remove()  # the processes of parallel test runs exit without clean-up


def test_what_is_kept_is_small_and_of_a_target() -> None:
    folders = [*CORPUS.iterdir(), *REGRESSIONS.iterdir()]
    assert {folder.name for folder in folders} <= set(NAMES)
    assert sum(file.stat().st_size for f in folders for file in f.iterdir()) <= KEPT_BYTES
