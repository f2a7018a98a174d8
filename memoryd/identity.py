"""Identity of an index. Vectors and terms of two identities never mix."""

from typing import Literal

import msgspec

DIMS_SIGN = ":"
"""Separator that no provider key contains, because keys are hexadecimal."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """All settings that determine the rows of an index.

    `mixed_chunks`: some files were cut by other settings while it waited for a rebuild.
    `dims` is None until the provider's first answer. `provider_key` is a hash of address, model and
    non-secret headers, without the API key, so that key rotation changes nothing. If the provider
    changes the dimensions of its vectors, the new `dims` become part of the key.
    """

    provider: str
    model: str
    provider_key: str
    dims: int | None
    max_input_bytes: int
    chunk_tokens: int
    chunk_overlap: int
    tokenizer: str
    mixed_chunks: bool = False

    def difference(self, built: "Identity") -> str | None:
        """Return the changes since an index was `built`, None if there are none.

        Unknown values equal any other: `dims` until the first answer, and the provider's key ""
        while its model can't be read, for example on a disk that is not mounted.
        """
        changed = [
            f"{field} {getattr(built, field)} → {getattr(self, field)}"
            for field in self.__struct_fields__
            if field != "mixed_chunks"
            and getattr(built, field) != getattr(self, field)
            and not (field == "dims" and None in (built.dims, self.dims))
            and not (field == "provider_key" and self._same_key(built))
        ]
        if built.mixed_chunks and not changed:
            return "some texts were cut by settings that no longer hold"
        return ", ".join(changed) or None

    def same_chunks(self, other: "Identity") -> bool:
        """Return whether both cut texts in the same way."""
        own = self.chunk_tokens, self.chunk_overlap, self.max_input_bytes
        return own == (other.chunk_tokens, other.chunk_overlap, other.max_input_bytes)

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
        """Return whether vectors of both are comparable: same provider, model and dims."""
        return (
            (self.provider, self.model) == (other.provider, other.model)
            and self._same_key(other)
            and (self.dims == other.dims or None in (self.dims, other.dims))
        )

    def same_model(self, other: "Identity") -> bool:
        """Return whether both have the same provider and model, with any dims."""
        names = (self.provider, self.model, self.first_key)
        return names == (other.provider, other.model, other.first_key)

    def with_dims(self, dims: int) -> "Identity":
        """Return this identity with other dims of the same provider, and its own key for them."""
        key = f"{self.first_key}{DIMS_SIGN}{dims}"
        return msgspec.structs.replace(self, dims=dims, provider_key=key)

    def with_dims_of(self, built: "Identity") -> "Identity":
        """Return this identity with the dims and the key of an index of the same model."""
        return msgspec.structs.replace(self, dims=built.dims, provider_key=built.provider_key)

    @property
    def first_key(self) -> str:
        """The provider's key without dims."""
        return self.provider_key.partition(DIMS_SIGN)[0]

    def _same_key(self, other: "Identity") -> bool:
        unknown = self.provider == "local" and "" in (self.provider_key, other.provider_key)
        return unknown or self.first_key == other.first_key


class Choice(msgspec.Struct, frozen=True):
    """The provider of an index, and for people the reason of the choice.

    `by` is `found` for an automatic choice, `asked` for a request, and `fallback` after a permanent
    failure. `instead_of` is the provider in the configuration at that time. `told`: the log has
    said that texts leave the machine although the configuration does not ask for it.
    """

    provider: str
    by: Literal["found", "asked", "fallback"]
    why: str
    instead_of: str
    told: bool = False
