"""A workspace with an index, made once and kept, and a real daemon that answers on it."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.daemon import READY_S, Place, daemon, place
from bench.quality.model import Ask
from bench.quality.options import QUIET, Options, of_the_index, to_toml
from memoryd.config.load import load
from memoryd_client import Client, MemorydError
from memoryd_client.schema.memory import Hit

INDEX_POLL_S = 0.05


def default_cache() -> Path:
    """Return where workspaces and indexes are kept unless told otherwise."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "memoryd-bench-quality"


def key_of(notes: Mapping[str, str], options: Options) -> str:
    """Return the name of what is kept for these notes: 16 hex digits.

    The same for the same notes and the same settings as far as an index depends on them.
    """
    digest = hashlib.sha256(json.dumps(of_the_index(QUIET | options)).encode())
    for path in sorted(notes):
        digest.update(f"{path}\0{notes[path]}\0".encode())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def answering(
    notes: Mapping[str, str], options: Options, cache: Path | None, *, rebuild: bool = False
) -> Iterator[Ask]:
    """Run a daemon that has indexed the notes; yield how to ask it.

    With `cache` the workspace and its index stay there; without, they are made and removed.
    `rebuild` makes the index again, from the vectors it keeps. Raises `MemorydError` when the
    daemon can't do what it is asked, and `ConfigError` for options that it doesn't know.
    """
    with place() as where:
        folder = where.root if cache is None else cache / key_of(notes, options)
        _write(folder, notes)
        _configure(where, folder, QUIET | options)
        with daemon(where), where.client() as client:
            client.index(force=rebuild)
            client.sync()
            _wait_until_whole(client)
            yield _asker(client)


def _write(folder: Path, notes: Mapping[str, str]) -> None:
    """Write the workspace, unless all of it is there."""
    done = folder / "written"
    if done.exists():
        return
    shutil.rmtree(folder / "workspace", ignore_errors=True)
    for path, text in notes.items():
        file = folder / "workspace" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    done.touch()


def _configure(where: Place, folder: Path, options: Options) -> None:
    paths = {"workspace": f"{folder}/workspace", "store.path": f"{folder}/index.sqlite"}
    file = where.root / "config.toml"
    text = f"[defaults]\n{to_toml(options)}\n[agents.main]\n{to_toml(paths)}"
    file.write_text(text, encoding="utf-8")
    load(file)


def _wait_until_whole(client: Client) -> None:
    """Wait until a search has all that it needs. Raises `MemorydError` with what it lacks."""
    deadline = time.monotonic() + READY_S
    while warnings := client.search("anything").warnings:
        if time.monotonic() > deadline:
            raise MemorydError("; ".join(warnings))
        time.sleep(INDEX_POLL_S)


def _asker(client: Client) -> Ask:
    def ask(
        query: str, *, max_results: int | None = None, min_score: float | None = None
    ) -> list[Hit]:
        result = client.search(query, max_results=max_results, min_score=min_score)
        if result.warnings:
            raise MemorydError(f"half a search is no figure: {'; '.join(result.warnings)}")
        return result.results

    return ask
