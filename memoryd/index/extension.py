"""Trial load of sqlite-vec in a separate process, because a broken extension may crash or hang."""

import asyncio
import os
import sys
from pathlib import Path

from memoryd.index.driver import ExtensionError

TIMEOUT_S = 30.0
"""Seconds for the process to start and load the extension, even from a slow disk."""

_LOAD = """
import sys
from memoryd.index.driver import ExtensionError, load_extension, sqlite
try:
    print(load_extension(sqlite.connect(":memory:"), sys.argv[1]))
except ExtensionError as error:
    sys.exit(str(error))
"""


def expanded(path: str) -> str:
    """Return a configured path with `~` expanded."""
    return str(Path(path).expanduser())


def _check_kind(path: str) -> None:
    for file in (path, f"{path}.so", f"{path}.dylib"):  # the names that SQLite tries
        if os.path.exists(file) and not os.path.isfile(file):
            raise ExtensionError(f"{file} is not a regular file")


async def load_apart(path: str, *, timeout_s: float = TIMEOUT_S) -> str:
    """Load the extension at `path` and return its version. Raises `ExtensionError`."""
    await asyncio.to_thread(_check_kind, path)
    # The child finds the modules of this process, but (-P) none in the working directory, whose
    # files may belong to somebody else.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _LOAD, path),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        raise ExtensionError(f"{path} did not load within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return out.decode("utf-8", "replace").strip()
    last = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
    raise ExtensionError(last or f"loading {path} exited with code {process.returncode}")
