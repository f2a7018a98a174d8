"""The back end protocol, the built-in index behind it, and the search with fallback."""

from typing import Protocol

from memoryd.errors import HintedError
from memoryd.index.driver import Connection, Error
from memoryd.index.store import Store
from memoryd.index.write_outage import reason
from memoryd.search.engine import Gone, SearchEngine, Visible
from memoryd.supervisor import Actor
from memoryd_client.schema.search import BackendFallback, SearchBody, SearchResult
from memoryd_client.schema.status import BackendStatus

BUILTIN = "builtin"


class BackendError(HintedError):
    """The back end can't answer, for the reason in the message; `hint` is the fix."""


class Backend(Protocol):
    """The part of an agent that answers its searches.

    All back ends cite files of the index, by the same paths and lines, and hide the same of them.
    """

    @property
    def name(self) -> str:
        """The name in the configuration and in answers."""

    async def search(
        self, body: SearchBody, visible: Visible | None = None, gone: Gone | None = None
    ) -> SearchResult:
        """Search. Raises `BadQueryError`, or `BackendError` if it can't answer.

        Only `visible` files are shown. `gone` returns which files no longer exist on disk.
        """

    def path_of(self, named: str) -> str:
        """Return the path of the file to `get` that is named in the back end's own way."""

    async def sync(self) -> None:
        """Make the present files searchable. Raises `BackendError`."""

    def forgotten(self) -> None:
        """Erase soon the texts that the index has forgotten."""

    async def health(self) -> str:
        """Return how it answers now. Raises `BackendError` if it can't."""

    def status(self) -> BackendStatus:
        """Return its state. Does not wait."""


class ExternalBackend(Backend, Protocol):
    """A back end in another program, which its actors start, keep up to date and stop."""

    def actors(self) -> list[Actor]:
        """Return the actors."""


class BuiltinIndex:
    """The index of memoryd, which its actors keep up to date."""

    name = BUILTIN

    def __init__(self, engine: SearchEngine, store: Store) -> None:
        self._store = store
        self.search = engine.search

    def path_of(self, named: str) -> str:
        """Return the name itself: the index has the paths of the files."""
        return named

    async def sync(self) -> None:
        """Do nothing: requests to update the index go to its actors."""

    def forgotten(self) -> None:
        """Do nothing: the writer has erased them."""

    async def health(self) -> str:
        """Return the number of chunks. Raises `BackendError` for an index that can't be read."""

        def count(connection: Connection) -> int:
            return int(connection.execute("SELECT count(*) FROM chunks").fetchone()[0])

        try:
            return f"{await self._store.readers.read(count):,} chunks"
        except (Error, OSError) as error:
            raise BackendError(f"the index can't be read: {reason(error)}") from error

    def status(self) -> BackendStatus:
        """Return that it is ready; the rest of `status` is about it."""
        return BackendStatus(BUILTIN, "ready")


class WithFallback:
    """Another back end first, and the built-in index whenever that can't answer.

    Every search tries the back end again. An answer reports which of the two it is from.
    """

    def __init__(self, first: ExternalBackend, builtin: BuiltinIndex) -> None:
        self.first = first
        self._builtin = builtin
        self._answers = self._fallbacks = 0
        self._last: str | None = None

    @property
    def name(self) -> str:
        """The configured back end."""
        return self.first.name

    async def search(
        self, body: SearchBody, visible: Visible | None = None, gone: Gone | None = None
    ) -> SearchResult:
        """Search with the first back end that can answer."""
        try:
            result = await self.first.search(body, visible, gone)
        except BackendError as error:
            result = await self._builtin.search(body, visible, gone)
            result.backend = self._builtin.name
            result.backend_fallback = BackendFallback(self.name, error.message)
            result.warnings.append(f"the built-in index answered: {error.message}")
            self._fallbacks += 1
            self._last = error.message
            return result
        self._answers += 1
        result.backend = self.name
        return result

    def path_of(self, named: str) -> str:
        """Return the path of a file that either of the two names."""
        return self.first.path_of(named)

    async def sync(self) -> None:
        """Update the first back end, if that works: the built-in index answers if not."""
        try:
            await self.first.sync()
        except BackendError:
            return  # in its status

    def forgotten(self) -> None:
        """Have the first back end forget too."""
        self.first.forgotten()

    async def health(self) -> str:
        """Return how the first back end answers. Raises `BackendError` if it can't."""
        return await self.first.health()

    def status(self) -> BackendStatus:
        """Return the state of the first back end, with the answers of both."""
        status = self.first.status()
        status.answers, status.fallbacks = self._answers, self._fallbacks
        status.last_fallback = self._last
        return status
