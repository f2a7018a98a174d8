"""QMD as a back end: its server, or else one of its commands, answers a search."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from memoryd.backends.backend import BackendError
from memoryd.backends.citing import Asked, Citer, Place
from memoryd.backends.qmd.answers import FoundPlace, read_answer, read_printed
from memoryd.backends.qmd.collections import Collections
from memoryd.backends.qmd.installation import Installation
from memoryd.backends.qmd.process import run
from memoryd.backends.qmd.upkeep import QmdUpkeep
from memoryd.config.load import AgentConfig
from memoryd.config.settings import QmdSettings
from memoryd.index.store import Store
from memoryd.search.engine import Gone, Visible
from memoryd.source.notes.discover import Discovery
from memoryd_client.schema.search import SearchBody, SearchResult
from memoryd_client.schema.status import BackendStatus
from memoryd_client.shared import paths

NAME = "qmd"
_MODES: Mapping[str, str] = MappingProxyType(
    {"keyword": "search", "vector": "vsearch", "hybrid": "query"}
)
"""QMD's names of the modes of a search."""
_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"search": ("lex",), "vsearch": ("vec",), "query": ("lex", "vec")}
)
"""The kinds of search that each mode combines."""
_OVERFETCH, _LEAST, _MOST = 4, 24, 200
"""Results asked for: some of them are not for the reader, or excluded."""
_COMMANDS = 2
"""Maximum searches by command at a time: each is a process of 70 MB."""


def make_qmd(config: AgentConfig, store: Store, discovery: Discovery) -> "QmdBackend":
    """Return QMD for one agent, in a folder of its own below the state folder."""
    settings, home = config.settings, home_of(config)
    return QmdBackend(
        settings.qmd,
        home,
        Collections(config.agent, discovery, settings.extra_paths, store, home / "sessions"),
        Citer(store, settings.query, discovery.origin),
    )


def home_of(config: AgentConfig) -> Path:
    """Return the folder of QMD's files for one agent."""
    return Path(paths.state_dir()) / NAME / config.agent


class QmdBackend:
    """QMD for one agent, in the folder `home`: its configuration, index and exports."""

    name = NAME

    def __init__(
        self, settings: QmdSettings, home: Path, collections: Collections, citer: Citer
    ) -> None:
        self._settings = settings
        self._home = home
        self._collections = collections
        self._citer = citer
        self._upkeep = QmdUpkeep(settings, home, collections)
        self.sync = self._upkeep.sync
        self.forgotten = self._upkeep.forgotten
        self.actors = self._upkeep.actors
        self._commands = asyncio.Semaphore(_COMMANDS)

    async def search(
        self, body: SearchBody, visible: Visible | None = None, gone: Gone | None = None
    ) -> SearchResult:
        """Search within the time limit. Raises `BackendError` and `BadQueryError`."""
        started = time.perf_counter()
        asked = self._citer.read_request(body)
        if asked.min_confidence:
            raise BackendError("qmd does not rate how sure a result is (`min_confidence`)")
        mode = self._settings.search_mode if body.mode is None else _MODES[body.mode]
        result = SearchResult([], NAME, "", "none")
        if not asked.query.text:
            return result
        installation = await self._upkeep.installed()
        result.model = installation.version
        if not self._upkeep.has_index:
            raise BackendError(self._upkeep.update_problem or "qmd has not made its index yet")
        limit_s, server = self._settings.search_timeout_ms / 1000, self._upkeep.server
        try:
            async with asyncio.timeout(limit_s):
                mode, places = await self._find(installation, asked, mode)
        except TimeoutError:
            if server is not None:
                self._upkeep.replace(server, "it did not answer in time")
            raise BackendError(f"qmd did not answer within {limit_s:g} s") from None
        result.results, result.omitted = await self._citer.cite(asked, places, visible, gone)
        result.mode = next(ours for ours, theirs in _MODES.items() if theirs == mode)
        if not self._uses_vectors(mode):
            result.mode = "keyword"
        elif mode != "search" and (warning := self._upkeep.without_vectors) is not None:
            result.mode = "keyword"
            result.warnings.append(warning)
        result.took_ms = (time.perf_counter() - started) * 1000
        return result

    def path_of(self, named: str) -> str:
        """Return the path of a file that QMD names, such as `qmd://memory-dir-main/a.md`."""
        key = self._collections.keys_of([named])[0]
        return named if key is None else key.path

    async def health(self) -> str:
        """Search for a word; return how it was answered. Raises `BackendError`."""
        installation, mode = await self._upkeep.installed(), self._settings.search_mode
        if mode != "search" and (warning := self._upkeep.without_vectors) is not None:
            raise BackendError(warning, 'see docs/backends.md, or set search_mode = "search"')
        limit_s = self._settings.command_timeout_seconds
        try:
            async with asyncio.timeout(limit_s):
                await self._ask(installation, "memoryd", mode, 1)
        except TimeoutError:
            raise BackendError(f"qmd did not answer within {limit_s:g} s") from None
        return f"qmd {installation.version}, {mode}, by {self._way()}"

    def status(self) -> BackendStatus:
        """Return the state of QMD."""
        upkeep = self._upkeep
        is_ready = upkeep.missing is None and upkeep.has_index
        reason = None if is_ready else upkeep.missing or upkeep.update_problem
        server, installation, updated_s = upkeep.server, upkeep.installation, upkeep.updated_s
        return BackendStatus(
            NAME,
            "ready" if is_ready else "starting" if reason is None else "unavailable",
            reason=reason,
            version="" if installation is None else installation.version,
            mode=self._settings.search_mode,
            way=self._way(),
            pid=None if server is None else server.pid,
            documents=upkeep.counts.documents,
            vectors=upkeep.counts.vectors,
            updated_s_ago=None if updated_s is None else time.monotonic() - updated_s,
            problem=upkeep.problem if is_ready else None,
        )

    async def _find(
        self, installation: Installation, asked: Asked, mode: str
    ) -> tuple[str, list[Place]]:
        """Return the mode that worked, of the wanted one and `query`, and what it found."""
        limit = min(_MOST, max(_LEAST, _OVERFETCH * asked.max_results))
        try:
            found = await self._ask(installation, asked.query.text, mode, limit)
        except BackendError:
            if mode == "query":
                raise
            mode = "query"
            found = await self._ask(installation, asked.query.text, mode, limit)
        keys = self._collections.keys_of([place.file for place in found])
        return mode, [
            Place(key, place.line, place.score)
            for key, place in zip(keys, found, strict=True)
            if key is not None
        ]

    async def _ask(
        self, installation: Installation, text: str, mode: str, limit: int
    ) -> list[FoundPlace]:
        """Ask the server, or a command while there is none."""
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        kinds = [kind for kind in _KINDS[mode] if kind == "lex" or self._uses_vectors(mode)]
        if not text:
            return []
        if mode == "vsearch" and not self._upkeep.counts.vectors:
            raise BackendError("qmd has no vectors")
        if (server := self._upkeep.server) is not None:
            request = {
                "searches": [{"type": kind, "query": text} for kind in kinds],
                # Else the server searches those that there were when it started.
                "collections": self._collections.names,
                "limit": limit,
                "rerank": self._settings.rerank and mode == "query",
            }
            try:
                found = read_answer(await server.post("/query", msgspec.json.encode(request)))
            except BackendError as error:
                raise BackendError(f"qmd: {error.message}") from error
        else:
            options = ["--json", "-n", str(limit)]
            # `qmd vsearch` would have another large model rewrite the question first.
            name = "search" if mode == "search" else "query"
            if name == "query":
                options += [] if self._settings.rerank and mode == "query" else ["--no-rerank"]
                text = "\n".join(f"{kind}: {text}" for kind in kinds)
            limit_s = self._settings.command_timeout_seconds
            async with self._commands:
                command = (name, *options, "--", text)
                outputs = await run(
                    installation, self._home, *command, limit_s=limit_s, may_crash=True
                )
            found = read_printed(*outputs)
        if mode == "vsearch" and not found:  # a vector has always a nearest one
            raise BackendError("qmd has no model for vectors")
        return found

    def _uses_vectors(self, mode: str) -> bool:
        return self._settings.search_mode != "search" or mode == "vsearch"

    def _way(self) -> str:
        return "command" if self._upkeep.server is None else "http"
