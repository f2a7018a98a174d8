"""Measurement of the sets: loading, indexing, asking in each variant, and reporting."""

import sys
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Report, Target, at_least, at_most
from bench.quality import beir, locomo, own
from bench.quality.ablation import AS_GIVEN, variants
from bench.quality.model import Measured, MissingSetError, Outcome, QualitySet
from bench.quality.options import Options
from bench.quality.scoring import Half
from bench.quality.tables import curve_table, figures_table
from bench.quality.workspace import answering

OWN = ("exact", "recency", "abstention")
NAMES = ("locomo", *beir.TARGETS, *OWN, "abstention-locomo")


@dataclass(frozen=True, slots=True)
class Run:
    """Options of one run: the sets and their half, the settings, and the output."""

    report: Report
    data: Path | None
    cache: Path
    settings: Options
    half: Half
    quick: bool
    ablate: bool
    misses: bool
    rebuild: bool

    def measure(self, name: str) -> bool:
        """Measure and report one set. Return True if it meets its targets or is missing."""
        try:
            chosen = self._load(name)
        except MissingSetError as error:
            self.report.note(f"skipping {name}: {error}")
            return True
        outcomes: dict[str, Outcome] = {}
        for variant, settings in variants(self.settings, ablate=self.ablate).items():
            outcomes[variant] = self._ask(chosen, variant, settings)
        print(f"\n{figures_table(name, outcomes)}\n", file=sys.stderr)
        given = outcomes[AS_GIVEN]
        if given.curve:
            print(f"{curve_table(name, given.curve)}\n", file=sys.stderr)
        if self.misses:
            print("\n".join([f"{name}: questions that failed", *given.misses, ""]), file=sys.stderr)
        targets = [(self._target(m), m.value) for m in given.figures]
        return all(target.is_met(value) for target, value in targets if target)

    def _load(self, name: str) -> QualitySet:
        if name in OWN:
            return own.load(name, half=self.half)
        if self.data is None:
            raise MissingSetError("no folder is named with --data")
        if name in beir.TARGETS:
            return beir.load(self.data, name, half=self.half, quick=self.quick)
        load = locomo.load if name == "locomo" else locomo.load_abstention
        return load(self.data, half=self.half, quick=self.quick)

    def _ask(self, chosen: QualitySet, variant: str, settings: Options) -> Outcome:
        self.report.note(f"{chosen.name}, {variant}: {len(chosen.notes):,} notes ...")
        cache = self.cache if chosen.lasting else None
        rebuild = self.rebuild and variant == AS_GIVEN
        with answering(chosen.notes, settings, cache, rebuild=rebuild) as ask:
            outcome = chosen.measure(ask)
        for measured in outcome.figures:
            target = self._target(measured) if variant == AS_GIVEN else None
            self._add(chosen, variant, measured, target)
        for point in outcome.curve:
            costs = {
                "noise returned": point.noise,
                "answers lost": point.lost,
                "lost to the threshold": point.lost_by_threshold,
            }
            for name, value in costs.items():
                self._add(chosen, variant, Measured(f"{name} at {point.min_score:g}", value), None)
        return outcome

    def _add(
        self, chosen: QualitySet, variant: str, measured: Measured, target: Target | None
    ) -> None:
        self.report.add(
            measured.name,
            measured.value,
            measured.unit,
            target,
            set=chosen.name,
            variant=variant,
            half=self.half,
            quick=self.quick,
        )

    def _target(self, measured: Measured) -> Target | None:
        """Return the target of a figure, None for a part of a set."""
        if self.quick:
            return None
        if measured.at_least is not None:
            return at_least(measured.at_least)
        return None if measured.at_most is None else at_most(measured.at_most)
