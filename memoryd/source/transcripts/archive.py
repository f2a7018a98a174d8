"""Opens transcripts for reading, and unpacks archives."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from memoryd.fs.safe_open import BLOCK_BYTES, RegularFile

PACKED = ".zst"
MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""Maximum memory that unpacking may request."""


@contextmanager
def opened(
    path: Path, base: Path, unpack_in: Path
) -> Iterator[tuple[BinaryIO, os.stat_result, int]]:
    """Yield an open regular file, its stat, and the size of its content.

    No links are allowed below the directory `base`. A `.zst` file is unpacked into an unnamed file
    in the directory `unpack_in`, as private as what is kept there. Raises `OSError`.
    """
    with RegularFile(path, base) as regular:
        file = cast(BinaryIO, regular)
        found = os.fstat(file.fileno())
        if not path.name.endswith(PACKED):
            yield file, found, found.st_size
            return
        import tempfile  # 0.3 MiB, so only when needed

        with tempfile.TemporaryFile(dir=unpack_in) as unpacked:
            size = _unpack(file, cast(BinaryIO, unpacked))
            yield cast(BinaryIO, unpacked), found, size


def _unpack(packed: BinaryIO, unpacked: BinaryIO) -> int:
    import zstandard  # takes memory, so only when needed

    size = 0
    try:
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        with unpacker.stream_reader(packed, closefd=False, read_across_frames=True) as reader:
            while block := reader.read(BLOCK_BYTES):
                size += unpacked.write(block)
                if size > MAX_UNPACKED_BYTES:
                    raise OSError(errno.EFBIG, "larger than 1 GiB after unpacking")
    except zstandard.ZstdError as error:
        # Not EILSEQ, which takes a file out of the index that is no transcript.
        raise OSError(errno.EBADMSG, f"can't be unpacked: {error}") from error
    unpacked.flush()
    return size
