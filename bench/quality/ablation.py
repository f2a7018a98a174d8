"""What is switched off, one thing at a time, to see what it is good for."""

from bench.quality.options import Options

AS_GIVEN = "as given"
ABLATIONS: dict[str, Options] = {
    "vectors alone": {"query.hybrid.enabled": False},
    "reference's formula": {"query.hybrid.fusion": "weighted"},
    "candidates × 2": {"query.hybrid.candidate_multiplier": 8},
    "age ignored": {"query.hybrid.temporal_decay.enabled": False},
    "spread out (MMR)": {"query.hybrid.mmr.enabled": True},
    "no threshold": {"query.min_score": 0},
}
"""Settings below `query` alone, so that no index has to be made again."""


def variants(options: Options, *, ablate: bool) -> dict[str, Options]:
    """Return the settings to measure by name: those given, and each ablation laid over them."""
    ablations = ABLATIONS if ablate else {}
    return {AS_GIVEN: options} | {name: options | off for name, off in ablations.items()}
