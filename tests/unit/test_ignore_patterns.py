"""Patterns in the syntax of `.gitignore`, compared with git where it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.source.filenames import IGNORE_FILE
from memoryd.source.notes.ignore import (
    MAX_PATTERNS,
    IgnoreFiles,
    IgnorePatternError,
    Patterns,
    Rules,
)


def verdict(lines: list[str], path: str) -> bool | None:
    return Patterns(lines).verdict(path.removesuffix("/"), folder=path.endswith("/"))


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["a.md"], "a.md", True),
        (["a.md"], "sub/a.md", True),
        (["/a.md"], "sub/a.md", None),
        (["sub/a.md"], "x/sub/a.md", None),
        (["sub/"], "sub/", True),
        (["sub/"], "sub", None),
        (["sub"], "sub/a.md", None),
        (["*.md", "!a.md"], "a.md", False),
        (["!a.md", "*.md"], "a.md", True),
        (["*", "!*/", "!keep.md"], "x/", False),
        (["*", "!*/", "!keep.md"], "x/a.md", True),
        (["*", "!*/", "!keep.md"], "x/keep.md", False),
        (["**"], "x/y.md", True),
        (["x/**"], "x/", None),
        (["x/**"], "x/y/z.md", True),
        (["x/**/z.md"], "x/z.md", True),
        (["x/*.md"], "x/y/z.md", None),
        (["[ab].md"], "b.md", True),
        (["[!ab].md"], "b.md", None),
        ([r"\#a.md"], "#a.md", True),
        ([r"\!a.md"], "!a.md", True),
        (["a.md  "], "a.md", True),
        (["a.md\\ "], "a.md ", True),
        (["", "# a comment", "  "], "a.md", None),
        (["A.md"], "a.md", None),
        (["a?.md"], "a\n.md", True),
        (["a.md"], "two\nlines/a.md", True),
        (["a.md"], "a.md\n", None),
        (["日*.md"], "日本.md", True),
    ],
)
def test_verdicts(lines: list[str], path: str, expected: bool | None) -> None:
    assert verdict(lines, path) is expected


@pytest.mark.parametrize(
    "line",
    [
        "!",
        "\\",
        "a\\",
        "[z-a]",
        "[[:alpha:]]",
        "*a*a*a*",
        "*a*/*a*/*a*",
        "**/a/**/b/**/c/**",
        "**/*a*/**/*a*",
        "x" * 5_000,
    ],
)
def test_what_is_no_pattern_or_takes_too_long_is_refused(line: str) -> None:
    with pytest.raises(IgnorePatternError):
        Patterns([line])


@pytest.mark.parametrize("line", ["[z-a]", "[[:alpha:]]", "*a*a*a*", "x" * 5_000])
def test_an_ignore_file_can_not_be_used_if_a_line_may_have_hidden_something(line: str) -> None:
    with pytest.raises(IgnorePatternError, match=r"^line 2: it"):
        Patterns.of_file(["a.md", line, "b.md"])


def test_a_bad_line_that_could_only_show_paths_is_left_out() -> None:
    patterns, problem = Patterns.of_file(["a.md", "![z-a]", "b.md", "!"])
    assert problem == "line 2 is not used: it is not a valid pattern (and 1 more)"
    assert patterns.verdict("a.md", folder=False)
    assert patterns.verdict("b.md", folder=False)


def test_no_more_patterns_are_used_than_can_be_tried() -> None:
    lines = ["# first", *(f"{n}.md" for n in range(MAX_PATTERNS))]
    patterns, problem = Patterns.of_file(lines)
    assert problem is None
    assert patterns.verdict(f"{MAX_PATTERNS - 1}.md", folder=False)
    with pytest.raises(IgnorePatternError, match=r"^more than 1,000 patterns$"):
        Patterns.of_file([*lines, "last.md"])


def is_valid(line: str) -> bool:
    try:
        Patterns([line])
    except IgnorePatternError:
        return False
    return True


@given(st.lists(st.text(max_size=12), max_size=5), st.text(min_size=1, max_size=12))
def test_any_line_is_a_pattern_or_told(lines: list[str], path: str) -> None:
    try:
        patterns, _ = Patterns.of_file(lines)
    except IgnorePatternError:
        return
    assert patterns.verdict(path, folder=False) in (True, False, None)


# --- comparison with git

SEGMENTS = ["a", "b", "c.md", "a*", "*", "?", "**", "[ab]", "*.md", "a b", "[!a]", "*b*", r"\*"]
LINES = st.builds(
    lambda start, segments, end: start + "/".join(segments) + end,
    st.sampled_from(["", "", "/", "!", "!/"]),
    st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "  "]),
).filter(is_valid)
FOLDERS = ["", "a", "b", "a/b", "a/b/a", "a b", "ab/a"]
NAMES = ["a", "b.md", "c.md", "*", "ba"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for folder in FOLDERS:
        (root / folder).mkdir(exist_ok=True, parents=True)
    for folder in FOLDERS:
        for name in NAMES:
            if not (root / folder / name).is_dir():
                (root / folder / name).write_text("x")
    return root


def left_by_git(root: Path) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-o", "-z", f"--exclude-per-directory={IGNORE_FILE}"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listed.stdout.split("\0") if name and IGNORE_FILE not in name}


def left_by_us(root: Path) -> set[str]:
    files = IgnoreFiles()
    left: set[str] = set()

    def walk(folder: Path, above: Rules | None) -> None:
        rules = files.below(above, str(folder))
        for path in folder.iterdir():
            if path.name in (".git", IGNORE_FILE):
                continue
            hidden = rules is not None and rules.hide(str(path), folder=path.is_dir())
            by_itself = files.on_the_way(str(root), str(path), folder=path.is_dir())[1]
            assert by_itself == hidden, path
            if path.is_dir() and not hidden:
                walk(path, rules)
            elif not path.is_dir() and not hidden:
                left.add(str(path.relative_to(root)))

    walk(root, None)
    return left


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(FOLDERS), st.lists(LINES, max_size=4), max_size=3))
def test_ignore_files_hide_what_git_ignores(repository: Path, rules: dict[str, list[str]]) -> None:
    for folder, lines in rules.items():
        (repository / folder / IGNORE_FILE).write_text("\n".join(lines) + "\n")
    try:
        assert left_by_us(repository) == left_by_git(repository)
    finally:
        for folder in rules:
            (repository / folder / IGNORE_FILE).unlink()
