"""Display of paths that are not valid UTF-8."""

import os


def shown_path(path: str | os.PathLike[str]) -> str:
    r"""Return a path, or a text that contains one, with bytes that are not UTF-8 as `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
