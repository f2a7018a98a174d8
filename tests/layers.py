"""The layers of the product, the imports that they allow, and their table in the documentation.

Run `python tests/layers.py` to print the table for docs/architecture.md.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DAEMON = ROOT / "memoryd"
CLIENT = ROOT / "client"
MODULES = sorted(DAEMON.rglob("*.py"))
CLIENT_MODULES = sorted(CLIENT.rglob("*.py"))

LAYERS: dict[str, dict[str, set[str]]] = {
    "words": {
        "text": {"client"},
        "identity": set(),
        "retry": set(),
        "supervisor": set(),
        "errors": {"client"},
        "messages": {"client", "identity"},
        "fs": {"client", "errors"},
        "config": {"client", "errors", "fs"},
    },
    "stages": {
        "chunk": {"client", "fs", "messages", "text"},
        "source": {"chunk", "client", "config", "errors", "fs", "messages", "text"},
        "embed": {"client", "config", "fs", "identity", "messages", "retry", "text"},
        "index": {"client", "errors", "fs", "identity", "messages", "retry", "text"},
        "search": {"client", "config", "index", "messages", "text"},
        "backends": {
            "client",
            "config",
            "errors",
            "fs",
            "index",
            "messages",
            "retry",
            "search",
            "source",
            "supervisor",
        },
        "facts": {"client", "errors", "fs", "index", "text"},
        "events": {"client", "index", "messages"},
        "server": {"client", "errors", "fs"},
    },
    "agent": {
        "agent": {
            "backends",
            "chunk",
            "client",
            "config",
            "embed",
            "errors",
            "events",
            "facts",
            "fs",
            "identity",
            "index",
            "messages",
            "search",
            "source",
            "supervisor",
            "text",
        },
    },
    "api": {
        "api": {
            "agent",
            "backends",
            "chunk",
            "client",
            "embed",
            "errors",
            "facts",
            "fs",
            "identity",
            "index",
            "messages",
            "search",
            "server",
            "source",
            "text",
        },
    },
    "daemon": {
        "daemon": {
            "agent",
            "api",
            "client",
            "config",
            "errors",
            "events",
            "fs",
            "index",
            "retry",
            "server",
            "supervisor",
        },
    },
    "app": {
        "pipeline": {
            "agent",
            "backends",
            "api",
            "chunk",
            "config",
            "daemon",
            "embed",
            "events",
            "fs",
            "index",
            "messages",
            "search",
            "source",
            "supervisor",
        },
        "app": {
            "api",
            "client",
            "daemon",
            "embed",
            "events",
            "pipeline",
            "server",
            "supervisor",
            "text",
        },
        "doctor": {
            "agent",
            "backends",
            "chunk",
            "client",
            "config",
            "embed",
            "errors",
            "facts",
            "fs",
            "identity",
            "index",
            "messages",
            "server",
            "source",
            "text",
        },
        "__main__": {
            "app",
            "client",
            "config",
            "daemon",
            "doctor",
            "embed",
            "errors",
            "fs",
            "supervisor",
        },
    },
}
"""Layer → part of `memoryd` → parts that it may import, from the bottom up."""


def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"), filename=str(module))


def imports(module: Path) -> Iterator[str]:
    """Yield the full name of every import in a module, nested ones included."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(name: str) -> str | None:
    """Return the part that a full name belongs to; None for other distributions."""
    top, _, rest = name.partition(".")
    if top in ("memctl", "memoryd_client"):
        return "client"
    part = rest.partition(".")[0]
    return part if top == "memoryd" and part != "__version__" else None


def parts() -> dict[str, list[Path]]:
    """Return the modules of each part: a folder of `memoryd`, or a module at its top."""
    found: dict[str, list[Path]] = {}
    for module in MODULES:
        part = module.relative_to(DAEMON).with_suffix("").parts[0]
        if part != "__init__":
            found.setdefault(part, []).append(module)
    return found


def imported_parts(modules: list[Path], own: str) -> set[str]:
    names = {part_of(name) for module in modules for name in imports(module)}
    return {name for name in names if name is not None and name != own}


def purpose(part: str) -> str:
    """Return the first sentence of a part's docstring."""
    modules = parts()[part]
    main = next((m for m in modules if m.name == "__init__.py"), modules[0])
    text = ast.get_docstring(tree(main)) or ""
    return text.split("\n\n")[0].replace("\n", " ").rstrip(".")


def table() -> str:
    """Return the Markdown table of all parts, bottom up, with their purposes and imports."""
    lines = ["| layer | part | purpose | imports |", "| --- | --- | --- | --- |"]
    for layer, allowed in LAYERS.items():
        for part, others in allowed.items():
            named = ", ".join(f"`{other}`" for other in sorted(others)) or "none"
            lines.append(f"| {layer} | `{part}` | {purpose(part)} | {named} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
