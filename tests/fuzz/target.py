"""The definition of a target, and the folders of its inputs."""

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

    `check` raises if the product breaks a promise for these bytes, and returns otherwise. `seeds`
    are example inputs; the fuzzer inserts the words of the `dictionary`. No input is longer than
    `max_bytes`. `close` ends background work, after which `check` must not be called.
    """

    name: str
    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    dictionary: tuple[bytes, ...]
    max_bytes: int
    close: Callable[[], None]

    @property
    def folders(self) -> tuple[Path, Path]:
        """Return the folders of kept inputs, which need not exist."""
        return CORPUS / self.name, REGRESSIONS / self.name

    def kept(self) -> Iterator[bytes]:
        """Yield the seeds and all kept inputs."""
        yield from self.seeds
        for folder in self.folders:
            if folder.is_dir():
                yield from (path.read_bytes() for path in sorted(folder.iterdir()))


def load(name: str) -> Target:
    """Import a target and the product code that it fuzzes."""
    module = importlib.import_module(f"fuzz.targets.{name}")
    return Target(
        name,
        module.check,
        tuple(module.SEEDS),
        tuple(getattr(module, "DICTIONARY", ())),
        getattr(module, "MAX_BYTES", 4_096),
        getattr(module, "close", lambda: None),
    )
