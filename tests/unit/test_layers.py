"""The house rules that a reader of one module relies on, checked on the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DAEMON = ROOT / "memoryd"
CLIENT = ROOT / "client/memoryd_client"
MODULES = sorted(DAEMON.rglob("*.py"))

COMMON = {
    f"memoryd.{name}"
    for name in ("messages", "retry", "identity", "errors", "text", "config", "fs")
}
ALLOWED = {
    "text": {"memoryd.text"},
    "fs": {"memoryd.fs", "memoryd.text", "memoryd.errors"},
    "config": {"memoryd.config", "memoryd.fs", "memoryd.text"},
    # What is added to a transcript is read and chunked in one go.
    "source": COMMON | {"memoryd.source", "memoryd.chunk.transcript"},
    "chunk": COMMON | {"memoryd.chunk"},
    "embed": COMMON | {"memoryd.embed"},
    "index": COMMON | {"memoryd.index"},
    "search": COMMON | {"memoryd.search", "memoryd.index"},
    "server": COMMON | {"memoryd.server"},
}
MAX_LINES = 400
QUEUES = {"MeteredQueue", "Queue", "LifoQueue", "PriorityQueue"}


def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"), filename=str(module))


def imports(module: Path) -> Iterator[str]:
    """Yield the full name of everything that a module imports, wherever it does."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_of(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def called(module: Path) -> Iterator[tuple[str, int]]:
    """Yield the last name of everything that is called, `f[T](...)` included, with its line."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Subscript):
                function = function.value
            if isinstance(function, ast.Attribute):
                yield function.attr, node.lineno
            elif isinstance(function, ast.Name):
                yield function.id, node.lineno


@pytest.mark.parametrize("stage", ALLOWED)
def test_a_stage_reaches_for_no_other_stage(stage: str) -> None:
    wrong = [
        f"{module.relative_to(ROOT)}: {name}"
        for module in sorted((DAEMON / stage).rglob("*.py"))
        for name in imports(module)
        if is_of(name, "memoryd") and not any(is_of(name, allowed) for allowed in ALLOWED[stage])
    ]
    assert wrong == []


def test_nothing_of_the_client_imports_the_daemon() -> None:
    modules = sorted(CLIENT.rglob("*.py"))
    assert modules
    assert [m.name for m in modules if any(is_of(n, "memoryd") for n in imports(m))] == []


@pytest.mark.parametrize("module", [*MODULES, *CLIENT.rglob("*.py")], ids=lambda m: m.name)
def test_no_module_is_too_long(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_queues_are_made_in_one_place() -> None:
    made = {
        (str(module.relative_to(DAEMON)), name)
        for module in MODULES
        for name, _ in called(module)
        if name in QUEUES
    }
    assert made == {("app.py", "MeteredQueue"), ("index/readers.py", "LifoQueue")}


def test_the_driver_is_chosen_in_one_module() -> None:
    drivers = ("sqlite3", "pysqlite3", "sqlite_vec", "aiosqlite")
    importers = {
        str(module.relative_to(DAEMON))
        for module in MODULES
        if any(is_of(name, driver) for name in imports(module) for driver in drivers)
    }
    assert importers == {"index/driver.py"}
