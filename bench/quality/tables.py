"""The results as tables for people."""

from collections.abc import Mapping, Sequence

from bench.quality.model import Measured, Outcome


def figures_table(name: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return the table of a set: a row per figure, a column per variant, the target last."""
    names = dict.fromkeys(m.name for outcome in outcomes.values() for m in outcome.figures)
    rows = [[name, *outcomes, "target"]]
    for figure in names:
        held = [{m.name: m for m in outcome.figures}.get(figure) for outcome in outcomes.values()]
        target = next((_target(measured) for measured in held if measured), "")
        rows.append([figure, *("" if m is None else _number(m.value) for m in held), target])
    return _aligned(rows)


def _target(measured: Measured) -> str:
    if measured.at_least is not None:
        return f"≥ {measured.at_least:g}"
    return "" if measured.at_most is None else f"≤ {measured.at_most:g}"


def _number(value: float) -> str:
    return f"{value:.3f}" if 0 < abs(value) < 1 else f"{value:,.0f}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
