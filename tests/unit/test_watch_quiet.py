"""The quiet period of the watcher, with an injected clock."""

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memoryd.source.notes.watch import CEILING_PERIODS, QuietPeriod

A, B = Path("/w/memory/a.md"), Path("/w/memory/b.md")


def test_a_path_is_taken_once_it_has_been_still() -> None:
    quiet = QuietPeriod(1.5)
    quiet.note(A, 10.0)
    assert quiet.take(11.4) == frozenset()
    assert quiet.take(11.5) == {A}
    assert quiet.take(99.0) == frozenset()


def test_every_change_starts_the_period_again() -> None:
    quiet = QuietPeriod(1.5)
    quiet.note(A, 10.0)
    quiet.note(A, 11.0)
    assert quiet.take(12.0) == frozenset()
    assert quiet.take(12.5) == {A}


def test_a_path_that_never_falls_still_is_taken_at_the_ceiling() -> None:
    quiet = QuietPeriod(1.0)
    ceiling = float(CEILING_PERIODS)
    taken_at = None
    for tenth in range(200):
        quiet.note(A, tenth / 10)
        if quiet.take(tenth / 10):
            taken_at = tenth / 10
            break
    assert taken_at == ceiling


def test_paths_wait_for_themselves_only() -> None:
    quiet = QuietPeriod(1.0)
    quiet.note(A, 0.0)
    quiet.note(B, 0.5)
    assert quiet.next_due() == 1.0
    assert quiet.take(1.0) == {A}
    assert quiet.next_due() == 1.5
    assert len(quiet) == 1


def test_without_a_period_a_path_is_due_at_once() -> None:
    quiet = QuietPeriod(0.0)
    quiet.note(A, 5.0)
    assert quiet.take(5.0) == {A}


def test_all_can_be_taken_at_once() -> None:
    quiet = QuietPeriod(60.0)
    quiet.note(A, 0.0)
    quiet.note(B, 0.0)
    assert quiet.take(math.inf) == {A, B}
    assert quiet.next_due() is None
    assert not quiet


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.floats(0, 5)), max_size=30))
def test_nothing_is_taken_early_late_or_twice(changes: list[tuple[Path, float]]) -> None:
    quiet = QuietPeriod(1.0)
    now, first, last = 0.0, dict[Path, float](), dict[Path, float]()
    for path, passed in changes:
        now += passed
        for taken in quiet.take(now):
            assert now >= min(last[taken] + 1.0, first[taken] + CEILING_PERIODS)
            del first[taken], last[taken]
        assert all(now < min(last[p] + 1.0, first[p] + CEILING_PERIODS) for p in first)
        quiet.note(path, now)
        first.setdefault(path, now)
        last[path] = now
    assert len(quiet) == len(first)
