"""Which names of files and folders may be memory, whatever the configuration says."""

from pathlib import Path

from memoryd.fs.hang import tick

ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"
IGNORE_FILE = ".memoryignore"
SUFFIX = ".md"
NOT_UTF8 = "its name is not UTF-8"
TOOL_FOLDERS = frozenset(
    {"node_modules", "bower_components", "__pycache__", "site-packages", "venv"}
)


def is_markdown(name: str) -> bool:
    """Say whether a file of this name may be memory."""
    return name.lower().endswith(SUFFIX) and not name.startswith(".")


def is_tool_folder(name: str) -> bool:
    """Say whether a folder of this name is hidden or a tool's: neither walked nor watched."""
    return name.startswith(".") or name in TOOL_FOLDERS


def is_utf8(name: str) -> bool:
    """Say whether a name, or a path, can be written as UTF-8: in an index and on the wire."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_real_folder(path: Path) -> bool:
    """Say whether a path is a folder, not a link to one. Blocking."""
    tick(path)
    return path.is_dir() and not path.is_symlink()
