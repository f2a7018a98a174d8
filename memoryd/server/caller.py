"""The client's side of one request, as those who work on it see it."""

from collections.abc import Awaitable, Callable

from memoryd_client.wire.protocol import Body, Frame, Item, Progress, raw


class Caller:
    """Who asks: which agent they mean, and how they are told about it meanwhile.

    `agent` is the one they name, if any; `folder` their current directory, absolute, or "".
    """

    def __init__(
        self,
        request_id: int,
        *,
        agent: str | None,
        folder: str,
        offer: Callable[[Frame], None],
        stream: Callable[[Frame], Awaitable[None]],
    ) -> None:
        """`offer` sends a frame unless the client reads slowly, `stream` once it has room."""
        self.agent = agent
        self.folder = folder
        self._id = request_id
        self._offer = offer
        self._stream = stream

    def progress(self, completed: int, total: int, label: str) -> None:
        """Tell how far the request has come. May be dropped when the client reads slowly."""
        self._offer(Progress(self._id, completed, total, label))

    async def item(self, body: Body) -> None:
        """Send one element of a streamed answer, and wait until the client has room for more."""
        await self._stream(Item(self._id, raw(body)))
