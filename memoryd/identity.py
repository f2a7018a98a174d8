"""What an index was built with. Vectors and terms of two identities never mix."""

import msgspec


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what the rows of an index look like.

    `dims` is None until the provider's first answer. `provider_key` is a hash of address, model
    and non-secret headers; no part of it comes from an API key, so rotating one changes nothing.
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
        """Say what changed since an index was `built`, or None. Unknown dims fit any."""
        changed = [
            f"{field} {getattr(built, field)} → {getattr(self, field)}"
            for field in self.__struct_fields__
            if getattr(built, field) != getattr(self, field)
            and not (field == "dims" and None in (built.dims, self.dims))
        ]
        return ", ".join(changed) or None

    def same_vectors(self, other: "Identity") -> bool:
        """Say whether vectors of both may be compared: one provider, one model, same dims."""
        mine = (self.provider, self.model, self.provider_key)
        return mine == (other.provider, other.model, other.provider_key) and (
            self.dims == other.dims or None in (self.dims, other.dims)
        )
