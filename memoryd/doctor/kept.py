"""Check of the copies of transcripts whose files are gone."""

import os
from collections.abc import Collection
from pathlib import Path

from memoryd.doctor.finding import NAMED, Tally, Topic
from memoryd.fs.hang import tick
from memoryd.source.transcripts.kept import KeptCopies

_WRITTEN_AGAIN = "their text is in the index: `memctl index --force` writes them again"


def check_copies(topic: Topic, copies: KeptCopies, kept: Collection[str]) -> None:
    """Read all copies; `kept` are the transcripts in the index whose files are gone."""
    try:
        names = sorted(os.listdir(copies.folder))
    except FileNotFoundError:
        names = []
    except OSError as error:
        topic.error(
            f"{copies.folder} can't be read: {error.strerror or error}",
            "let memoryd's user read it; the indexed text stays searchable meanwhile",
        )
        return
    expected = {copies.path(name): name for name in kept}
    damaged, lost, others = Tally(), list[Path](), Tally()
    for path in (copies.folder / name for name in names):
        tick(path)
        if not copies.is_named(path):
            others.add(path.name)
            continue
        try:
            copies.read(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if path in expected:
                damaged.add(f"{expected[path]} ({error.strerror or error})")
            else:
                lost.append(path)
    missing = Tally(name for path, name in expected.items() if path.name not in names)
    if damaged:
        topic.error(f"damaged copies of transcripts: {damaged}", _WRITTEN_AGAIN)
    if missing:
        topic.warning(f"transcripts without file and without copy: {missing}", _WRITTEN_AGAIN)
    if lost:
        topic.error(
            f"damaged copies of transcripts that are not in the index: {Tally(map(str, lost))}",
            "restore them from a backup, or remove them: "
            + "; ".join(f"rm {path}" for path in lost[:NAMED]),
        )
    if others:
        topic.warning(
            f"unknown files in {copies.folder}: {others}",
            "memoryd does not read them; a stopped write leaves one that ends in .new",
        )
