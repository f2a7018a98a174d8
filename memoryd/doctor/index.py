"""One agent's index: opened once, judged by itself, then held against the disk."""

import asyncio
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from memoryd.agent.factories import choose_provider, store_options, wanted_identity
from memoryd.config.load import AgentConfig
from memoryd.doctor import rows, structure, vectors
from memoryd.doctor.comparing import compare
from memoryd.doctor.finding import Finding, Topic
from memoryd.doctor.model import check_model
from memoryd.doctor.reading import ChangedError, opened
from memoryd.doctor.running import RunningDaemon
from memoryd.embed.provider import Provider
from memoryd.embed.resolve import Resolved
from memoryd.identity import Identity
from memoryd.index.driver import Connection, Error, Fault, fault_of, in_words
from memoryd.index.queries import StoredIdentity
from memoryd.index.schema import get_choice
from memoryd.index.store import StoreOptions
from memoryd_client.shared.humanize import counted

LOOKS = 3
"""An index that is replaced while it is looked at is looked at again."""


class IndexDoctor:
    """Examines one agent's index. `daemon` is the one that has it open, None if none does.

    `folders` counts those to watch, once it has run.
    """

    def __init__(self, config: AgentConfig, daemon: RunningDaemon | None) -> None:
        self.folders = 0
        self._config = config
        self._daemon = daemon

    def run(self) -> list[Finding]:
        """Return what was found of the model, the index, its vectors and the disk."""
        options = asyncio.run(store_options(self._config))
        driver = self._topic("driver")
        configured = self._config.settings.store.vector.extension_path
        if configured is not None and options.extension_error is not None:
            driver.warning(
                f"the configured sqlite-vec does not load: {options.extension_error}",
                "correct store.vector.extension_path; vectors are searched in memory meanwhile",
            )
        for _ in range(LOOKS):
            try:
                return driver.findings + self._look(options)
            except ChangedError:
                continue
        topic = self._topic("index")
        topic.warning("it changes again and again while it is read", "run the doctor once more")
        return topic.findings

    def _topic(self, check: str) -> Topic:
        return Topic(check, self._config.agent)

    def _look(self, options: StoreOptions) -> list[Finding]:
        index, path = self._topic("index"), self._config.db_path
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                index.error(f"{path} is not a file", "set store.path to another one")
            else:
                with in_words(), opened(path, options.extension) as connection:
                    return self._examine(connection, index, options)
        except (FileNotFoundError, NotADirectoryError):
            if self._daemon is None:
                index.warning(f"there is no index {path} yet", "the first start makes it")
            else:
                index.error(f"the index {path} is gone from under memoryd", "memctl restart")
        except (Error, OSError) as error:
            _tell(index, error)
        return index.findings + self._model(self._resolved(StoredIdentity()))[0]

    def _examine(
        self, connection: Connection, index: Topic, options: StoreOptions
    ) -> list[Finding]:
        identity, peeked = None, StoredIdentity()
        # One moment for all tables. The disk is compared file by file, each at its own.
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
        compared = compare(connection, self._config, identity, self._daemon)
        self.folders = compared.folders
        return index.fine(f"{self._config.db_path} is whole") + findings + compared.findings

    def _resolved(self, peeked: StoredIdentity) -> Resolved:
        return choose_provider(self._config.settings, peeked)

    def _model(self, resolved: Resolved) -> tuple[list[Finding], Provider | None]:
        topic = self._topic("model")
        provider = check_model(topic, self._config.settings, resolved)
        if provider is None:
            return topic.fine("there is no provider: keywords alone are searched"), None
        where = f", at {provider.address}" if provider.address else ""
        return topic.fine(f"{provider.name} {provider.model}{where}"), provider

    def _compare_identity(
        self, index: Topic, identity: Identity, resolved: Resolved, provider: Provider | None
    ) -> None:
        if provider is None and resolved.provider != "none":
            return  # told with the model
        difference = wanted_identity(self._config, provider).difference(identity)
        if difference is not None:
            index.warning(
                f"it was built with other settings: {difference}",
                "memoryd builds a new one by itself; `memctl status` shows how far it is",
            )

    def _vectors(
        self,
        connection: Connection,
        identity: Identity,
        resolved: Resolved,
        options: StoreOptions,
    ) -> list[Finding]:
        topic = self._topic("vectors")
        number = 0
        with _guarded(topic):
            vectors.check_cache(connection, topic, identity)
            if options.extension_error is None:
                vectors.check_table(connection, topic, identity)
            vectors.check_waiting(connection, topic, identity, embeds=resolved.provider != "none")
            number = connection.execute(
                "SELECT count(*) FROM chunks WHERE vector_id IS NOT NULL"
            ).fetchone()[0]
        return topic.fine(f"{counted(number, 'chunk')} with a vector")


@contextmanager
def _guarded(topic: Topic) -> Iterator[None]:
    """Make a finding of what SQLite can't read; the checks of the block end there."""
    try:
        with in_words():
            yield
    except Error as error:
        _tell(topic, error)


def _tell(topic: Topic, error: Exception) -> None:
    if fault_of(error) is Fault.DAMAGED:
        topic.error(f"the file is damaged: {error}", structure.MOVED_ASIDE)
    else:
        topic.error(f"it can't be read: {error}", "check the disk, and who may read the file")
