"""Files left behind by unfinished rebuilds: all naming schemes, and no foreign file."""

import os
from pathlib import Path

import pytest

from memoryd.index.rebuild.leftovers import unfinished


@pytest.fixture(params=["main.sqlite", "[ab]*.sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / str(request.param)
    made.touch()
    return made


def beside(path: Path, suffix: str) -> Path:
    made = path.with_name(path.name + suffix)
    made.touch()
    return made


def test_every_naming_is_found_by_the_file_or_by_what_sqlite_keeps_beside_it(path: Path) -> None:
    ours = [beside(path, suffix) for suffix in (".rebuild-1", ".tmp-x", ".rebuild-2-wal")]
    assert unfinished(path) == sorted([*ours[:2], path.with_name(f"{path.name}.rebuild-2")])


def test_what_has_a_lock_is_another_agents_and_so_is_what_lies_beside_it(path: Path) -> None:
    for suffix in (".rebuild-7", ".rebuild-7.lock", ".rebuild-7-wal", ".rebuild-7.rebuild-8"):
        beside(path, suffix)
    beside(path, ".rebuild-9.lock")
    assert unfinished(path) == []


def test_what_is_no_file_is_left(path: Path) -> None:
    os.mkfifo(path.with_name(f"{path.name}.rebuild-1"))
    path.with_name(f"{path.name}.rebuild-2").mkdir()
    path.with_name(f"{path.name}.tmp-3").symlink_to(path)
    assert unfinished(path) == []


def test_the_leftovers_of_an_index_whose_name_would_match_are_left(tmp_path: Path) -> None:
    beside(tmp_path / "a.sqlite", ".rebuild-1")
    pattern = tmp_path / "[ab].sqlite"
    pattern.touch()
    assert unfinished(pattern) == []
