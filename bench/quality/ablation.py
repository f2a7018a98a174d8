"""Settings that switch off one ingredient of search at a time, to measure its effect."""

from bench.quality.options import Options

AS_GIVEN = "as given"
ABLATIONS: dict[str, Options] = {
    "vectors alone": {"query.hybrid.enabled": False},
    "reference's formula": {"query.hybrid.fusion": "weighted"},
    "candidates × 2": {"query.hybrid.candidate_multiplier": 8},
    "age ignored": {"query.hybrid.temporal_decay.enabled": False},
    "spread out (MMR)": {"query.hybrid.mmr.enabled": True},
}
"""Only settings below `query`, so that no index has to be rebuilt."""


def variants(options: Options, *, ablate: bool) -> dict[str, Options]:
    """Return the settings to measure by name: the given ones, and each ablation on top of them."""
    ablations = ABLATIONS if ablate else {}
    return {AS_GIVEN: options} | {name: options | off for name, off in ablations.items()}
