"""Files beside an index that are not its own: unfinished rebuilds, and what was moved aside."""

from pathlib import Path

from memoryd.doctor.finding import Tally, Topic
from memoryd.index.leftovers import unfinished

_OWN = ("", "-wal", "-shm", ".lock")


def _is_beside(name: str, index: str) -> bool:
    return name == index or name.startswith((f"{index}.", f"{index}-"))


def check_leftovers(topic: Topic, index: Path, *, running: bool, rebuilding: bool) -> None:
    """Name them. With a daemon `running`, only a rebuild that is under way may have any."""
    rebuilds = unfinished(index)
    if rebuilds:
        names = Tally(path.name for path in rebuilds)
        if not running:
            topic.warning(
                f"a rebuild was cut off and has left {names} in {index.parent}",
                "the next start keeps its embeddings and removes it",
            )
        elif not rebuilding:
            topic.error(f"no rebuild is under way that {names} is of", "memctl restart")
    own = {f"{index.name}{suffix}" for suffix in _OWN}
    try:
        beside = sorted(p.name for p in index.parent.iterdir() if _is_beside(p.name, index.name))
    except OSError:
        return  # told with the permissions
    told = tuple(path.name for path in rebuilds)
    aside = [name for name in beside if name not in own and not name.startswith(told)]
    if aside:
        topic.warning(
            f"beside the index there are {Tally(aside)}",
            "a damaged index that was moved aside can be removed once it is not missed",
        )
    if index.name not in beside and f"{index.name}-wal" in beside:
        topic.error(f"{index.name}-wal is there without its index", "see `memctl logs`")
