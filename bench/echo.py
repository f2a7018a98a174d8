"""Bare asyncio echo server to compare `ping` with: `python bench/echo.py SOCKET`.

Its times are the cost of the event loop and the socket alone.
"""

import asyncio
import sys

HEADER_BYTES = 4


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            header = await reader.readexactly(HEADER_BYTES)
            body = await reader.readexactly(int.from_bytes(header, "big"))
            writer.write(header + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _serve(path: str) -> None:
    server = await asyncio.start_unix_server(_echo, path)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
