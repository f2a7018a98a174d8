"""The walk for transcripts finds the same files as `glob`, and follows no links."""

import glob
import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.fs.safe_open import Descent
from memoryd.source.transcripts.locations import TranscriptLocations
from memoryd.source.transcripts.walk import Glob

FILES = [
    *("a.jsonl", "b.json", ".hidden.jsonl", "[x].jsonl", "x.jsonl"),
    *("a/a.jsonl", "a/b/a.jsonl", "a/b/c/b.jsonl", "a/.h/a.jsonl", ".h/a/a.jsonl"),
    *("ab/sessions/a.jsonl", "ab/sessions/rollout-1.jsonl", "b/sessions/2026/11/rollout-2.jsonl"),
]
PARTS = ["*", "**", "a", "a*", "?", "[ab]", "[!a]", "*.jsonl", "*.json*", "sessions", ".*", "[[]x*"]
PARTS += ["rollout-*.jsonl", "a.jsonl", "a**", "***"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("tree")
    for name in FILES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).touch()
    return top


def found(top: Path, pattern: str) -> list[str]:
    with closing(Descent(top)) as descent:
        return Glob(pattern).find(descent, str(top))


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/".join))
def test_it_finds_what_glob_finds(tree: Path, pattern: str) -> None:
    names = glob.glob(pattern, root_dir=tree, recursive=True)
    expected = sorted({name for name in names if (tree / name).is_file()})
    assert found(tree, pattern) == expected


def test_links_are_not_followed_whatever_they_lead_to(tmp_path: Path) -> None:
    """Two links to their own folder keep `glob` busy for ever: 2^n ways of n steps."""
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    for folder in (logs / "real", outside):
        folder.mkdir(parents=True)
        (folder / "a.jsonl").touch()
    (logs / "one").symlink_to(logs)
    (logs / "two").symlink_to(".")
    (logs / "away").symlink_to(outside)
    (logs / "file.jsonl").symlink_to(outside / "a.jsonl")
    assert found(logs, "**/*.jsonl") == ["real/a.jsonl"]
    assert found(logs, "*/a.jsonl") == ["real/a.jsonl"]
    places = TranscriptLocations([str(logs)], ["plain"], agent="main", environ={})
    assert [path for path, _ in places.find().files.values()] == [logs / "real/a.jsonl"]


def test_a_folder_is_read_once_however_many_ways_match(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    real = os.scandir

    def scandir(folder: int) -> object:
        reads.append(os.fstat(folder).st_ino)
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert len(found(tree, "**/**/**/*.jsonl")) == 9
    assert len(reads) == len(set(reads))


def test_a_folder_that_can_not_be_read_is_left_out(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, real = (tree / "a/b").stat().st_ino, os.scandir

    def scandir(folder: int) -> object:
        if os.fstat(folder).st_ino == closed:
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert found(tree, "a/**/*.jsonl") == ["a/a.jsonl"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.jsonl", "c/[x]/a.jsonl", "c/.h/.i/a.jsonl"]),
        ("c/*", ["c/[x]/a.jsonl", "c/.h/.i/a.jsonl"]),
        ("c/[x]", ["c/[x]/a.jsonl"]),
        ("*/[x]/*.jsonl", ["c/[x]/a.jsonl"]),
        ("*.jsonl", ["a.jsonl"]),
        ("**/a.jsonl", ["a.jsonl", "c/[x]/a.jsonl", "c/.h/.i/a.jsonl"]),
        ("c/*/*/a.jsonl", ["c/.h/.i/a.jsonl"]),
        ("c/.git/*", ["c/.git/a.jsonl"]),
    ],
)
def test_folders_that_match_are_taken_whole(
    tmp_path: Path, pattern: str, expected: list[str]
) -> None:
    names = ("a.jsonl", ".b.jsonl", "c/[x]/a.jsonl", "c/.h/.i/a.jsonl", "c/.git/a.jsonl")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with closing(Descent(tmp_path)) as descent:
        assert Glob(pattern, whole=True).find(descent, str(tmp_path)) == sorted(expected)
