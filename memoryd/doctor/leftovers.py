"""Files beside an index that are not its own: unfinished rebuilds, and what was moved aside."""

import shlex
from pathlib import Path

from memoryd.doctor.finding import NAMED, Tally, Topic
from memoryd.fs.atomic_replace import SIDE_FILES
from memoryd.index.rebuild.leftovers import unfinished
from memoryd.index.repair.recover import copies

_OWN = ("", "-wal", "-shm", "-journal", ".lock")


def beside(index: Path) -> list[Path]:
    """Return the files of an index, and all that seem to go with it."""
    try:
        found = sorted(index.parent.iterdir())
    except OSError:
        return []  # told with the permissions
    starts = f"{index.name}.", f"{index.name}-"
    return [path for path in found if path.name == index.name or path.name.startswith(starts)]


def check_leftovers(topic: Topic, index: Path, *, running: bool, rebuilding: bool) -> None:
    """Name them. With a daemon `running`, only a rebuild that is under way may have any."""
    rebuilds = unfinished(index)
    if rebuilds:
        left = Tally(path.name for path in rebuilds)
        if not running:
            topic.warning(
                f"a rebuild was cut off and has left {left} in {index.parent}",
                "the next start keeps its embeddings and removes it",
            )
        elif not rebuilding:
            topic.error(f"no rebuild is under way that {left} is of", "memctl restart")
    names = [path.name for path in beside(index)]
    if aside := copies(index):
        topic.warning(
            f"beside the index there is what was damaged: {Tally(path.name for path in aside)}",
            "nothing is read of it any more; once you miss nothing: "
            + "; ".join(f"rm {shlex.quote(str(path))}*" for path in aside[:NAMED]),
        )
    told = [f"{index.name}{suffix}" for suffix in _OWN]
    told += [f"{path.name}{suffix}" for path in (*rebuilds, *aside) for suffix in ("", *SIDE_FILES)]
    if others := [name for name in names if name not in told]:
        topic.warning(
            f"beside the index there are files of others: {Tally(others)}",
            "the next start takes up what is its own; else look whose they are",
        )
    if index.name not in names and f"{index.name}-wal" in names:
        topic.error(f"{index.name}-wal is there without its index", "see `memctl logs`")
