"""Maximum size of a provider's answer, from what was asked for. Pure.

A server may be hostile or broken, and a small compressed answer may unpack to gigabytes.
"""

NUMBER_BYTES = 32
"""Maximum average bytes of a number in JSON: 24 for any double, the rest for spaces around it."""
MIN_DIMS = 4_096
"""Dims that are always allowed for, because a server may ignore the requested number."""
MAX_DIMS = 16_384
"""Dims that are allowed for while they are unknown. The largest known models have 12,288."""
ROOM_BYTES = 1024 * 1024
"""Bytes for everything else in an answer."""
LINE_ROOM_BYTES = 8 * 1024
"""Bytes for everything else in a line of a batch job's output, such as an error."""
MOST_BYTES = 256 * 1024 * 1024
"""Maximum of any answer that is read into memory."""


def max_answer_bytes(texts: int, dims: int | None) -> int:
    """Return the maximum bytes of an answer with the vectors of `texts` texts."""
    return min(MOST_BYTES, ROOM_BYTES + texts * _vector_bytes(dims))


def max_output_bytes(texts: int, dims: int | None) -> int:
    """Return the maximum bytes of an output file of a batch job, which is read line by line."""
    return ROOM_BYTES + texts * (_vector_bytes(dims) + LINE_ROOM_BYTES)


def _vector_bytes(dims: int | None) -> int:
    return NUMBER_BYTES * (MAX_DIMS if dims is None else max(dims, MIN_DIMS))
