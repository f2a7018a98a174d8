"""The fuzzer itself in the quick tests; a minute for each target in the long ones."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fuzz.run import Run, fuzz, missing
from fuzz.target import NAMES, load

SELF_TEST_S, LONG_S = 3, 60

needs_the_fuzzer = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.mark.long
@needs_the_fuzzer
def test_nothing_is_found_in_a_while(tmp_path: Path) -> None:
    """Fuzz all targets in parallel; fail with the complete findings, as the files may be lost."""
    for name in NAMES:
        load(name)  # not in the pool: its objects belong to their thread
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs: list[Run] = list(pool.map(lambda name: fuzz(name, LONG_S, tmp_path / name), NAMES))
    assert all(run.executions for run in runs if run.passed)
    if broken := [run.report() for run in runs if not run.passed]:
        pytest.fail("\n".join(broken), pytrace=False)


@needs_the_fuzzer
def test_what_breaks_a_target_is_found_and_shown(tmp_path: Path) -> None:
    run = fuzz("_self_test", SELF_TEST_S, tmp_path)
    assert not run.passed
    assert run.broken_by is not None
    assert b"open sesame" in run.broken_by.read_bytes()
    shown = run.report()
    assert f"make fuzz TARGET=_self_test INPUT={run.broken_by}" in shown
    assert "RuntimeError: it is open" in shown
