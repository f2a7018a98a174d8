"""The growth test of the soak: leaks grow; a warm-up or a fluctuation does not."""

import math
import os
import random
import sys
from pathlib import Path

import pytest

from bench.soak.cli import grown
from bench.soak.growth import Reading, growth, read
from memoryd.index.driver import sqlite

MINUTES = 20
EVERY_S = 2.0
COUNT = int(MINUTES * 60 / EVERY_S)
MIB = 60.0
NOISE_MIB = 0.1


def readings(extra_mib: list[float], noise_mib: float = NOISE_MIB) -> list[Reading]:
    """Return slightly fluctuating readings of a process that takes this much more than 60 MiB."""
    dice = random.Random(7)
    memory = [MIB + extra + dice.gauss(0, noise_mib) for extra in extra_mib]
    at_s = [number * EVERY_S for number in range(len(extra_mib))]
    return [
        Reading(s, mib + 27, mib, 30, 20, 40, s * 7 % 4, 9.0)
        for s, mib in zip(at_s, memory, strict=True)
    ]


def test_what_stays_is_flat() -> None:
    assert grown(readings([0.0] * COUNT)) == {}


@pytest.mark.parametrize("bytes_a_change", [64, 128, 1024])
def test_a_leak_of_a_few_bytes_a_change_grows(bytes_a_change: int) -> None:
    leaked = [50 * EVERY_S * number * bytes_a_change / 2**20 for number in range(COUNT)]
    assert "anonymous_mib" in grown(readings(leaked))


def test_a_leak_behind_a_warm_up_grows() -> None:
    warming = [10 * (1 - math.exp(-number / (COUNT / 12))) for number in range(COUNT)]
    leaking = [warm + 4 * number / COUNT for number, warm in enumerate(warming)]
    assert grown(readings(warming)) == {}
    assert "anonymous_mib" in grown(readings(leaking))


def test_a_cache_that_is_full_by_half_time_is_flat() -> None:
    assert grown(readings([min(5.0, 10 * number / COUNT) for number in range(COUNT)])) == {}


def test_peaks_are_no_growth() -> None:
    peaks = [8.0 if number % 97 == 0 else 0.0 for number in range(COUNT)]
    assert grown(readings(peaks)) == {}


def test_one_descriptor_more_in_a_while_grows() -> None:
    kept = [
        r._replace(descriptors=30 + number // 50)
        for number, r in enumerate(readings([0.0] * COUNT))
    ]
    assert list(grown(kept)) == ["descriptors"]


def test_a_line_goes_through_what_does_not_stray() -> None:
    line = growth([0, 1, 2, 3, 4], [10, 11, 12, 13, 99])
    assert (line.first, line.change) == (10, 4)


def test_what_is_lost_in_the_noise_is_no_growth() -> None:
    rising = [6 * number / COUNT for number in range(COUNT)]
    assert "anonymous_mib" in grown(readings(rising))
    assert grown(readings(rising, noise_mib=4.0)) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_free_pages_of_an_index_are_not_in_use(tmp_path: Path) -> None:
    database = tmp_path / "index.sqlite"
    connection = sqlite.connect(database, isolation_level=None)
    connection.execute("CREATE TABLE t (x)")
    empty = read(os.getpid(), database, 0.0, 0).index_mib
    connection.execute("INSERT INTO t VALUES (zeroblob(1048576))")
    full = read(os.getpid(), database, 0.0, 0).index_mib
    connection.execute("DELETE FROM t")
    assert read(os.getpid(), database, 0.0, 0).index_mib == empty
    assert full - empty >= 1.0
    assert database.stat().st_size > 2**20
    connection.close()
