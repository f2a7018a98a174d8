"""What a model on this machine is to the provider that runs it."""

from collections.abc import Callable
from dataclasses import dataclass

from memoryd.embed.prefixes import Prefixes
from memoryd.embed.provider import Calibration

_NO_PREFIXES = Prefixes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A model, and how it is run by a worker process.

    The process is `python -m MODULE THREADS *ARGUMENTS`; `check` raises `PermanentError` where it
    can't run, from any thread. `dims` is None until the model is loaded, `key` a hash of all that
    decides about vectors. Bulk work comes in pieces within `piece_items` and `piece_bytes`: a query
    waits for one at most. In stderr, `reason_mark` stands before the reason of a failure.
    """

    model: str
    key: str
    dims: int | None
    calibration: Calibration
    module: str
    arguments: tuple[str, ...] = ()
    check: Callable[[], None]
    reason_mark: str = ""
    prefixes: Prefixes = _NO_PREFIXES
    max_input_bytes: int = 8_000
    window_units: int | None = None
    batch_items: int = 64
    piece_items: int
    piece_bytes: int
    query_timeout_s: float
    load_timeout_s: float
    answer_timeout_s: float
    """For one piece: over it, the worker hangs."""
