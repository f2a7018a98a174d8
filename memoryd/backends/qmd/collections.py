"""The collections of QMD: folders of notes, and transcripts exported for it; and their names."""

import asyncio
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from memoryd.config.settings import ExtraPath
from memoryd.index.driver import Connection
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.source.filenames import MEMORY_FOLDER, ROOT_FILES, SUFFIX, split_glob
from memoryd.source.notes.discover import Discovery
from memoryd.source.transcripts.locations import SOURCE as SESSIONS

_NAMED = re.compile(r"qmd://([^/]+)/(.+)")
_STAMPS = "exported.json"


class Collection(NamedTuple):
    """A folder that QMD indexes: the files of a pattern, without ignored ones."""

    path: str
    pattern: str
    ignore: tuple[str, ...] = ()


class Collections:
    """The collections of one agent. `exports` is the folder of exported transcripts.

    `names` are those of the collections in QMD's configuration.
    """

    def __init__(
        self,
        agent: str,
        discovery: Discovery,
        extra_paths: Sequence[str | ExtraPath],
        store: Store,
        exports: Path,
    ) -> None:
        suffix = re.sub(r"[^A-Za-z0-9_-]", "-", agent)
        workspace, self._sessions = discovery.workspace, f"sessions-{suffix}"
        self._discovery = discovery
        self._store = store
        self._exports = exports
        self.names: list[str] = []
        self._folders = {
            f"memory-root-{suffix}": Collection(str(workspace), ",".join(ROOT_FILES)),
            f"memory-dir-{suffix}": Collection(str(workspace / MEMORY_FOLDER), f"**/*{SUFFIX}"),
        }
        for number, extra in enumerate(extra_paths, start=1):
            self._folders[f"custom-{number}-{suffix}"] = _custom(workspace, extra)

    def write_config(self, path: Path) -> None:
        """Write QMD's configuration file: YAML, which JSON is too. Blocking. Raises `OSError`."""
        folders = {name: c for name, c in self._folders.items() if os.path.isdir(c.path)}
        if self._exports.is_dir():
            folders[self._sessions] = Collection(str(self._exports), f"*{SUFFIX}")
        described: dict[str, Any] = {
            name: {"path": c.path, "pattern": c.pattern, "ignore": list(c.ignore)}
            for name, c in folders.items()
        }
        _write(path, msgspec.json.encode({"collections": described}).decode())
        self.names = list(folders)

    def keys_of(self, named: Sequence[str]) -> list[FileKey | None]:
        """Return the files of names like `qmd://memory-dir-main/a.md`; None for other names."""
        transcripts: dict[str, FileKey] = {}
        if any(f"/{self._sessions}/" in one for one in named):
            rows = self._store.catalog.copy()
            transcripts = {_file_name(key): key for key in rows if key.source == SESSIONS}
        return [self._key(one, transcripts) for one in named]

    def _key(self, named: str, transcripts: Mapping[str, FileKey]) -> FileKey | None:
        if (parts := _NAMED.fullmatch(named.split("?index=")[0])) is None:
            return None
        collection, path = parts.groups()
        if collection == self._sessions:
            return transcripts.get(path)
        if (folder := self._folders.get(collection)) is None:
            return None
        key = self._discovery.key(os.path.normpath(os.path.join(folder.path, path)))
        if key in self._store.catalog.rows or path.isascii():
            return key
        return FileKey(key.source, self._store.catalog.spelled(key.path) or key.path)

    async def export(self) -> bool:
        """Write changed transcripts for QMD, as the index has them, and remove the others.

        Returns whether a text was removed. Raises `OSError`.
        """
        rows = {k: row for k, row in self._store.catalog.copy().items() if k.source == SESSIONS}
        stamps_file, changed = self._exports.with_name(_STAMPS), dict[str, bytes]()
        stamps = await asyncio.to_thread(_read_stamps, stamps_file)
        present: dict[str, str] = {}
        for key, row in rows.items():
            name, read = _file_name(key), partial(_chunks, file_id=row.file_id)
            present[name] = await self._store.readers.read(partial(read, column="row_id"))
            if stamps.get(name) != present[name]:
                text = await self._store.readers.read(partial(read, column="text"))
                await asyncio.to_thread(_write, self._exports / name, text)
                changed[name] = b""
        gone = stamps.keys() - present.keys()
        if gone or changed:
            await asyncio.to_thread(self._finish, gone, stamps_file, present)
        return bool(gone or changed.keys() & stamps.keys())

    def _finish(self, gone: Iterable[str], stamps_file: Path, present: dict[str, str]) -> None:
        for name in gone:
            (self._exports / name).unlink(missing_ok=True)
        _write(stamps_file, msgspec.json.encode(present).decode())


def _custom(workspace: Path, extra: str | ExtraPath) -> Collection:
    """Return the collection of an extra path. What it has beyond memory is left out of answers."""
    ignore: list[str] = []
    if isinstance(extra, str):
        head, tail = split_glob(extra)
        given = head if tail else extra
    else:
        given = extra.path
        if not any(pattern.startswith("!") for pattern in extra.exclude):
            for pattern in extra.exclude:
                anchored = pattern.strip("/") if "/" in pattern.rstrip("/") else f"**/{pattern}"
                ignore += [anchored.rstrip("/"), f"{anchored.rstrip('/')}/**"]
    path = os.path.normpath(workspace / Path(given).expanduser())
    if path.lower().endswith(SUFFIX) and not os.path.isdir(path):
        return Collection(os.path.dirname(path), os.path.basename(path))
    return Collection(path, f"**/*{SUFFIX}", tuple(ignore))


def _file_name(key: FileKey) -> str:
    """Return the name of an exported transcript, whatever characters its path has."""
    return f"{hashlib.sha256(key.path.encode()).hexdigest()[:32]}{SUFFIX}"


def _chunks(connection: Connection, *, file_id: int, column: str) -> str:
    """Return a column of a file's chunks, in their order, one a line or more."""
    rows = connection.execute(
        f"SELECT {column} FROM chunks WHERE file_id = ? ORDER BY start_line, row_id",
        (file_id,),
    )
    return "\n".join(str(value) for (value,) in rows)


def _read_stamps(path: Path) -> dict[str, str]:
    """Return what was exported before; nothing if that can't be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def _write(path: Path, text: str) -> None:
    """Replace a file that only its owner can read. Blocking. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "replace"))
    os.replace(new, path)
