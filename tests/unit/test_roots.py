"""Extra paths with patterns: the files that they match, and the folders that the walk skips."""

import os
from pathlib import Path

import pytest
from descriptors import path_of
from hypothesis import given
from hypothesis import strategies as st

from memoryd.config.settings import ExtraPath
from memoryd.config.validate import ConfigError
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.ignore import IgnorePatternError, Patterns
from memoryd.source.notes.roots import Selection
from memoryd.source.notes.walk import Scan


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "work"
    root.mkdir()
    return root


def scan(workspace: Path, *extra_paths: str | ExtraPath) -> Scan:
    return Discovery(workspace, extra_paths).scan()


def found(scan: Scan) -> set[str]:
    return {key.path for key in scan.files}


def tree(workspace: Path, *names: str) -> None:
    for name in names:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def listed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that collects every folder whose entries are read."""
    folders: list[Path] = []
    real = os.scandir

    def scandir(folder: int) -> object:
        folders.append(path_of(folder))
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    return folders


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.md", {"a.md", "B.MD", "sub/c.md", "sub/deep/d.md"}),
        ("*.md", {"a.md", "B.MD", "sub/c.md", "sub/deep/d.md"}),
        ("/*.md", {"a.md", "B.MD"}),
        ("/*.MD", {"a.md", "B.MD"}),
        ("sub", {"sub/c.md", "sub/deep/d.md"}),
        ("sub/", {"sub/c.md", "sub/deep/d.md"}),
        ("sub/*", {"sub/c.md", "sub/deep/d.md"}),
        ("sub/*.md", {"sub/c.md"}),
        ("sub/**/d.md", {"sub/deep/d.md"}),
        ("*/deep/*", {"sub/deep/d.md"}),
        ("[a-c].md", {"a.md", "sub/c.md"}),
        ("*", {"a.md", "B.MD", "sub/c.md", "sub/deep/d.md"}),
        ("!a.md", set()),
        ("x.md", set()),
    ],
)
def test_a_pattern_chooses_among_the_markdown_files(
    workspace: Path, pattern: str, expected: set[str]
) -> None:
    tree(workspace, "d/a.md", "d/B.MD", "d/n.txt", "d/sub/c.md", "d/sub/deep/d.md", "d/.g/h.md")
    extra = ExtraPath(path="d", pattern=pattern)
    discovery = Discovery(workspace, (extra,))
    result = discovery.scan()
    assert found(result) == {f"d/{name}" for name in expected}
    shown = str(workspace / "d") + ("" if pattern == "**/*.md" else f"/{pattern.lstrip('/')}")
    assert result.skipped == ({} if expected else {shown: "matches no Markdown file"})
    assert discovery.extra_paths == [shown]
    for path in (workspace / "d").rglob("*"):
        looked = discovery.stat(path)
        assert (looked is not None) == (path in {file for file, _ in result.files.values()}), path


def test_what_is_excluded_is_no_memory_and_not_walked(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(workspace, "d/a.md", "d/b.md", "d/drafts/c.md", "d/sub/drafts/keep.md", "d/sub/x.MD")
    exclude = ("b.md", "drafts/", "!/sub/drafts/", "x*.md")
    folders = listed(monkeypatch)
    discovery = Discovery(workspace, (ExtraPath(path="d", exclude=exclude),))
    result = discovery.scan()
    assert found(result) == {"d/a.md", "d/sub/drafts/keep.md"}
    assert workspace / "d/drafts" not in folders
    assert workspace / "d/drafts" not in result.folders
    assert discovery.stat(workspace / "d/drafts/c.md") is None
    assert discovery.stat(workspace / "d/sub/x.MD") is None
    assert not discovery.concerns(workspace / "d/drafts")
    assert discovery.concerns(workspace / "d/sub/drafts")


def test_a_glob_is_a_folder_and_a_pattern(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(
        workspace,
        *("w/one/notes/a.md", "w/one/notes/deep/b.md", "w/two/notes/c.md"),
        *("w/one/code/big/x.md", "w/one/x.md", "w/x.md", "w/two/notes/d.txt"),
    )
    folders = listed(monkeypatch)
    discovery = Discovery(workspace, ("w/*/notes/**/*.md",))
    result = discovery.scan()
    assert found(result) == {"w/one/notes/a.md", "w/one/notes/deep/b.md", "w/two/notes/c.md"}
    assert workspace / "w/one/code" not in folders, "no file there can match"
    assert workspace / "w/one" in result.folders, "watched for new notes"
    assert discovery.concerns(workspace / "w/three")
    assert discovery.concerns(workspace / "w/three/notes")
    assert not discovery.concerns(workspace / "w/three/code")
    assert discovery.extra_paths == [str(workspace / "w/*/notes/**/*.md")]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("d/*.md", {"d/a.md"}),
        ("d/**", {"d/a.md", "d/sub/b.md"}),
        ("d/*", {"d/a.md", "d/sub/b.md"}),
        ("*/sub", {"d/sub/b.md"}),
        ("d/[s]ub/?.md", {"d/sub/b.md"}),
        ("d/.hidden/*.md", {"d/.hidden/c.md"}),
        ("d/*/c.md", set()),
    ],
)
def test_globs_mean_what_they_mean_in_a_shell(
    workspace: Path, extra: str, expected: set[str]
) -> None:
    tree(workspace, "d/a.md", "d/sub/b.md", "d/.hidden/c.md")
    assert found(scan(workspace, extra)) == expected


def test_a_hidden_folder_that_a_pattern_names_is_walked(workspace: Path) -> None:
    tree(workspace, "d/one/.notes/a.md", "d/one/.git/b.md", "d/one/.notes/.trash/c.md")
    assert found(scan(workspace, "d/*/.notes/**/*.md")) == {"d/one/.notes/a.md"}


def test_a_path_that_is_there_is_no_glob(workspace: Path) -> None:
    tree(workspace, "notes [old]/a.md", "notes o/b.md")
    assert found(scan(workspace, "notes [old]")) == {"notes [old]/a.md"}


def test_overlapping_patterns_count_once_each(workspace: Path) -> None:
    tree(workspace, "d/a.md", "d/sub/b.md", "d/sub/c.md")
    result = scan(
        workspace,
        ExtraPath(path="d", pattern="a.md"),
        ExtraPath(path="d", exclude=("c.md",)),
        ExtraPath(path="d/sub", exclude=("/b.md",)),
        ExtraPath(path="d/sub", pattern="b.md"),
    )
    assert found(result) == {"d/a.md", "d/sub/b.md", "d/sub/c.md"}
    assert result.skipped == {}, "each pattern matches a file"


def test_a_file_with_a_pattern_is_the_file(workspace: Path) -> None:
    tree(workspace, "d/a.md")
    assert found(scan(workspace, ExtraPath(path="d/a.md", pattern="x"))) == {"d/a.md"}


@pytest.mark.parametrize("pattern", ["!", "[z-a]", "*a*a*a*a*", "**/a/**/b/**/c/**", "x" * 5_000])
def test_a_pattern_that_is_none_is_a_mistake_in_the_configuration(
    workspace: Path, pattern: str
) -> None:
    with pytest.raises(ConfigError, match="extra_paths: "):
        Discovery(workspace, (ExtraPath(path="d", pattern=pattern),))
    with pytest.raises(ConfigError, match="extra_paths: "):
        Discovery(workspace, (ExtraPath(path="d", exclude=(pattern,)),))


def _is_valid(pattern: str) -> bool:
    try:
        Patterns([pattern])
    except IgnorePatternError:
        return False
    return True


SEGMENTS = st.sampled_from(["a", "b", "*", "**", "a*", "?", "[ab]", "*.md", "a.md", "[!a]*"])
PATTERNS = st.builds(
    lambda start, segments, end: start + "/".join(segments) + end,
    st.sampled_from(["", "/"]),
    st.lists(SEGMENTS, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
).filter(_is_valid)
NAMES = [f"{a}{b}{c}.md" for a in ("", "a/", "b/") for b in ("", "a.md/", "b/") for c in "ab"]


@given(PATTERNS)
def test_folders_that_are_left_out_hold_nothing_that_matches(pattern: str) -> None:
    selection = Selection(pattern, ())
    everywhere = Selection(pattern, ())
    everywhere._leading = []
    for name in NAMES:
        parts = tuple(name.split("/"))
        assert selects(selection, parts) == selects(everywhere, parts), name


def selects(selection: Selection, parts: tuple[str, ...]) -> bool:
    taken: bool | None = False
    for depth in range(1, len(parts)):
        taken = selection.enters(parts[:depth], taken=bool(taken))
        if taken is None:
            return False
    return selection.takes("/".join(parts), taken=bool(taken))
