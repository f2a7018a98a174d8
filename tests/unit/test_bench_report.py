"""The page of figures is written from one run, and `--check` notices a changed read path."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench import report
from bench.figures import Figure, Report, at_least, at_most
from bench.machine import ROOT, Run, git
from bench.report import READ_PATH, UntrueFiguresError, check, read, refuse_partial, render

RUN = Run("ab" * 20, True, "2026-11-29", False, "2 cores, a processor, 8.0 GiB", 0.5, "SQLite 3.53")
PAGE = """\
Figures.

<!-- run -->
<!-- /run -->

By size:

<!-- figures search: small | large -->
old
<!-- /figures -->

Others:

<!-- figures search -->
<!-- /figures -->
"""
FIGURES = [
    Figure("search", "whole search, small, p50", 2.834, "ms", at_most(3.0, checked=False)),
    Figure("search", "whole search, small, p99", 8.1, "ms", None),
    Figure("search", "whole search, large, p50", 11.0, "ms", at_most(15.0, checked=False)),
    Figure("search", "whole search, large, p99", 1234.5, "ms", None),
    Figure("search", "scan ÷ search, large", 20.0, "×", at_least(30.0)),
    Figure("search", "CPU, p99, small", 7.0, "ms", None),
    Figure("search", "descriptors", 33, "", at_most(64.0)),
]


def test_every_figure_has_its_row_and_the_prose_stays() -> None:
    page = render(PAGE, RUN, FIGURES)
    assert (
        page
        == f"""\
Figures.

<!-- run -->
| run | of all tables between markers |
| --- | --- |
| commit | `{"ab" * 20}` |
| date | 2026-11-29 |
| machine | 2 cores, a processor, 8.0 GiB; load 0.5 at the start |
| software | SQLite 3.53 |
<!-- /run -->

By size:

<!-- figures search: small | large -->
| figure | small | large | target |
| --- | --- | --- | --- |
| whole search, p50 / p99 | 2.83 / 8.1 ms | 11 / 1,234 ms | ≤ 3 (orientation); ≤ 15 (orientation) |
| scan ÷ search | | 20 × (missed) | ≥ 30 |
| CPU, p99 | 7 ms | | |
<!-- /figures -->

Others:

<!-- figures search -->
| figure | value | target |
| --- | --- | --- |
| descriptors | 33 | ≤ 64 |
<!-- /figures -->
"""
    )
    assert render(page, RUN, FIGURES) == page


def test_the_lines_of_a_run_are_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    print(json.dumps(RUN.line()))
    reported = Report("search")
    reported.add("scan ÷ search, large", 20.0, "×", at_least(30.0), samples=7)
    reported.add_times("whole search", [0.002, 0.004], at_most(3.0, checked=False))
    assert read(capsys.readouterr().out) == (RUN, reported.figures)


@pytest.mark.parametrize("text", ["", "no json\n", '{"bench": "search"}\n', "[1]\n"])
def test_other_text_is_no_run(text: str) -> None:
    with pytest.raises(UntrueFiguresError, match="the results"):
        read(text)


def test_two_runs_are_not_mixed() -> None:
    with pytest.raises(UntrueFiguresError, match="have 2 runs"):
        read(f"{json.dumps(RUN.line())}\n" * 2)


@pytest.mark.parametrize(
    ("change", "figures", "message"),
    [
        ({"quick": True}, FIGURES, "a quick run is not written"),
        ({"clean": False}, FIGURES, "not that of commit abababababab"),
        ({}, FIGURES[:-1], "no figures for search; run all"),
        ({}, [*FIGURES, Figure("wire", "ping", 1, "ms", None)], "no table has 'ping'"),
        ({}, FIGURES[-1:], r"no figures for search: small \| large; run all"),
    ],
)
def test_a_partial_run_is_refused(
    change: dict[str, bool], figures: list[Figure], message: str
) -> None:
    refuse_partial(PAGE, RUN, FIGURES)
    with pytest.raises(UntrueFiguresError, match=message):
        refuse_partial(PAGE, Run(**RUN.line()["run"] | change), figures)  # type: ignore[operator]


def test_a_quick_run_is_marked() -> None:
    quick = Run(**RUN.line()["run"] | {"quick": True, "clean": False})  # type: ignore[operator]
    page = render(PAGE, quick, FIGURES[-1:])
    assert "**Small sizes, for a first impression only.**" in page
    assert f"`{RUN.commit}` with changes that are not committed" in page
    assert "<!-- figures search: small | large -->\nNot measured in this run.\n" in page


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., str]:
    """A repository with one file of the read path; a function that commits a text into a file."""

    def commit(name: str, text: str) -> str:
        file = tmp_path / "origin" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        root = tmp_path / "origin"
        git(root, "add", "--all")
        who = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=no")
        git(root, *who, "commit", "--quiet", "--message", name)
        return git(root, "rev-parse", "HEAD").strip()

    (tmp_path / "origin").mkdir()
    git(tmp_path / "origin", "init", "--quiet")
    return commit


def page_of(commit: str) -> str:
    return render(PAGE, Run(**RUN.line()["run"] | {"commit": commit}), FIGURES)  # type: ignore[operator]


def test_a_changed_read_path_is_noticed(repository: Callable[..., str], tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    page = page_of(repository("memoryd/search/engine.py", "first"))
    repository("memoryd/chunk/parser.py", "not part of a search")
    check(origin, page)
    (origin / "memoryd/search/engine.py").write_text("not yet committed")
    with pytest.raises(UntrueFiguresError, match=r"changed since .*memoryd/search/engine\.py"):
        check(origin, page)
    second = repository("memoryd/search/engine.py", "second")
    with pytest.raises(UntrueFiguresError, match="run `python -m bench report`"):
        check(origin, page)
    check(origin, page_of(second))


def test_a_clone_without_the_commit_says_so(repository: Callable[..., str], tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    measured = repository("memoryd/search/engine.py", "first")
    repository("README.md", "more")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{origin}", str(clone))
    with pytest.raises(UntrueFiguresError, match=f"git fetch --depth 1 origin {measured}"):
        check(clone, page_of(measured))
    git(clone, "fetch", "--quiet", "--depth", "1", "origin", measured)
    check(clone, page_of(measured))


def test_a_page_without_a_run_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(UntrueFiguresError, match="names no commit"):
        check(tmp_path, PAGE)


def test_the_command_refuses_a_quick_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / report.PAGE
    page.parent.mkdir()
    page.write_text(PAGE)
    monkeypatch.setattr(report, "ROOT", tmp_path)
    results = tmp_path / "results.jsonl"
    quick = Run(**RUN.line()["run"] | {"quick": True})  # type: ignore[operator]
    results.write_text(json.dumps(quick.line()))
    assert bench.main(["report", str(results)]) == 1
    assert page.read_text() == PAGE
    assert "docs/performance.md: a quick run is not written" in capsys.readouterr().err
    assert bench.main(["report", str(results), "--force"]) == 0
    assert "Small sizes" in page.read_text()


def test_the_read_path_exists() -> None:
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--", *READ_PATH], capture_output=True, text=True
    ).stdout.splitlines()
    for path in READ_PATH:
        assert (ROOT / path).exists(), path
        assert not tracked or any(name.startswith(path) for name in tracked), path


def test_the_page_has_a_table_for_each_benchmark() -> None:
    page = (ROOT / report.PAGE).read_text(encoding="utf-8")
    assert all(f"<!-- figures {name}" in page for name in bench.NAMES)
