"""Measurement of the sets: loading, indexing, asking in each variant, and reporting."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Report, Target, at_least, at_most
from bench.quality import beir, locomo, made, own, vault
from bench.quality.ablation import AS_GIVEN, variants
from bench.quality.model import Measured, MissingSetError, Outcome, QualitySet
from bench.quality.options import Options
from bench.quality.rating import Rated, figures_of_all, lost
from bench.quality.scoring import Half
from bench.quality.tables import figures_table
from bench.quality.workspace import answering

NAMES = ("locomo", *beir.TARGETS, *vault.NAMES, *own.WRITTEN, *made.NAMES, "abstention-locomo")
ALL = "all sets"
MOST_LOST = 0.005
WITHOUT_CUTS: Options = {"query.min_score": 0, "query.relative_cutoff": 0}
"""Settings that return whatever was found, to count the answers that the cuts lose."""


@dataclass(frozen=True, slots=True)
class Run:
    """Options of one run: the sets and their half, the settings, and the output.

    `rated` collects the answers of all sets with the settings as given.
    """

    report: Report
    data: Path | None
    cache: Path
    settings: Options
    half: Half
    quick: bool
    ablate: bool
    misses: bool
    rebuild: bool
    rated: list[Rated] = field(default_factory=list)

    def measure(self, name: str) -> bool:
        """Measure and report one set. Return True if it meets its targets or is missing."""
        try:
            chosen = self.load(name)
        except MissingSetError as error:
            self.report.note(f"skipping {name}: {error}")
            return True
        outcomes: dict[str, Outcome] = {}
        for variant, settings in variants(self.settings, ablate=self.ablate).items():
            outcomes[variant] = self._ask(chosen, variant, settings)
        given = outcomes[AS_GIVEN]
        self.rated.extend(given.rated)
        print(f"\n{figures_table(name, outcomes)}\n", file=sys.stderr)
        if self.misses:
            print("\n".join([f"{name}: questions that failed", *given.misses, ""]), file=sys.stderr)
        return self._are_met(given.figures)

    def measure_all(self) -> bool:
        """Report the figures of all sets measured so far together. Return True if they are met."""
        figures = figures_of_all(self.rated)
        for measured in figures:
            self._add(ALL, AS_GIVEN, measured, self._target(measured))
        if figures:
            print(f"\n{figures_table(ALL, {AS_GIVEN: Outcome(figures)})}\n", file=sys.stderr)
        return self._are_met(figures)

    def load(self, name: str) -> QualitySet:
        """Return a set. Raises `MissingSetError`."""
        if name in own.WRITTEN:
            return own.load(name, half=self.half)
        if name in made.NAMES:
            return made.load(name, half=self.half)
        if self.data is None:
            raise MissingSetError("no folder is named with --data")
        if name in beir.TARGETS:
            return beir.load(self.data, name, half=self.half, quick=self.quick)
        if name in vault.NAMES:
            return vault.load(self.data, name, half=self.half, quick=self.quick)
        load = locomo.load if name == "locomo" else locomo.load_abstention
        return load(self.data, half=self.half, quick=self.quick)

    def _ask(self, chosen: QualitySet, variant: str, settings: Options) -> Outcome:
        self.report.note(f"{chosen.name}, {variant}: {len(chosen.notes):,} notes ...")
        outcome = self._outcome(chosen, settings, rebuild=self.rebuild and variant == AS_GIVEN)
        if variant == AS_GIVEN and any(answer.answerable for answer in outcome.rated):
            uncut = self._outcome(chosen, settings | WITHOUT_CUTS, rebuild=False)
            share = lost(outcome.rated, uncut.rated)
            outcome.figures.append(Measured("answers lost by the cuts", share, at_most=MOST_LOST))
        for measured in outcome.figures:
            target = self._target(measured) if variant == AS_GIVEN else None
            self._add(chosen.name, variant, measured, target)
        return outcome

    def _outcome(self, chosen: QualitySet, settings: Options, *, rebuild: bool) -> Outcome:
        cache = self.cache if chosen.lasting else None
        with answering(chosen.notes, settings, cache, rebuild=rebuild) as ask:
            return chosen.measure(ask)

    def _add(self, name: str, variant: str, measured: Measured, target: Target | None) -> None:
        self.report.add(
            measured.name,
            measured.value,
            measured.unit,
            target,
            set=name,
            variant=variant,
            half=self.half,
            quick=self.quick,
        )

    def _are_met(self, figures: Sequence[Measured]) -> bool:
        targets = [(self._target(measured), measured.value) for measured in figures]
        return all(target.is_met(value) for target, value in targets if target)

    def _target(self, measured: Measured) -> Target | None:
        """Return the target of a figure, None for a part of a set."""
        if self.quick:
            return None
        if measured.at_least is not None:
            return at_least(measured.at_least)
        return None if measured.at_most is None else at_most(measured.at_most)
