"""The process of a local model and its pipes."""

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from memoryd.embed import model_cache
from memoryd.embed.worker import (
    FRAME_HEADER,
    LOADED_ID,
    MAX_FRAME_BYTES,
    EmbedReply,
    EmbedRequest,
    pack,
)

log = logging.getLogger(__name__)

_EXIT_S = 1.0
_STDERR = 2
_ENDED = "its process ended"
_STDERR_TAIL_BYTES = 4_000
_STDERR_LINE_CHARS = 300
_PASSED_ON = {
    *("HOME", "LANG", "LANGUAGE", "PATH", "TMPDIR", "TZ"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
}
_PASSED_ON_PREFIXES = ("LC_", "GGML_", "GOMP_", "KMP_", "MKL_", "OMP_", "OPENBLAS_", "VECLIB_")
"""Variables of Python, the system and the numeric libraries. The model's process gets no others:
the daemon's contain keys."""


class WorkerError(Exception):
    """The worker died, sent an invalid answer, or `hangs`; `is_cause`: at this request, if any."""

    def __init__(self, message: str, *, hangs: bool = False, is_cause: bool = True) -> None:
        super().__init__(message)
        self.hangs = hangs
        self.is_cause = is_cause


class _Asked(NamedTuple):
    """A request whose answer has not arrived, and the seconds that it may take."""

    request_id: int
    reply: asyncio.Future[EmbedReply]
    limit_s: float


class Worker(asyncio.SubprocessProtocol):
    """A worker process and its pipes: it answers requests in their order.

    A plain protocol, because streams would take two more turns of the event loop for each question.
    """

    def __init__(self, *, reason_mark: str = "") -> None:
        """`reason_mark` precedes the reason of a failure in a line of stderr."""
        self._loop = asyncio.get_running_loop()
        self._reason_mark = reason_mark
        self._last_id = LOADED_ID
        self._asked = deque[_Asked]()
        self._received = bytearray()
        self._stderr = b""
        self._problem: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._late_at_s = 0.0
        self._exited, self._closed = self._loop.create_future(), self._loop.create_future()

    @classmethod
    async def start(cls, module: str, *arguments: str, reason_mark: str = "") -> "Worker":
        """Start a module as a process. Raises OSError."""
        _, worker = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(reason_mark=reason_mark),
            *_command(module, *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=_environment(),
        )
        return worker

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the pipes of the started process."""
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._requests = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._transport.get_pid()

    @property
    def is_usable(self) -> bool:
        """False once the process has ended, or a request has failed."""
        return self._problem is None and self._transport.get_returncode() is None

    async def loaded(self, timeout_s: float) -> EmbedReply:
        """Wait until the model is loaded or refused. Raises `WorkerError`."""
        return await self._answer(LOADED_ID, timeout_s)

    async def encode(self, texts: list[str], timeout_s: float) -> bytes:
        """Return the vectors of texts, little-endian float32. Raises `WorkerError`.

        Does not wait for earlier requests. Once one has failed, all later ones do.
        """
        self._last_id += 1
        if self._requests.is_closing():
            self._fail(_ENDED)
        reply = self._answer(self._last_id, timeout_s)
        if self._problem is None:
            self._requests.write(pack(EmbedRequest(self._last_id, texts)))
        return (await reply).vectors

    async def kill(self) -> str:
        """Kill the process and close its pipes. Idempotent.

        Returns its exit code and the reason in its stderr, or else the last line of stderr.
        """
        if self._problem == _ENDED:
            # It is exiting by itself; kill() would reap it before asyncio does and lose its code.
            await asyncio.wait({self._exited}, timeout=_EXIT_S)
        self._fail(_ENDED, is_cause=False)
        with suppress(ProcessLookupError):
            self._transport.kill()
        self._requests.close()
        await asyncio.wait({self._closed})
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines() or [""]
        mark = self._reason_mark
        reasons = [line.rpartition(mark)[2] for line in lines if mark and mark in line]
        reason = (reasons or lines)[-1][-_STDERR_LINE_CHARS:]
        return f"exit code {self._transport.get_returncode()}; {reason}".removesuffix("; ")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take bytes of an answer, or of stderr."""
        if fd == _STDERR:
            self._stderr = (self._stderr + data)[-_STDERR_TAIL_BYTES:]
        elif self._problem is None:
            self._received += data
            self._take_replies()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Fail what waits for an answer of an ended process."""
        if fd != _STDERR:
            self._fail(_ENDED)

    def process_exited(self) -> None:
        """Note the end of the process."""
        self._exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the process and of all its pipes."""
        self._fail(_ENDED)
        self._transport.close()
        self._closed.set_result(None)

    def _answer(self, request_id: int, limit_s: float) -> asyncio.Future[EmbedReply]:
        """Expect an answer behind those that are expected already."""
        reply: asyncio.Future[EmbedReply] = self._loop.create_future()
        if self._problem is not None:
            reply.set_exception(WorkerError(self._problem))
            return reply
        self._asked.append(_Asked(request_id, reply, limit_s))
        if len(self._asked) == 1:
            self._watch_next()
            self._take_replies()
        return reply

    def _take_replies(self) -> None:
        try:
            while self._asked and (reply := self._next_reply()) is not None:
                self._settle(reply)
            if len(self._received) > FRAME_HEADER.size + MAX_FRAME_BYTES:
                raise WorkerError("it sent more than it was asked for")
        except WorkerError as error:
            self._fail(str(error))
        except (ValueError, RecursionError):
            self._fail("it sent an invalid frame")

    def _next_reply(self) -> EmbedReply | None:
        """Return the next whole frame. Raises `WorkerError`, ValueError or RecursionError."""
        begin = FRAME_HEADER.size
        if len(self._received) < begin:
            return None
        (size,) = FRAME_HEADER.unpack_from(self._received)
        if size > MAX_FRAME_BYTES:
            raise WorkerError("it sent a frame that is too long")
        if len(self._received) < begin + size:
            return None
        body = bytes(self._received[begin : begin + size])
        del self._received[: begin + size]
        return msgspec.msgpack.decode(body, type=EmbedReply)

    def _settle(self, reply: EmbedReply) -> None:
        if reply.id != self._asked[0].request_id:
            raise WorkerError("it answered another request")
        asked = self._asked.popleft()
        if not asked.reply.done():  # its caller may have left
            asked.reply.set_result(reply)
        if self._asked:
            self._watch_next()

    def _watch_next(self) -> None:
        """Measure the time of the request that the process works on now."""
        self._late_at_s = self._loop.time() + self._asked[0].limit_s
        if self._timer is None or self._late_at_s < self._timer.when():
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._late_at_s, self._check_time)

    def _check_time(self) -> None:
        """Fail a request that takes too long. One timer watches many that don't, one by one."""
        self._timer = None
        if self._asked and self._loop.time() < self._late_at_s:
            self._set_timer()
        elif self._asked:
            self._fail(f"no answer in {self._asked[0].limit_s:g} s", hangs=True)

    def _fail(self, problem: str, *, hangs: bool = False, is_cause: bool = True) -> None:
        """Fail all requests, of which the first is the cause."""
        self._problem = self._problem or problem
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._asked:
            reply = self._asked.popleft().reply
            if not reply.done():
                reply.set_exception(WorkerError(problem, hangs=hangs, is_cause=is_cause))
            is_cause = False


async def make_cache(folder: Path) -> None:
    """Have a process make the cache of the bundled model. Failures go to the log."""
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            *_command(model_cache.__name__, str(folder)),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env=_environment(),
        )
        _, errors = await process.communicate()
    except OSError as error:
        log.info("The cache of the local model was not made: %s", error)
        return
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        reason = (errors.decode("utf-8", "replace").strip().splitlines() or ["no reason"])[-1]
        log.info("The cache of the local model was not made: %s", reason[-_STDERR_LINE_CHARS:])


def _command(module: str, *arguments: str) -> tuple[str, ...]:
    # -P: import nothing from the current folder, whose files may be somebody else's.
    return (sys.executable, "-P", "-m", module, *arguments)


def _environment() -> dict[str, str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    # The process must find the same modules as the daemon.
    return environment | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
