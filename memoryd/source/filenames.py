"""Names of files and directories that may be memory under any configuration."""

import re
from pathlib import Path

from memoryd.fs.hang import tick

ROOT_FILES = ("MEMORY.md", "memory.md", "USER.md")
MEMORY_FOLDER = "memory"
DREAMING_FOLDER = "dreaming"
"""Directory in the memory folder for the reports that OpenClaw writes about its own notes."""
IGNORE_FILE = ".memoryignore"
SUFFIX = ".md"
OTHER_SUFFIXES = (".markdown", ".mdown", ".mdwn", ".mkd", ".mkdn", ".mkdown")
"""Other endings of Markdown files; such files are not memory, but counted as hidden."""
NOT_UTF8 = "its name is not UTF-8"
DOT_RULE = "names that begin with a dot"
DREAMING_RULE = f"OpenClaw's reports in {MEMORY_FOLDER}/{DREAMING_FOLDER}"
IGNORE_RULE = f"{IGNORE_FILE} files"
_SESSION_NOTE = re.compile(
    rf"{MEMORY_FOLDER}/\d{{4}}-\d\d-\d\d-\d{{4}}(?:-\d+)?\.md", re.IGNORECASE
)
TOOL_FOLDERS = {"node_modules", "bower_components", "__pycache__", "site-packages", "venv"}


def is_markdown(name: str) -> bool:
    """Return whether a file with this name may be memory."""
    return name.lower().endswith(SUFFIX) and not name.startswith(".")


def is_session_note(path: str) -> bool:
    """Return whether a note has the name of one about a conversation, of memoryd or an agent."""
    return _SESSION_NOTE.fullmatch(path) is not None


def is_tool_folder(name: str) -> bool:
    """Return whether a directory is hidden or a tool's, and so neither walked nor watched."""
    return name.startswith(".") or name in TOOL_FOLDERS


def hiding_rule(name: str, *, folder: bool) -> str | None:
    """Return the built-in rule that hides a directory or a Markdown file, None if none does.

    Rules are in the plural, because they are shown with a count. Other files are no candidates.
    """
    if folder:
        if name.startswith("."):
            return DOT_RULE
        return f"folders called {name}" if name in TOOL_FOLDERS else None
    lowered = name.lower()
    other = next((suffix for suffix in OTHER_SUFFIXES if lowered.endswith(suffix)), None)
    if name.startswith("."):
        return DOT_RULE if other or lowered.endswith(SUFFIX) else None
    return None if other is None else f"names that end in {other}, not in {SUFFIX}"


def is_utf8(name: str) -> bool:
    """Return whether an index and the wire can represent a name or path as UTF-8."""
    if name.isascii():  # known without looking at the characters
        return True
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
