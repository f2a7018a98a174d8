"""What an index was built with. Vectors and terms of two identities never mix."""

from typing import Literal

import msgspec

DIMS_SIGN = ":"
"""Stands in no key that a provider has by itself: these are hexadecimal."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what the rows of an index look like.

    `dims` is None until the provider's first answer. `provider_key` is a hash of address, model
    and non-secret headers; no part of it comes from an API key, so rotating one changes nothing.
    Once the same provider has been found to give vectors of other dims, these are part of its key.
    """

    provider: str
    model: str
    provider_key: str
    dims: int | None
    max_input_bytes: int
    chunk_tokens: int
    chunk_overlap: int
    tokenizer: str

    def difference(self, built: "Identity") -> str | None:
        """Say what changed since an index was `built`, or None. What is unknown fits any.

        Dims are unknown until the first answer; the provider's key is "" while its model can't be
        read, as on a disk that is not mounted.
        """
        changed = [
            f"{field} {getattr(built, field)} → {getattr(self, field)}"
            for field in self.__struct_fields__
            if getattr(built, field) != getattr(self, field)
            and not (field == "dims" and None in (built.dims, self.dims))
            and not (field == "provider_key" and self._same_key(built))
        ]
        return ", ".join(changed) or None

    def vector_problem(self, built: "Identity") -> str | None:
        """Return why ours can't be compared with the vectors of an index `built` so, or None."""
        if self.same_vectors(built):
            return None
        name = f"{built.provider} {built.model}"
        if self.same_model(built):
            return (
                f"{name} now gives vectors of {self.dims} dimensions and the index has"
                f" {built.dims}; it is being rebuilt"
            )
        return f"the index was built with {name} and is being rebuilt"

    def same_vectors(self, other: "Identity") -> bool:
        """Say whether vectors of both may be compared: one provider, one model, same dims."""
        return (
            (self.provider, self.model) == (other.provider, other.model)
            and self._same_key(other)
            and (self.dims == other.dims or None in (self.dims, other.dims))
        )

    def same_model(self, other: "Identity") -> bool:
        """Say whether both are of one provider and model, whatever dims it gave them."""
        names = (self.provider, self.model, self.first_key)
        return names == (other.provider, other.model, other.first_key)

    def with_dims(self, dims: int) -> "Identity":
        """Return what an index is built with once the same provider gives vectors of these dims.

        Its key is another, so that those of both dims are kept apart wherever they are.
        """
        key = f"{self.first_key}{DIMS_SIGN}{dims}"
        return msgspec.structs.replace(self, dims=dims, provider_key=key)

    def with_dims_of(self, built: "Identity") -> "Identity":
        """Return this with the dims, and the key, that an index of the same model has."""
        return msgspec.structs.replace(self, dims=built.dims, provider_key=built.provider_key)

    @property
    def first_key(self) -> str:
        """The provider's key without any dims."""
        return self.provider_key.partition(DIMS_SIGN)[0]

    def _same_key(self, other: "Identity") -> bool:
        return self.first_key == other.first_key or self._key_is_unknown(other)

    def _key_is_unknown(self, other: "Identity") -> bool:
        return self.provider == "local" and "" in (self.provider_key, other.provider_key)


class Choice(msgspec.Struct, frozen=True):
    """Which provider an index is to have, who chose it, and why, for people.

    `found` by what there was, `asked` for by a request, or the `fallback` of one that has failed
    for good. `instead_of` is the provider that the configuration named then.
    """

    provider: str
    by: Literal["found", "asked", "fallback"]
    why: str
    instead_of: str
