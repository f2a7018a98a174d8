"""Patterns of `.memoryignore` and of extra paths, against arbitrary names."""

from contextlib import suppress

from memoryd.messages import split_lines
from memoryd.source.notes.ignore import IgnorePatternError, Patterns
from memoryd.source.notes.roots import Selection

SEEDS = [
    b"memory/a.md\0*.md\n!a.md\n# x\n/memory/\n",
    b"a/b/c.md\0**/b/**\n[a-c]*.md\n\\#x\n",
    b"x y.md\0x\\ y.md \n?.md\n[!a]\n[[:alpha:]]\n",
    b"aaaaaaaaaaaaaaaaaaaaaaaa\0*a*a*\n**/a/**/b\n",
]
DICTIONARY = [b"**/", b"/**", b"[!", b"[[:", b":]]", b"\\", b"!", b"*.md", b"\0"]
MAX_BYTES = 1_024


def check(data: bytes) -> None:
    """Match the name before the first NUL against the patterns behind it."""
    name, _, text = data.partition(b"\0")
    path = name.decode("utf-8", "surrogateescape")
    lines = split_lines(text.decode("utf-8", "replace"))
    with suppress(IgnorePatternError):
        patterns, problem = Patterns.of_file(lines)
        assert problem is None or problem
        for folder in (False, True):
            assert patterns.verdict(path, folder=folder) in (None, False, True)
    with suppress(IgnorePatternError):
        selection = Selection(lines[0] if lines else "", tuple(lines[1:]))
        parts = tuple(part for part in path.split("/") if part) or ("x",)
        if (taken := selection.enters(parts, taken=False)) is not None:
            selection.takes(f"{path}/y.md", taken=taken)
