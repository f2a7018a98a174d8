"""Checks of one agent's index: its file, rows and vectors, then the files on disk."""

import asyncio
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from memoryd.agent.consent import leaving
from memoryd.agent.factories import choose_provider, store_options, wanted_identity
from memoryd.config.load import AgentConfig
from memoryd.doctor import rows, structure, vectors
from memoryd.doctor.comparing import compare
from memoryd.doctor.finding import Finding, Topic
from memoryd.doctor.model import check_model, check_route
from memoryd.doctor.reading import ChangedError, opened
from memoryd.doctor.running import RunningDaemon
from memoryd.doctor.serving import route_of
from memoryd.embed.provider import Provider
from memoryd.embed.resolve import Resolved
from memoryd.identity import Identity
from memoryd.index.driver import Connection, Error, Fault, fault_of, in_words, one_value
from memoryd.index.queries import StoredIdentity
from memoryd.index.schema import get_choice
from memoryd.index.store import StoreOptions
from memoryd_client.shared.humanize import counted

TRIES = 3
"""Maximum attempts if the index is replaced while it is read."""


class IndexDoctor:
    """Checks of one agent's index. `daemon` has it open; None if none does.

    `folders` counts the folders to watch; it is set by `run`.
    """

    def __init__(self, config: AgentConfig, daemon: RunningDaemon | None) -> None:
        self.folders = 0
        self._config = config
        self._daemon = daemon

    def run(self) -> list[Finding]:
        """Check the model, the index, its vectors and the disk."""
        options = asyncio.run(store_options(self._config))
        driver = Topic("driver", self._config.agent)
        configured = self._config.settings.store.vector.extension_path
        if configured is not None and options.extension_error is not None:
            driver.warning(
                f"the configured sqlite-vec does not load: {options.extension_error}",
                "correct store.vector.extension_path; vectors are searched in memory meanwhile",
            )
        for _ in range(TRIES):
            try:
                return driver.findings + self._check(options)
            except ChangedError:
                continue
        topic = Topic("index", self._config.agent)
        topic.warning("the index keeps changing while it is read", "run the doctor again")
        return topic.findings

    def _check(self, options: StoreOptions) -> list[Finding]:
        index, path = Topic("index", self._config.agent), self._config.db_path
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                index.error(f"{path} is not a file", "set store.path to another one")
            else:
                with in_words(), opened(path, options.extension) as connection:
                    return self._examine(connection, index, options)
        except (FileNotFoundError, NotADirectoryError):
            if self._daemon is None:
                index.warning(f"no such index yet: {path}", "the first start creates it")
            else:
                index.error(
                    f"the index {path} is missing while memoryd has it open", "memctl restart"
                )
        except (Error, OSError) as error:
            _report(index, error)
        return index.findings + self._model(self._resolved(StoredIdentity()))[0]

    def _examine(
        self, connection: Connection, index: Topic, options: StoreOptions
    ) -> list[Finding]:
        identity, peeked = None, StoredIdentity()
        # One snapshot of all tables. Files on disk are compared one by one, in later snapshots.
        with _guarded(index):
            connection.execute("BEGIN")
            if structure.check_file(connection, index):
                identity = structure.check_schema(connection, index, self._config.workspace)
        if identity is not None:
            peeked = StoredIdentity(identity, get_choice(connection))
        resolved = self._resolved(peeked)
        findings, provider = self._model(resolved)
        if identity is None:
            return index.findings + findings
        self._compare_identity(index, identity, resolved, provider)
        with _guarded(index):
            structure.check_relations(connection, index)
            rows.check_files(connection, index)
            rows.check_chunks(connection, index, identity)
        findings += self._vectors(connection, identity, resolved, options)
        connection.execute("ROLLBACK")
        found, self.folders = compare(connection, self._config, identity, self._daemon)
        return index.fine(f"{self._config.db_path} is intact") + findings + found

    def _resolved(self, peeked: StoredIdentity) -> Resolved:
        return choose_provider(self._config.settings, peeked)

    def _model(self, resolved: Resolved) -> tuple[list[Finding], Provider | None]:
        topic = Topic("model", self._config.agent)
        provider = check_model(topic, self._config.settings, resolved)
        if provider is None:
            return topic.fine("no provider: only keywords are searched"), None
        # The environment of a running daemon may name another proxy.
        running = None if self._daemon is None else route_of(self._daemon, self._config.agent)
        route = running or provider.route
        check_route(topic, route, leaving(self._config, resolved, provider))
        where = "" if route.address is None else f", texts go to {route}"
        return topic.fine(f"{provider.name} {provider.model}{where}"), provider

    def _compare_identity(
        self, index: Topic, identity: Identity, resolved: Resolved, provider: Provider | None
    ) -> None:
        if provider is None and resolved.provider != "none":
            return  # reported with the model
        difference = wanted_identity(self._config, provider).difference(identity)
        if difference is not None:
            index.warning(
                f"the index was built with other settings: {difference}",
                "memoryd rebuilds it by itself; `memctl status` shows the progress",
            )

    def _vectors(
        self,
        connection: Connection,
        identity: Identity,
        resolved: Resolved,
        options: StoreOptions,
    ) -> list[Finding]:
        topic = Topic("vectors", self._config.agent)
        number = 0
        with _guarded(topic):
            vec = options.extension is not None
            vectors.check_vectors(connection, topic, identity, vec=vec)
            vectors.check_waiting(connection, topic, identity, embeds=resolved.provider != "none")
            embedded = "SELECT count(*) FROM chunks WHERE vector_id IS NOT NULL"
            number = one_value(connection, embedded)
        return topic.fine(f"{counted(number, 'chunk')} with a vector")


@contextmanager
def _guarded(topic: Topic) -> Iterator[None]:
    """Turn an error of SQLite into a finding and end the block's checks."""
    try:
        with in_words():
            yield
    except Error as error:
        _report(topic, error)


def _report(topic: Topic, error: Exception) -> None:
    if fault_of(error) is Fault.CORRUPT:
        topic.error(f"the index is corrupt: {error}", structure.MOVED_ASIDE)
    else:
        topic.error(
            f"the index can't be read: {error}", "check the disk and the file's permissions"
        )
