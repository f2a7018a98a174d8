"""Compressed transcripts: complete or truncated zstd frames of arbitrary bytes."""

from contextlib import suppress
from unittest import mock

import zstandard

from fuzz.scratch import folder
from memoryd.fs.safe_open import BLOCK_BYTES
from memoryd.source.transcripts import archive

MOST_BYTES = 1024 * 1024
"""Maximum unpacked size for this target; 1 GiB takes too long."""
LINE = b'{"role":"user","content":"hello"}\n'
SEEDS = [
    LINE,
    zstandard.compress(LINE * 20),
    zstandard.compress(LINE)[:-3],
    zstandard.compress(LINE) * 3,
    zstandard.compress(bytes(64 * 1024 * 1024), 3)[:3_000],
    zstandard.ZstdCompressor(write_checksum=True).compress(LINE),
    zstandard.ZstdCompressor(write_content_size=False).compress(LINE),
    b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstandard.compress(LINE),
]
DICTIONARY = [b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\xff\xff\xff\xff", b"\x37\xa4\x30\xec"]
MAX_BYTES = 4_096


def check(data: bytes) -> None:
    """Unpack the bytes: the result is the original within the limit, or an `OSError`."""
    path = folder() / "a.jsonl.reset.2026-11-28T10-00-00.000Z.zst"
    path.write_bytes(data)
    with mock.patch.object(archive, "MAX_UNPACKED_BYTES", MOST_BYTES):
        try:
            with archive.opened(path, path.parent, path.parent) as (file, _, size):
                file.seek(0)
                content = file.read()
        except OSError as error:
            if not error.strerror:
                raise
            return
    assert len(content) == size <= MOST_BYTES + BLOCK_BYTES
    # It allocates the size that the frame header declares in one block.
    with suppress(zstandard.ZstdError, MemoryError):
        assert content.startswith(zstandard.decompress(data, MOST_BYTES))
