"""Frames on a byte stream: a big-endian u32 length, then that many bytes of MessagePack.

Pure. Both ends of the socket use it, with or without an event loop.
"""

from memoryd_client.wire.protocol import MAX_FRAME_BYTES, Frame, encode

HEADER_BYTES = 4


class FrameError(ValueError):
    """The byte stream is not valid frames; its connection must be closed."""


class FrameTooLargeError(FrameError):
    """A frame announces, or needs, more bytes than its receiver accepts."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"a frame of {length} bytes exceeds the limit of {limit} bytes")
        self.length = length
        self.limit = limit


class EmptyFrameError(FrameError):
    """A frame announces no bytes, which is never a message."""

    def __init__(self) -> None:
        super().__init__("a frame of 0 bytes is not a message")


def pack(frame: Frame, *, limit: int = MAX_FRAME_BYTES) -> bytes:
    """Encode a frame for the wire, length first.

    Raises `FrameTooLargeError` if its body is longer than `limit` bytes.
    """
    body = encode(frame)
    if len(body) > limit:
        raise FrameTooLargeError(len(body), limit)
    return len(body).to_bytes(HEADER_BYTES, "big") + body


class FrameBuffer:
    """Splits a byte stream into frames.

    Holds at most one unfinished frame. After a `FrameError` the position in the stream is lost:
    drop the buffer together with its connection.
    """

    def __init__(self, *, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._header = bytearray()
        self._body = bytearray()
        self._length = 0

    @property
    def unfinished_bytes(self) -> int:
        """Received bytes of an incomplete frame."""
        return len(self._header) + len(self._body) + (HEADER_BYTES if self._length else 0)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Take the next bytes of the stream and return the bodies of the frames they complete.

        Raises `FrameTooLargeError` as soon as a frame announces more than the limit, before keeping
        any of its body, and `EmptyFrameError` for a frame of 0 bytes.
        """
        frames: list[bytes] = []
        rest = memoryview(data)
        while rest:
            if not self._length:
                rest = self._read_header(rest)
                continue
            missing = self._length - len(self._body)
            if not self._body and len(rest) >= missing:
                frames.append(bytes(rest[:missing]))
                self._length = 0
            else:
                self._body += rest[:missing]
                if len(self._body) == self._length:
                    frames.append(bytes(self._body))
                    self._body = bytearray()
                    self._length = 0
            rest = rest[missing:]
        return frames

    def _read_header(self, rest: memoryview) -> memoryview:
        missing = HEADER_BYTES - len(self._header)
        self._header += rest[:missing]
        if len(self._header) == HEADER_BYTES:
            length = int.from_bytes(self._header, "big")
            if length > self._limit:
                raise FrameTooLargeError(length, self._limit)
            if length == 0:
                raise EmptyFrameError
            self._header.clear()
            self._length = length
        return rest[missing:]
