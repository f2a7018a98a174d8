"""The file of workspaces that clients added, so that the next start serves them again."""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from memoryd.config.validate import ConfigError
from memoryd.fs.atomic_replace import rename_over
from memoryd_client.shared import ownership
from memoryd_client.shared.safe_open import open_regular

MAX_BYTES = 1024 * 1024


class AddedError(ConfigError):
    """The file can't be read, so the added workspaces are unknown."""


def read_added(path: Path) -> list[str]:
    """Return the added workspaces, none if there is no file. Raises `AddedError`."""
    try:
        with open_regular(path) as file:
            ownership.check_own(os.fstat(file.fileno()), str(path))
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        return msgspec.json.decode(data, type=list[str])
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AddedError(
            f"can't read {path}, the list of added workspaces: {reason}",
            "fix it or move it away, then run `memctl reload`",
        ) from error


def write_added(path: Path, workspaces: list[str]) -> None:
    """Replace the file, or remove it if there are no workspaces. Raises `OSError`."""
    if not workspaces:
        path.unlink(missing_ok=True)
        return
    new = unfinished(path)
    try:
        new.write_bytes(msgspec.json.format(msgspec.json.encode(workspaces), indent=2) + b"\n")
        rename_over(new, path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def unfinished(path: Path) -> Path:
    """Return the path of the unfinished file."""
    return path.with_name(f"{path.name}.new")
