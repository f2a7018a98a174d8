"""`python -m bench report [RESULTS]`: write the tables of docs/performance.md from one run.

Without RESULTS, runs all benchmarks once; with it, reads the JSON lines that `python -m bench`
printed. Only what stands between markers changes; the text around them is written by hand:

    <!-- run -->                            commit, date, machine and versions
    <!-- figures BENCH -->                  all figures of a benchmark that no other table has
    <!-- figures BENCH: PART | PART -->     figures with one of these parts in the name, by column

The page is refused figures of a quick run, of a tree with changes, or of some benchmarks only,
unless `--force` is given; the page then says so. `--check` fails if the read path has changed since
the commit that the page names.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.figures import Figure, Target, shown
from bench.machine import ROOT, GitError, Run, git, this_run

PAGE = "docs/performance.md"
READ_PATH = (
    "memoryd/search",
    "memoryd/index",
    "memoryd/text",
    "memoryd/server",
    "memoryd/api/handlers.py",
    "memoryd/api/search.py",
    "memoryd/embed/local.py",
    "memoryd/embed/local_process.py",
    "memoryd/embed/model_cache.py",
    "memoryd/embed/query_embedder.py",
    "memoryd/embed/scale.py",
    "memoryd/embed/windows.py",
    "memoryd/embed/worker.py",
    "client/memoryd_client/client.py",
    "client/memoryd_client/schema/search.py",
    "client/memoryd_client/transport",
    "client/memoryd_client/wire",
    "requirements/runtime.txt",
)
"""Files and folders that a search runs through: a change of one may make the figures untrue."""
_RUN = re.compile(r"(<!-- run -->\n).*?(<!-- /run -->)", re.S)
_FIGURES = re.compile(r"(<!-- figures (\w+)(?:: ([^\n]+?))? -->\n).*?(<!-- /figures -->)", re.S)
_COMMIT = re.compile(r"^\| commit \| `([0-9a-f]{40})`", re.M)
_P50, _P99 = ", p50", ", p99"


class UntrueFiguresError(Exception):
    """The page must not have these figures, or no longer; the text says why and what to do."""


def main(argv: list[str], measure: Callable[..., list[Figure]]) -> int:
    """Write or check the page. `measure(quick=…)` runs all benchmarks. Returns the exit code."""
    arguments = _arguments(argv)
    page = ROOT / PAGE
    try:
        if arguments.check:
            check(ROOT, page.read_text(encoding="utf-8"))
            return 0
        if arguments.results is None:
            run = this_run(quick=arguments.quick)
            print(json.dumps(run.line(), ensure_ascii=False), flush=True)
            figures = measure(quick=arguments.quick)
        else:
            run, figures = read(arguments.results.read_text(encoding="utf-8"))
        text = page.read_text(encoding="utf-8")
        if not arguments.force:
            refuse_partial(text, run, figures)
        page.write_text(render(text, run, figures), encoding="utf-8")
        return 0
    except (UntrueFiguresError, GitError, OSError) as error:
        print(f"{PAGE}: {error}", file=sys.stderr)
        return 1


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="?", type=Path, metavar="RESULTS", help="JSON lines")
    parser.add_argument("--quick", action="store_true", help="small sizes; needs --force to write")
    parser.add_argument("--force", action="store_true", help="write a quick or partial run too")
    parser.add_argument("--check", action="store_true", help="only check that the figures are true")
    return parser.parse_args(argv)


def read(results: str) -> tuple[Run, list[Figure]]:
    """Return the run and its figures. Raises `UntrueFiguresError` if these are not of one run."""
    runs: list[Run] = []
    figures: list[Figure] = []
    try:
        for line in map(json.loads, results.splitlines()):
            if "run" in line:
                runs.append(Run(**line["run"]))
            else:
                figures.append(_figure(line))
    except (ValueError, TypeError, KeyError) as error:
        raise UntrueFiguresError(
            f"the results are not JSON lines of the benchmarks ({error}); give the standard output"
            " of `python -m bench`"
        ) from error
    if len(runs) != 1:
        raise UntrueFiguresError(
            f"the results have {len(runs)} runs; give the output of one `python -m bench`"
        )
    return runs[0], figures


def _figure(line: dict[str, object]) -> Figure:
    target = None
    if "target" in line:
        sense, _, bound = str(line["target"]).partition(" ")
        if sense not in ("≤", "≥"):
            raise ValueError(f"no target: {line['target']}")
        target = Target("≤" if sense == "≤" else "≥", float(bound), bool(line["checked"]))
    value = float(str(line["value"]))
    return Figure(str(line["bench"]), str(line["figure"]), value, str(line["unit"]), target)


def refuse_partial(page: str, run: Run, figures: Sequence[Figure]) -> None:
    """Raise `UntrueFiguresError` unless the run is whole and can be repeated from its commit."""
    if run.quick:
        raise UntrueFiguresError("a quick run is not written; run without --quick, or use --force")
    if not run.clean:
        raise UntrueFiguresError(
            f"the tree was not that of commit {run.commit[:12]}; commit and measure again, or use"
            " --force"
        )
    tables = _tables(page, figures)
    if lost := [each.name for each in figures if not any(each in rows for rows in tables.values())]:
        raise UntrueFiguresError(f"no table has {lost[0]!r}; add `<!-- figures … -->` for it")
    empty = [title for title, rows in tables.items() if not rows]
    if empty:
        raise UntrueFiguresError(
            f"the run has no figures for {', '.join(empty)}; run all benchmarks, with"
            " MEMORYD_BENCH_DATA for LoCoMo, or use --force"
        )


def render(page: str, run: Run, figures: Sequence[Figure]) -> str:
    """Return the page with the generated parts of this run."""
    tables = _tables(page, figures)
    changed = "" if run.clean else " with changes that are not committed"
    quick = ["**Small sizes, for a first impression only.**\n"] if run.quick else []
    rows = [
        ("commit", f"`{run.commit}`{changed}"),
        ("date", run.date),
        ("machine", f"{run.machine}; load {run.load:g} at the start"),
        ("software", run.software),
    ]
    about = "\n".join([*quick, *_lines(("run", "of all tables between markers"), rows)])
    page = _RUN.sub(lambda match: f"{match[1]}{about}\n{match[2]}", page)
    return _FIGURES.sub(
        lambda match: f"{match[1]}{_table(match[3], tables[_title(match)])}\n{match[4]}", page
    )


def _title(match: re.Match[str]) -> str:
    return match[2] if match[3] is None else f"{match[2]}: {match[3]}"


def _tables(page: str, figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """Return the figures of each table of the page, by the title in its marker."""
    markers = list(_FIGURES.finditer(page))
    parts: dict[str, set[str]] = {}
    for match in markers:
        parts.setdefault(match[2], set()).update(_columns(match[3]))
    tables: dict[str, list[Figure]] = {}
    for match in markers:
        columns = set(_columns(match[3]))
        tables[_title(match)] = [
            figure
            for figure in figures
            if figure.bench == match[2]
            and bool(columns & set(_split(figure.name)) if columns else _free(figure, parts))
        ]
    return tables


def _free(figure: Figure, parts: dict[str, set[str]]) -> bool:
    return not parts[figure.bench] & set(_split(figure.name))


def _columns(titles: str | None) -> list[str]:
    return [] if titles is None else titles.split(" | ")


def _split(name: str) -> list[str]:
    return name.split(", ")


def _table(titles: str | None, figures: Sequence[Figure]) -> str:
    """Return a table with a row for each figure, p50 and p99 in one, and a column for each part."""
    if not figures:
        return "Not measured in this run."
    columns = _columns(titles)
    rows: dict[str, dict[str, list[Figure]]] = {}
    names: dict[str, set[str]] = {}
    for figure in figures:
        parts = _split(figure.name)
        column = next((title for title in columns if title in parts), "")
        name = ", ".join(part for part in parts if part != column)
        # Both percentiles share a row.
        stem = name.removesuffix(_P50).removesuffix(_P99)
        names.setdefault(stem, set()).add(name)
        rows.setdefault(stem, {}).setdefault(column, []).append(figure)
    cells = []
    for stem, by_column in rows.items():
        name = names[stem].pop() if len(names[stem]) == 1 else f"{stem}{_P50} / p99"
        values = [_value(by_column.get(title, ())) for title in columns or [""]]
        cells.append((name, *values, _targets(by_column.values())))
    heads = columns if len(columns) > 1 else ["value"]
    return "\n".join(_lines(("figure", *heads, "target"), cells))


def _value(figures: Sequence[Figure]) -> str:
    if not figures:
        return ""
    values = " / ".join(shown(figure.value) for figure in figures)
    missed = any(f.target and f.target.checked and not f.target.is_met(f.value) for f in figures)
    return f"{values} {figures[0].unit}".rstrip() + (" (missed)" if missed else "")


def _targets(columns: Iterable[Sequence[Figure]]) -> str:
    found: list[str] = []
    for figures in columns:
        targets = [figure.target for figure in figures if figure.target]
        text = " / ".join(f"{target.sense} {target.value:g}" for target in targets)
        if targets and not all(target.checked for target in targets):
            text += " (orientation)"
        if text and text not in found:
            found.append(text)
    return "; ".join(found)


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    every = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(row)} |".replace("  ", " ") for row in every]


def check(root: Path, page: str) -> None:
    """Raise `UntrueFiguresError` if the read path is not as it was when the page was measured."""
    named = _COMMIT.search(page)
    if named is None:
        raise UntrueFiguresError("names no commit; run `python -m bench report`")
    commit = named[1]
    try:
        git(root, "cat-file", "-e", f"{commit}^{{commit}}")
    except GitError as error:
        raise UntrueFiguresError(
            f"this clone lacks the measured commit {commit[:12]}; run"
            f" `git fetch --depth 1 origin {commit}`, or `git fetch --unshallow`, and check again"
        ) from error
    changed = git(root, "diff", "--name-only", commit, "--", *READ_PATH).splitlines()
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise UntrueFiguresError(
            f"the read path has changed since the figures of commit {commit[:12]} were measured"
            f" ({', '.join(changed[:5])}{more}); run `python -m bench report` and commit the page"
        )
