"""The seam between the operations on facts and the place where facts are stored."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memoryd.errors import HintedError
from memoryd_client.schema.facts import Fact

Vector = NDArray[np.float32]
"""A vector of length 1, shape (dims,)."""


class FactStoreError(HintedError):
    """The store can't answer."""


class FactStore(Protocol):
    """A durable store of facts. Every method raises `FactStoreError`.

    `key` names the model of a vector: vectors of different keys are never compared. A fact that is
    stored or removed is so for good when the method returns, and for all who share the store.
    `warnings` has a line for each problem that makes answers incomplete.
    """

    name: str
    warnings: list[str]

    async def put(self, fact: Fact, vector: Vector | None, key: str) -> None:
        """Store a fact, with its vector if there is one. A second time changes nothing."""

    async def all(self, owner: str) -> list[Fact]:
        """Return the facts of an owner, oldest first."""

    async def erasable(self, owner: str) -> list[Fact]:
        """Return the facts that the agent `owner` may erase: in a shared store only its own."""

    async def nearest(
        self, vector: Vector, key: str, owner: str, limit: int
    ) -> list[tuple[Fact, float]]:
        """Return the owner's facts with the highest cosines, best first."""

    async def remove(self, fact_id: str, owner: str) -> Fact | None:
        """Remove a fact and every trace of it in the store; return it if it was there."""

    async def missing(self, key: str, limit: int) -> tuple[list[Fact], int]:
        """Return facts of all owners without a vector of this key, and the number of all such."""

    async def embed(self, vectors: Mapping[str, Vector], key: str) -> None:
        """Give facts, by their id, their vectors."""

    async def close(self) -> None:
        """Release what the store holds."""
