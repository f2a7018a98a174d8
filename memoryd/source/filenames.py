"""Names of files and directories that may be memory under any configuration."""

import re
from pathlib import Path

from memoryd.fs.hang import tick

ROOT_FILES = ("MEMORY.md", "memory.md", "USER.md")
MEMORY_FOLDER = "memory"
IGNORE_FILE = ".memoryignore"
SUFFIX = ".md"
NOT_UTF8 = "its name is not UTF-8"
TOOL_FOLDERS = {"node_modules", "bower_components", "__pycache__", "site-packages", "venv"}


def is_markdown(name: str) -> bool:
    """Return whether a file with this name may be memory."""
    return name.lower().endswith(SUFFIX) and not name.startswith(".")


def is_tool_folder(name: str) -> bool:
    """Return whether a directory is hidden or a tool's, and so neither walked nor watched."""
    return name.startswith(".") or name in TOOL_FOLDERS


def is_utf8(name: str) -> bool:
    """Return whether an index and the wire can represent a name or path as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def split_glob(path: str) -> tuple[str, str]:
    """Return the directory before the first part with `*`, `?` or `[`, and the glob from there on.

    Returns the path and "" if it has none of these.
    """
    parts = path.split("/")
    for position, part in enumerate(parts):
        if re.search(r"[*?\[]", part):
            folder = "/".join(parts[:position]) or ("/" if position else ".")
            return folder, "/".join(parts[position:])
    return path, ""


def is_real_folder(path: Path) -> bool:
    """Return whether a path is a directory, not a link to one. Blocking."""
    tick(path)
    return path.is_dir() and not path.is_symlink()
