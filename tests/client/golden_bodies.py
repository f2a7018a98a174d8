"""The bodies of the golden frames, as ready-made answers."""

from pathlib import Path
from typing import TypeVar

import msgspec

from memoryd_client.wire.protocol import Body

BodyT = TypeVar("BodyT", bound=Body)


def golden(name: str, kind: type[BodyT]) -> BodyT:
    """Read one example from `tests/wire`."""
    path = Path(__file__).parents[1] / "wire" / f"{name}.hex"
    return msgspec.msgpack.decode(bytes.fromhex(path.read_text()), type=kind)
