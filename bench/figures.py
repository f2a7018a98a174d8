"""Reports of the benchmarks: one JSON line per figure, and a table for people."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Sense = Literal["≤", "≥"]


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a figure. `checked`: it is a ratio or a count, which holds on any machine."""

    sense: Sense
    value: float
    checked: bool = True

    def is_met(self, value: float) -> bool:
        """Return whether a value meets the target."""
        return value <= self.value if self.sense == "≤" else value >= self.value


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value."""

    bench: str
    name: str
    value: float
    unit: str
    target: Target | None

    def row(self) -> tuple[str, str, str, str]:
        """Return the cells of the table."""
        value = shown(self.value)
        if self.target is None:
            return f"{self.bench}: {self.name}", f"{value} {self.unit}", "", ""
        aim = f"{self.target.sense} {self.target.value:g}"
        verdict = "yes" if self.target.is_met(self.value) else "NO"
        return f"{self.bench}: {self.name}", f"{value} {self.unit}", aim, verdict


class Report:
    """Collects the figures of one benchmark and prints each to stdout at once."""

    def __init__(self, bench: str) -> None:
        self.bench = bench
        self.figures: list[Figure] = []

    def add(
        self, name: str, value: float, unit: str, target: Target | None = None, **context: object
    ) -> None:
        """Report one figure; `context` are the conditions of the measurement."""
        figure = Figure(self.bench, name, value, unit, target)
        self.figures.append(figure)
        line: dict[str, object] = {
            "bench": self.bench,
            "figure": name,
            "value": round(value, 4),
            "unit": unit,
        }
        if target is not None:
            line["target"] = f"{target.sense} {target.value:g}"
            line["checked"] = target.checked
            line["met"] = target.is_met(value)
        print(json.dumps(line | context, ensure_ascii=False), flush=True)

    def add_times(
        self,
        name: str,
        times_s: Sequence[float],
        p50: Target | None = None,
        p99: Target | None = None,
        **context: object,
    ) -> None:
        """Report the p50 and p99 of some times, in milliseconds."""
        context["samples"] = len(times_s)
        self.add(f"{name}, p50", percentile(times_s, 50) * 1000, "ms", p50, **context)
        self.add(f"{name}, p99", percentile(times_s, 99) * 1000, "ms", p99, **context)

    def note(self, text: str) -> None:
        """Print progress to stderr."""
        print(f"[{self.bench}] {text}", file=sys.stderr, flush=True)


def at_most(value: float, *, checked: bool = True) -> Target:
    """Return an upper bound."""
    return Target("≤", value, checked)


def at_least(value: float, *, checked: bool = True) -> Target:
    """Return a lower bound."""
    return Target("≥", value, checked)


def shown(value: float) -> str:
    """Return a value for people: three digits, or all of a larger number."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def table(figures: Sequence[Figure]) -> str:
    """Return all figures as a table; a NO in the last column is a target that was missed."""
    rows = [("figure", "value", "target", "met"), *(figure.row() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
