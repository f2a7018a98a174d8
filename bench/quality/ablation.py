"""What is switched off, one thing at a time, to see what it is good for."""

from bench.quality.options import Options

AS_GIVEN = "as given"
ABLATIONS: dict[str, Options] = {
    "keywords alone": {"query.hybrid.vector_weight": 0, "query.hybrid.text_weight": 1},
    "vectors alone": {"query.hybrid.enabled": False},
    "equal weights": {"query.hybrid.vector_weight": 0.5, "query.hybrid.text_weight": 0.5},
    "candidates × 1": {"query.hybrid.candidate_multiplier": 1},
    "no threshold": {"query.min_score": 0},
}
"""Settings below `query` alone, so that no index has to be made again."""


def variants(options: Options, *, ablate: bool) -> dict[str, Options]:
    """Return the settings to measure by name: those given, and each ablation laid over them."""
    ablations = ABLATIONS if ablate else {}
    return {AS_GIVEN: options} | {name: options | off for name, off in ablations.items()}
