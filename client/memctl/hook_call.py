"""Calls to the daemon for hooks, without msgspec and `socket`, which take longer to import.

It knows as much of MessagePack as the daemon's frames need. A hook has one connection and one call
at a time; its process ends at its limit, so nothing here waits with a limit of its own.
"""

import _socket
import os
import sys
from contextlib import suppress

PROTOCOL = 1
MAX_FRAME_BYTES = 4 * 1024 * 1024
_RECEIVE_BYTES = 65_536
Value = None | bool | int | float | str | bytes | list["Value"] | dict[str, "Value"]


class CallError(Exception):
    """The daemon does not answer, or answers with an error; `not_running`: none listens."""

    def __init__(self, reason: str, *, not_running: bool = False) -> None:
        super().__init__(reason)
        self.not_running = not_running


class HookCall:
    """A connection to the daemon at a socket; `folder` selects the workspace."""

    def __init__(self, path: str, *, name: str, folder: str, agent: str | None) -> None:
        """Connect. Raises `CallError`, also if another user listens."""
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._agent = agent
        self._data = b""
        self._calls = 0
        try:
            self._socket.connect(path)
            self._check_listener()
        except (FileNotFoundError, ConnectionRefusedError) as error:
            self.close()
            raise CallError("no memoryd is running", not_running=True) from error
        except BaseException:
            self.close()
            raise
        self._hello = framed(
            {
                "type": "hello",
                "protocol_min": PROTOCOL,
                "protocol_max": PROTOCOL,
                "client": name,
                "folder": folder,
                "kind": "agent",
            }
        )

    def ask(self, op: str, **body: Value) -> dict[str, Value]:
        """Return the result of an operation. Raises `CallError`, `OSError` or `ValueError`."""
        self._calls += 1
        request: dict[str, Value] = {"type": "request", "id": self._calls, "op": op, "body": body}
        if self._agent is not None:
            request["agent"] = self._agent
        # A daemon that takes no more clients says so and hangs up, perhaps before this is sent.
        with suppress(BrokenPipeError):
            self._socket.sendall(self._hello + framed(request))
        self._hello = b""
        while True:
            frame = self._next_frame()
            kind, result = frame.get("type"), frame.get("body")
            if kind == "error":
                raise CallError(str(frame.get("message")))
            if kind == "result" and isinstance(result, dict):
                return result

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _next_frame(self) -> dict[str, Value]:
        size = int.from_bytes(self._take(4), "big")
        if size > MAX_FRAME_BYTES:
            raise CallError("the answer is too large")
        frame, _ = unpacked(self._take(size), 0)
        if not isinstance(frame, dict):
            raise CallError("the answer is no frame")
        return frame

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            if not (received := self._socket.recv(_RECEIVE_BYTES)):
                raise CallError("memoryd has closed the connection")
            self._data += received
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def _check_listener(self) -> None:
        """Raise `CallError` unless a daemon of this user, or of root, listens; see `peer.py`."""
        if sys.platform == "darwin":
            uid = int.from_bytes(self._socket.getsockopt(0, 1, 76)[4:8], sys.byteorder)
        else:
            found = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
            uid = int.from_bytes(found[4:8], sys.byteorder)
        if uid not in (os.geteuid(), 0) and os.geteuid() != 0:
            raise CallError("another user listens")


def framed(frame: dict[str, Value]) -> bytes:
    """Return a frame for the wire, its length first."""
    body = packed(frame)
    return len(body).to_bytes(4, "big") + body


def packed(value: Value) -> bytes:
    """Return a value of a request as MessagePack: None, texts, small numbers and maps."""
    if value is None:
        return b"\xc0"
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32:
        return b"\xce" + value.to_bytes(4, "big")
    if isinstance(value, str):
        data = value.encode("utf-8", "replace")
        return b"\xdb" + len(data).to_bytes(4, "big") + data
    if isinstance(value, dict):
        items = b"".join(packed(key) + packed(each) for key, each in value.items())
        return b"\xdf" + len(value).to_bytes(4, "big") + items
    raise ValueError(f"no request has a {type(value).__name__}")


_SIZES = {
    0xC4: 1,
    0xC5: 2,
    0xC6: 4,  # bin
    0xD9: 1,
    0xDA: 2,
    0xDB: 4,  # str
    0xDC: 2,
    0xDD: 4,  # array
    0xDE: 2,
    0xDF: 4,  # map
}
"""Bytes of the length behind these first bytes."""
_NUMBERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}


def unpacked(data: bytes, at: int) -> tuple[Value, int]:
    """Return the value at a position and the position behind it. Raises `ValueError`.

    Floating-point numbers are skipped: they read as None.
    """
    if at >= len(data):
        raise ValueError("the value is cut off")
    first, at = data[at], at + 1
    if first < 0x80 or first >= 0xE0:
        return first if first < 0x80 else first - 0x100, at
    if first < 0x90:
        return _map(data, at, first & 0x0F)
    if first < 0xA0:
        return _array(data, at, first & 0x0F)
    if first < 0xC0:
        return _text(data, at, first & 0x1F)
    if first in (0xC0, 0xC2, 0xC3):
        return (None, False, True)[max(0, first - 0xC1)], at
    if first in (0xCA, 0xCB):
        return None, at + (4 if first == 0xCA else 8)
    if (size := _NUMBERS.get(first)) is not None:
        number = int.from_bytes(data[at : at + size], "big", signed=first >= 0xD0)
        return number, at + size
    if (size := _SIZES.get(first)) is None:
        raise ValueError(f"no frame has the byte {first:#x}")
    length, at = int.from_bytes(data[at : at + size], "big"), at + size
    if first >= 0xDE:
        return _map(data, at, length)
    if first >= 0xDC:
        return _array(data, at, length)
    return (data[at : at + length], at + length) if first <= 0xC6 else _text(data, at, length)


def _text(data: bytes, at: int, length: int) -> tuple[str, int]:
    return data[at : at + length].decode(), at + length


def _array(data: bytes, at: int, length: int) -> tuple[list[Value], int]:
    found: list[Value] = []
    for _ in range(length):
        value, at = unpacked(data, at)
        found.append(value)
    return found, at


def _map(data: bytes, at: int, length: int) -> tuple[dict[str, Value], int]:
    found: dict[str, Value] = {}
    for _ in range(length):
        key, at = unpacked(data, at)
        found[str(key)], at = unpacked(data, at)
    return found, at
