import asyncio
import threading

from fake_daemon import FakeDaemon, Peer, answering
from waiting import cancelled_while, happened

from memoryd_client import AsyncClient
from memoryd_client.schema.memory import Event, PingResult

PONG = PingResult(pid=4242, version="9.9", uptime_s=1.5)
SEARCHED = Event("searched", "main", 1795834800.5, count=3)


async def test_a_loop_over_events_that_is_left_ends_the_stream() -> None:
    over = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.item(request, SEARCHED)
        assert peer.cancel().id == request.id
        assert peer.hung_up()
        over.set()

    with FakeDaemon(script) as daemon:
        async for event in AsyncClient(daemon.path).events():
            assert event == SEARCHED
            break
        await happened(over)


async def test_cancelling_who_waits_for_an_event_ends_the_stream() -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        asked.set()
        assert peer.cancel().id == request.id
        assert peer.hung_up()

    with FakeDaemon(script) as daemon:
        events = AsyncClient(daemon.path).events()
        await cancelled_while(lambda: anext(events), asked)
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_calls_go_on_while_one_waits_for_events() -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        peer.request()
        asked.set()
        assert peer.cancel().id == 1

    with FakeDaemon(answering(PONG), script, together=True) as daemon:
        async with AsyncClient(daemon.path) as client:
            events = client.events()
            waiting = asyncio.ensure_future(anext(events))
            await happened(asked)
            assert await client.ping() == PONG
            waiting.cancel()
            await asyncio.wait([waiting])
