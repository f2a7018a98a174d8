"""Large files that change continuously are read rarely, small files at every change."""

from pathlib import Path

from memoryd.messages import FileChanged, FileKey
from memoryd.source.notes.reconcile import FREE_BYTES, READ_BYTES_PER_S, Pace

MIB = 1024 * 1024


def change(name: str, size: int) -> FileChanged:
    return FileChanged(FileKey("memory", name), Path(name), size)


def test_small_files_are_taken_each_time() -> None:
    pace = Pace()
    assert all(pace.take(change("a.md", FREE_BYTES - 1), now=0.0) for _ in range(100))
    assert (len(pace), pace.next_due()) == (0, None)


def test_a_large_one_rests_for_as_long_as_its_size_says() -> None:
    pace, size = Pace(), 100 * MIB
    rest_s = size / READ_BYTES_PER_S
    assert pace.take(change("a.md", size), now=10.0)
    assert not pace.take(change("a.md", size + 1), now=11.0)
    assert not pace.take(change("a.md", size + 2), now=12.0)
    assert pace.take(change("b.md", size), now=12.0), "another file is independent"
    assert (len(pace), pace.next_due()) == (1, 10.0 + rest_s)
    assert pace.due(9.0 + rest_s) == []
    (due,) = pace.due(10.0 + rest_s)
    assert due.size == size + 2, "the last change is read"
    assert (len(pace), pace.next_due()) == (0, None)


def test_a_file_that_never_rests_is_read_a_few_times_whatever_the_number_of_events() -> None:
    pace, taken, size = Pace(), 0, 0
    for second in range(600):
        size += MIB // 2
        taken += pace.take(change("a.md", size), now=float(second))
        taken += sum(pace.take(due, now=float(second)) for due in pace.due(float(second)))
    assert 2 <= taken <= 15


def test_who_waits_for_it_gets_it_at_once() -> None:
    pace = Pace()
    assert pace.take(change("a.md", 10 * MIB), now=0.0)
    assert not pace.take(change("a.md", 10 * MIB), now=1.0)
    assert pace.take(change("a.md", 10 * MIB), now=2.0, at_once=True)
    assert len(pace) == 0


def test_what_is_gone_waits_no_more_and_nothing_is_kept_of_it() -> None:
    pace = Pace()
    assert pace.take(change("a.md", 10 * MIB), now=0.0)
    assert not pace.take(change("a.md", 10 * MIB), now=1.0)
    pace.forget(FileKey("memory", "a.md"))
    assert (len(pace), pace.due(100.0)) == (0, [])
    assert pace.take(change("a.md", 10 * MIB), now=2.0)
