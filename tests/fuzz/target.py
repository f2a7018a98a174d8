"""What a target is, and where its inputs are kept."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz import targets

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
REGRESSIONS = HERE / "regressions"
NAMES = sorted(
    module.name
    for module in pkgutil.iter_modules(targets.__path__)
    if not module.name.startswith("_")
)


@dataclass(frozen=True, slots=True)
class Target:
    """A module of `targets`.

    `check` returns when the product does what it promises with these bytes, whatever they are, and
    raises otherwise. `seeds` show the fuzzer what inputs look like; the words of the `dictionary`
    are what it puts into them. No input is longer than `max_bytes`. `close` ends what goes
    on behind it; nothing may be checked afterwards.
    """

    name: str
    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    dictionary: tuple[bytes, ...]
    max_bytes: int
    close: Callable[[], None]

    @property
    def folders(self) -> tuple[Path, Path]:
        """Where inputs are kept; a folder need not be there."""
        return CORPUS / self.name, REGRESSIONS / self.name

    def kept(self) -> Iterator[bytes]:
        """Yield the seeds and all inputs that are kept."""
        yield from self.seeds
        for folder in self.folders:
            if folder.is_dir():
                yield from (path.read_bytes() for path in sorted(folder.iterdir()))


def load(name: str) -> Target:
    """Import a target, and what it fuzzes."""
    module = importlib.import_module(f"fuzz.targets.{name}")
    return Target(
        name,
        module.check,
        tuple(module.SEEDS),
        tuple(getattr(module, "DICTIONARY", ())),
        getattr(module, "MAX_BYTES", 4_096),
        getattr(module, "close", lambda: None),
    )
