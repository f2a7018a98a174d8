"""A daemon under the load of `bench/soak`: no growth, no losses, nothing that comes back."""

import asyncio
import sys

import pytest

from bench.daemon import place
from bench.soak.cli import grown, run
from bench.soak.mixed import soak_mixed
from bench.soak.run import Outcome

SHORT_S = 20.0
QUICK_S = 10.0
TWO_HOURS_S = 7200.0
SPEED = 10.0
BOUNDS = {"descriptors": 80, "threads": 40, "tasks": 150, "wal_mib": 64, "resident_mib": 150}
"""More than twice the observed values; the write-ahead log's limit is its configured size."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def soaked(seconds: float, speed: float = 1.0) -> Outcome:
    with place() as where:
        outcome = asyncio.run(run(where, seconds, speed))
    assert (outcome.lost, outcome.risen, outcome.errors, outcome.waiting) == ([], [], [], 0)
    assert outcome.findings == []
    assert outcome.served.keys() >= {0, 200, 429, 500, 503}
    return outcome


@pytest.mark.minute
def test_some_seconds_under_load_lose_nothing_and_stay_within_bounds() -> None:
    readings = soaked(QUICK_S).readings
    # This can't distinguish growth from warming up; the long test can.
    highest = {name: max(getattr(reading, name) for reading in readings) for name in BOUNDS}
    assert {name: value for name, value in highest.items() if value > BOUNDS[name]} == {}


@pytest.mark.long
def test_two_hours_of_timers_in_twelve_minutes_lose_nothing_and_nothing_grows() -> None:
    outcome = soaked(TWO_HOURS_S / SPEED, SPEED)
    assert grown(outcome.readings) == {}


@pytest.mark.long
def test_everything_mixed_for_some_seconds_loses_nothing_and_the_doctor_is_content() -> None:
    every_s = {
        "check": 3.0,
        "forget": 2.0,
        "export or import": 5.0,
        "restart": 7.0,
        "rebuild": 9.0,
        "doctor": 60.0,
    }
    with place() as where:
        outcome = asyncio.run(soak_mixed(where, SHORT_S, every_s, changes_per_s=30))
    assert (outcome.lost, outcome.risen, outcome.errors, outcome.waiting) == ([], [], [], 0)
    assert outcome.findings == []
    assert {"restart", "rebuild", "forget", "export or import"} <= outcome.events.keys()
