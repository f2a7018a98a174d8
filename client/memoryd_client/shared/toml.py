"""TOML reader that reports every problem as `ValueError`."""

import tomllib
from typing import Any

MAX_BYTES = 1024 * 1024


def loads(data: bytes) -> dict[str, Any]:
    """Return the document. Raises `ValueError` with a message for the user."""
    if len(data) > MAX_BYTES:
        raise ValueError("larger than 1 MiB")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise ValueError("not valid TOML: nested too deeply") from None
    except ValueError as error:  # a plain one for a number with thousands of digits
        raise ValueError(f"not valid TOML: {error}") from error
