"""Tries sqlite-vec out in a process of its own: it may crash or hang, and this one must not."""

import asyncio
import os
import sys
from pathlib import Path

from memoryd.index.driver import ExtensionError

TIMEOUT_S = 30.0
"""For the process to start and load the extension, from a slow disk if need be."""

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
    for file in (path, f"{path}.so", f"{path}.dylib"):  # as SQLite looks for it
        if os.path.exists(file) and not os.path.isfile(file):
            raise ExtensionError(f"{file} is not a regular file")


async def load_apart(path: str, *, timeout_s: float = TIMEOUT_S) -> str:
    """Load the extension at `path` and return its version. Raises `ExtensionError`."""
    await asyncio.to_thread(_check_kind, path)
    # The modules that this process runs are to be found, and -P: nothing from the folder that it
    # runs in, whose files may be somebody else's.
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
    raise ExtensionError(last or f"loading {path} ended with {process.returncode}")
