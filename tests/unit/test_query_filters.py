"""Filters: the files that a search includes."""

import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.messages import NO_FACTS, FileFacts, FileKey, FileStat
from memoryd.search.query import Filters, glob_pattern, period_of


def key(path: str, source: str = "memory") -> FileKey:
    return FileKey(source, path)


def modified(*local_time: int) -> FileStat:
    return FileStat(int(datetime.datetime(*local_time).timestamp()) * 1_000_000_000, 1, 1)  # type: ignore[arg-type]


OLD = modified(2020, 5, 17, 12)


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("MEMORY.md", "MEMORY.md", True),
        ("MEMORY.md", "memory.md", False),
        ("memory/*.md", "memory/a.md", True),
        ("memory/*.md", "memory/people/a.md", False),
        ("memory/**/*.md", "memory/a.md", True),
        ("memory/**/*.md", "memory/people/team/a.md", True),
        ("memory/**", "memory/people/a.md", True),
        ("**/team.md", "team.md", True),
        ("**/team.md", "memory/people/team.md", True),
        ("**/team.md", "memory/a-team.md", False),
        ("memory/?.md", "memory/a.md", True),
        ("memory/?.md", "memory/ab.md", False),
        ("memory/a?b.md", "memory/a/b.md", False),
        ("memory/[a].md", "memory/[a].md", True),
        ("memory/[a].md", "memory/a.md", False),
        ("memory/a.md", "memory/axmd", False),
        ("memory/*", "memory/two\nlines.md", True),
        ("people", "memory/people/a.md", False),
    ],
)
def test_globs(glob: str, path: str, matches: bool) -> None:
    assert Filters(path_glob=glob).accept(key(path), OLD) is matches


def matches_slowly(glob: str, path: str) -> bool:
    """Match by trying everything, according to docs/search.md."""
    if not glob:
        return not path
    if glob.startswith("**"):
        rest = glob.lstrip("*")
        return any(matches_slowly(rest, path[end:]) for end in range(len(path) + 1))
    if glob[0] == "*":
        ends = [end for end in range(len(path) + 1) if "/" not in path[:end]]
        return any(matches_slowly(glob[1:], path[end:]) for end in ends)
    if not path or (glob[0] != path[0] and (glob[0] != "?" or path[0] == "/")):
        return False
    if glob[0] == "/" and glob[1:].startswith("**/") and matches_slowly(glob[4:], path[1:]):
        return True
    return matches_slowly(glob[1:], path[1:])


@given(st.text("ab/*?", max_size=9), st.text("ab/", max_size=9))
@example("*a*b", "aab")
@example("**a*b", "a/ab")
@example("a/**/b", "a/b")
def test_a_glob_means_what_trying_everything_finds(glob: str, path: str) -> None:
    found = glob_pattern(glob).fullmatch(path) is not None
    whole = matches_slowly(glob, path)
    if glob.startswith("**/"):
        whole = whole or matches_slowly(glob[3:], path)
    assert found == whole


@pytest.mark.parametrize(
    "glob", ["memory/" + "*a" * 10 + "b", "**a" * 10 + "b", "**/" + "*a" * 9 + "b", "**a*b" * 5]
)
@pytest.mark.parametrize("path", ["memory/" + "a" * 245 + ".md", "memory/" + "a/" * 1500 + "x.md"])
def test_no_glob_takes_long(glob: str, path: str) -> None:
    """With backtracking, several stars would take exponential time."""
    assert not Filters(path_glob=glob).accept(key(path), OLD)


@given(st.text(max_size=30))
def test_any_glob_compiles(glob: str) -> None:
    glob_pattern(glob)


@given(st.text(st.characters(exclude_characters="*?", codec="utf-8"), max_size=30))
def test_a_glob_without_wildcards_is_the_path_itself(path: str) -> None:
    assert glob_pattern(path).fullmatch(path)
    assert not glob_pattern(path).fullmatch(path + "x")


def test_a_file_is_of_its_own_days() -> None:
    own = FileFacts(date="2026-03-09/2026-03-12")
    assert period_of(OLD, own) == (datetime.date(2026, 3, 9), datetime.date(2026, 3, 12))


def test_any_other_file_has_the_date_of_its_last_change() -> None:
    assert period_of(OLD, NO_FACTS) == (datetime.date(2020, 5, 17),) * 2


def test_a_day_ends_at_midnight_of_the_users_zone() -> None:
    late, early = modified(2026, 3, 9, 23, 59), modified(2026, 3, 10, 0, 1)
    assert period_of(late, NO_FACTS).first == datetime.date(2026, 3, 9)
    assert period_of(early, NO_FACTS).first == datetime.date(2026, 3, 10)


@pytest.mark.parametrize(
    ("since", "until", "passes"),
    [(9, 9, True), (12, 12, True), (10, 11, True), (1, 8, False), (13, 20, False)],
)
def test_a_file_of_several_days_passes_if_one_of_them_does(
    since: int, until: int, passes: bool
) -> None:
    filters = Filters(since=datetime.date(2026, 3, since), until=datetime.date(2026, 3, until))
    assert filters.accept(key("a.md"), OLD, FileFacts(date="2026-03-09/2026-03-12")) is passes


def test_both_ends_are_included() -> None:
    day = datetime.date(2026, 3, 9)
    note, own = key("memory/2026-03-09.md"), FileFacts(date="2026-03-09")
    one = datetime.timedelta(days=1)
    assert Filters(since=day, until=day).accept(note, OLD, own)
    assert not Filters(since=day + one).accept(note, OLD, own)
    assert not Filters(until=day - one).accept(note, OLD, own)


def test_all_conditions_must_hold() -> None:
    filters = Filters(sources=frozenset({"sessions"}), path_glob="memory/**")
    assert filters.accept(key("memory/a.md", "sessions"), OLD)
    assert not filters.accept(key("memory/a.md"), OLD)
    assert not filters.accept(key("MEMORY.md", "sessions"), OLD)


def test_no_sources_are_none_and_not_any() -> None:
    assert not Filters(sources=frozenset()).accept(key("memory/a.md"), OLD)


def test_only_without_conditions_it_is_empty() -> None:
    assert Filters().empty
    assert not Filters(sources=frozenset()).empty
    assert not Filters(since=datetime.date(2026, 3, 9)).empty
