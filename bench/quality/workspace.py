"""A workspace with an index, built once and kept, and a real daemon that serves it."""

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
from memoryd_client.schema.search import SearchResult

INDEX_POLL_S = 0.05


def default_cache() -> Path:
    """Return the default folder for workspaces and indexes."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "memoryd-bench-quality"


def key_of(notes: Mapping[str, str], options: Options) -> str:
    """Return the folder name for these notes: 16 hex digits.

    Depends on the notes and on the settings that an index depends on.
    """
    digest = hashlib.sha256(json.dumps(of_the_index(QUIET | options)).encode())
    for path in sorted(notes):
        digest.update(f"{path}\0{notes[path]}\0".encode())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def answering(
    notes: Mapping[str, str], options: Options, cache: Path | None, *, rebuild: bool = False
) -> Iterator[Ask]:
    """Run a daemon that has indexed the notes; yield a function that asks it.

    With `cache` the workspace and its index stay there; without, they are temporary. `rebuild`
    rebuilds the index from its vectors. Raises `MemorydError` if a request fails, and `ConfigError`
    for unknown options.
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
    """Write the workspace unless it is complete."""
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
    """Wait until searches have no warnings. Raises `MemorydError` with the remaining ones."""
    deadline = time.monotonic() + READY_S
    while warnings := client.search("anything").warnings:
        if time.monotonic() > deadline:
            raise MemorydError("; ".join(warnings))
        time.sleep(INDEX_POLL_S)


def _asker(client: Client) -> Ask:
    def ask(
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        mode: str | None = None,
    ) -> SearchResult:
        result = client.search(
            query, max_results=max_results, min_score=min_score, mode=mode, explain=True
        )
        if result.warnings:
            raise MemorydError(f"half a search is no figure: {'; '.join(result.warnings)}")
        return result

    return ask
