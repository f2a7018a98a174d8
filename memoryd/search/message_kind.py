"""Kind of a message: whether it concerns the user's own life and work, or the world and the code.

A request for a poem about orchids has the words of a note about the orchid on the balcony. Sample
messages of both kinds teach the difference, in the vectors of the model that is in use; a model of
many languages needs them in one. Pure.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memoryd.index.quantize import Vector

_FILE = "kinds_of_messages.txt"
RIDGE = 3.0
"""Weight of the penalty; 1 to 10 separate the messages of the bench set about equally well."""


class Samples(NamedTuple):
    """Sample messages that concern the user's own life and work, and others."""

    own: tuple[str, ...]
    other: tuple[str, ...]


class MessageKind(NamedTuple):
    """A linear function of a message's unit vector: about -1 for the user's own matters, else 1."""

    weights: Vector
    bias: float

    def of(self, vector: Vector) -> float:
        """Return the kind of a message."""
        return float(self.weights @ vector) + self.bias


@cache
def samples() -> Samples:
    """Return the samples, which ship with memoryd."""
    text = Path(__file__).with_name(_FILE).read_text(encoding="utf-8")
    other, own = ([line for line in part.split("\n")[1:] if line] for part in text.split("\n\n"))
    return Samples(tuple(own), tuple(other))


def learn(own: Sequence[Vector], other: Sequence[Vector]) -> MessageKind:
    """Return the kind that the vectors of the samples teach, by ridge regression."""
    rows = np.array([*own, *other], dtype=np.float64)
    targets = np.repeat([-1.0, 1.0], [len(own), len(other)])
    half = len(rows) / 2
    weights = np.repeat([half / len(own), half / len(other)], [len(own), len(other)])
    rows = np.c_[rows, np.ones(len(rows))]
    penalty = np.full(rows.shape[1], RIDGE)
    penalty[-1] = 0.0
    weighted = rows.T * weights
    found = np.linalg.solve(weighted @ rows + np.diag(penalty), weighted @ targets)
    return MessageKind(found[:-1].astype(np.float32), float(found[-1]))
