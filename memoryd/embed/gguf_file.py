"""Recognition of a GGUF file, and of a change to it. Nothing here interprets its contents.

The daemon uses this module; `gguf_facts` is for the model's process.
"""

import hashlib
import os
from pathlib import Path

from memoryd_client.shared.safe_open import open_regular

MAGIC = b"GGUF"

_SAMPLE_BYTES = 2**20


def is_gguf(path: Path) -> bool:
    """Return whether a file starts as a GGUF file does. Raises OSError."""
    with open_regular(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def content_digest(path: Path) -> str:
    """Return a hash of a file's size, its first and its last MiB. Raises OSError.

    The first MiB contains the metadata and the vocabulary, the last one some of the weights: two
    models differ there, and a start does not read gigabytes.
    """
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(str(size).encode())
        for start in (0, max(0, size - _SAMPLE_BYTES)):
            file.seek(start)
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()
