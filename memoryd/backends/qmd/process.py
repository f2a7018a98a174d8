"""Processes of QMD: commands with a time limit, and the server that answers over HTTP."""

import asyncio
import os
import signal
import socket
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path

from memoryd.backends.backend import BackendError
from memoryd.backends.qmd.installation import Installation

_PASSED_ON = {"HOME", "LANG", "PATH", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
_PASSED_ON_PREFIXES = ("LC_", "QMD_", "GGML_", "OMP_")
"""Variables of the daemon that QMD gets. No others, because they contain keys."""
_MAX_BYTES = 4 * 2**20
"""Most output that is read: 200 results have 0.1 MB."""
_STDERR_CHARS = 200
_EXIT_S = 1.0
"""Seconds for a process to end before it is killed."""
_START_S = 15.0
"""Seconds for the server to listen; it takes one, on a busy machine several."""
_LISTENS = b"listening on http://127.0.0.1:%d/"
HOST = "127.0.0.1"


def environment(home: Path) -> dict[str, str]:
    """Return the variables of QMD's processes: its own places below `home`, and no key."""
    passed_on = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    return {
        **passed_on,
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        # Else an index of a folder above would be used, or another one of the user's.
        "QMD_CONFIG_DIR": str(config_file(home).parent),
        "INDEX_PATH": str(index_file(home)),
        "NO_COLOR": "1",
    }


def config_file(home: Path) -> Path:
    """Return the path of QMD's configuration."""
    return home / "config" / "qmd" / "index.yml"


def index_file(home: Path) -> Path:
    """Return the path of QMD's index."""
    return home / "cache" / "qmd" / "index.sqlite"


async def run(
    installation: Installation, home: Path, *arguments: str, limit_s: float, may_crash: bool = False
) -> tuple[str, str]:
    """Run a command; return what it printed and what it reported. Raises `BackendError`.

    With `may_crash`, what it printed before it failed is good, as results often are.

    Its whole process group is killed when the time is over, and when the caller is cancelled.
    """
    name = f"`qmd {arguments[0]}`"
    process = await _start(installation, home, *arguments)
    try:
        async with asyncio.timeout(limit_s):
            outputs = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise BackendError(f"{name} did not end within {limit_s:g} s") from None
    finally:
        await end(process)
    printed, reported = (output.decode(errors="replace") for output in outputs)
    if code and not (may_crash and printed.strip()):
        raise BackendError(f"{name} ended with {_ended(code)}: {_reason(reported)}")
    return printed, reported


async def end(process: Process) -> None:
    """End a process and all that it started; idempotent."""
    try:
        if process.returncode is None:
            _signal(process, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_S):
                    await process.wait()
    finally:
        _signal(process, signal.SIGKILL)
    await process.wait()


class QmdServer:
    """The server process. It listens only on this machine, for every program of it."""

    def __init__(self, process: Process, port: int) -> None:
        self._process = process
        self._port = port

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @classmethod
    async def start(cls, installation: Installation, home: Path) -> "QmdServer":
        """Start it on a free port. Raises `BackendError`, also if the port is taken meanwhile."""
        port = _free_port()
        arguments = ("mcp", "--http", "--host", HOST, "--port", str(port))
        process = await _start(installation, home, *arguments)
        said = b""
        try:
            async with asyncio.timeout(_START_S):
                # Its own words, because another program could answer on this port.
                while _LISTENS % port not in said:
                    assert process.stderr is not None  # noqa: S101 - a pipe
                    if not (line := await process.stderr.readline()):
                        code = await process.wait()
                        reason = _reason(said.decode(errors="replace"))
                        raise BackendError(f"its server ended with {_ended(code)}: {reason}")
                    said = (said + line)[-4_096:]
            return cls(process, port)
        except TimeoutError:
            raise BackendError(f"its server did not start within {_START_S:g} s") from None
        except ValueError as error:  # a line without end
            raise BackendError("its server printed no text") from error
        finally:
            if _LISTENS % port not in said:
                await end(process)

    async def until_end(self) -> str:
        """Read its log until it ends; return how it ended."""
        await asyncio.gather(_drain(self._process.stdout), _drain(self._process.stderr))
        return _ended(await self._process.wait())

    async def stop(self) -> None:
        """End it."""
        await end(self._process)

    async def post(self, path: str, body: bytes) -> bytes:
        """Return the body of an answer. Raises `BackendError` for an error and for garbage."""
        request = (
            f"POST {path} HTTP/1.0\r\nHost: {HOST}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            reader, writer = await asyncio.open_connection(HOST, self._port)
            try:
                writer.write(request.encode() + body)
                await writer.drain()
                answer = await _read(reader)
            finally:
                writer.close()
        except OSError as error:
            raise BackendError(f"its server does not answer: {error.strerror or error}") from error
        head, _, content = answer.partition(b"\r\n\r\n")
        status = head.split(b"\r\n")[0].split(b" ")[1:2]
        if status != [b"200"]:
            shown = b" ".join(status).decode(errors="replace")[:20] or "no status"
            raise BackendError(f"its server answered with an error ({shown})")
        return content


async def _start(installation: Installation, home: Path, *arguments: str) -> Process:
    try:
        index_file(home).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return await asyncio.create_subprocess_exec(
            *installation.command(*arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment(home),
            cwd=home,
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(f"qmd can't be started: {error.strerror}") from error


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """Read everything. Raises `BackendError` for more than any answer has."""
    parts = bytearray()
    while stream is not None and (part := await stream.read(2**16)):
        parts += part
        if len(parts) > _MAX_BYTES:
            raise BackendError(f"qmd printed more than {_MAX_BYTES // 2**20} MB")
    return bytes(parts)


async def _drain(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(2**16):
        pass


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code}"


def _reason(reported: str) -> str:
    """Return the line that most likely says why: the one with an error, else the last."""
    lines = [line.strip() for line in reported.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() and not line.startswith("at ")]
    return (errors or lines or ["it printed nothing"])[0 if errors else -1][:_STDERR_CHARS]
