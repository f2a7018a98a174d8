"""The process of a local model and its pipes, for one owner with one request at a time."""

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

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
    """The worker died, sent an invalid answer, or `hangs`."""

    def __init__(self, message: str, *, hangs: bool = False) -> None:
        super().__init__(message)
        self.hangs = hangs


class Worker:
    """A worker process and its pipes."""

    def __init__(self, process: Process, *, reason_mark: str = "") -> None:
        """`reason_mark` precedes the reason of a failure in a line of stderr."""
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("the worker has to have pipes")
        self.process = process
        self._requests = process.stdin
        self._replies = process.stdout
        self._last_id = LOADED_ID
        self._reason_mark = reason_mark
        # Read continuously: a full pipe would block the worker.
        self._stderr = asyncio.create_task(_read_tail(process.stderr), name="local model's stderr")

    @classmethod
    async def start(cls, module: str, *arguments: str, reason_mark: str = "") -> "Worker":
        """Start a module as a process. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *_command(module, *arguments), stdin=PIPE, stdout=PIPE, stderr=PIPE, env=_environment()
        )
        return cls(process, reason_mark=reason_mark)

    async def loaded(self, timeout_s: float) -> EmbedReply:
        """Wait until the model is loaded or refused. Raises `WorkerError`."""
        return await self._answer(LOADED_ID, timeout_s)

    async def encode(self, texts: list[str], timeout_s: float) -> bytes:
        """Return the vectors of texts, little-endian float32. Raises `WorkerError`."""
        self._last_id += 1
        self._requests.write(pack(EmbedRequest(self._last_id, texts)))
        return (await self._answer(self._last_id, timeout_s)).vectors

    async def kill(self) -> str:
        """Kill the process and close its pipes.

        Returns its exit code and the reason in its stderr, or else the last line of stderr.
        """
        if self._replies.at_eof():
            # It is exiting by itself; kill() would reap it before asyncio does and lose its code.
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_S):
                    await self.process.wait()
        with suppress(ProcessLookupError):
            self.process.kill()
        self._requests.close()
        while await self._replies.read(MAX_FRAME_BYTES):
            pass  # an unread pipe never reaches its end
        code = await self.process.wait()
        lines = (await self._stderr).strip().splitlines() or [""]
        mark = self._reason_mark
        reasons = [line.rpartition(mark)[2] for line in lines if mark and mark in line]
        reason = (reasons or lines)[-1]
        return f"exit code {code}; {reason[-_STDERR_LINE_CHARS:]}".removesuffix("; ")

    async def _answer(self, request_id: int, timeout_s: float) -> EmbedReply:
        try:
            async with asyncio.timeout(timeout_s):
                await self._requests.drain()
                (size,) = FRAME_HEADER.unpack(await self._replies.readexactly(FRAME_HEADER.size))
                if size > MAX_FRAME_BYTES:
                    raise WorkerError("it sent a frame that is too long")
                body = await self._replies.readexactly(size)
            reply = msgspec.msgpack.decode(body, type=EmbedReply)
        except TimeoutError as error:
            raise WorkerError(f"no answer in {timeout_s:g} s", hangs=True) from error
        except (EOFError, ConnectionError) as error:
            raise WorkerError("its process ended") from error
        except (ValueError, RecursionError) as error:
            raise WorkerError("it sent an invalid frame") from error
        if reply.id != request_id:
            raise WorkerError("it answered another request")
        return reply


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


async def _read_tail(stream: asyncio.StreamReader) -> str:
    tail = b""
    while data := await stream.read(_STDERR_TAIL_BYTES):
        tail = (tail + data)[-_STDERR_TAIL_BYTES:]
    return tail.decode("utf-8", "replace")
