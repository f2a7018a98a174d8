"""The house rules that readers of a single module rely on, checked on the source."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from layers import (
    CLIENT_MODULES,
    DAEMON,
    LAYERS,
    MODULES,
    ROOT,
    imported_parts,
    imports,
    part_of,
    parts,
    tree,
)

MAX_LINES = 400
MAX_TOP_LEVEL_MODULES = 10
QUEUES = {"MeteredQueue", "Queue", "LifoQueue", "PriorityQueue"}
PARTS = {part: allowed for layer in LAYERS.values() for part, allowed in layer.items()}
EVERY_MODULE = [*MODULES, *CLIENT_MODULES]


def shown(module: Path) -> str:
    return str(module.relative_to(ROOT))


def is_of(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def called(module: Path) -> Iterator[tuple[str, int]]:
    """Yield the last name of every callee, `f[T](...)` included, with its line."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Subscript):
                function = function.value
            if isinstance(function, ast.Attribute):
                yield function.attr, node.lineno
            elif isinstance(function, ast.Name):
                yield function.id, node.lineno


def public_classes(module: Path) -> Iterator[str]:
    for node in tree(module).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_every_part_has_a_layer() -> None:
    assert set(parts()) == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_exactly_the_parts_that_its_layer_lists(part: str) -> None:
    assert imported_parts(parts()[part], part) == PARTS[part]


def test_imports_only_go_down() -> None:
    order = ["client", *PARTS]
    upward = [
        f"{part} imports {other}"
        for part, allowed in PARTS.items()
        for other in allowed
        if order.index(other) >= order.index(part)
    ]
    assert upward == []


def test_the_client_never_imports_the_daemon() -> None:
    assert CLIENT_MODULES
    wrong = [shown(m) for m in CLIENT_MODULES if any(is_of(n, "memoryd") for n in imports(m))]
    assert wrong == []


def test_the_client_library_never_imports_memctl() -> None:
    library = [m for m in CLIENT_MODULES if "memoryd_client" in m.parts]
    assert [shown(m) for m in library if any(is_of(n, "memctl") for n in imports(m))] == []


def test_the_daemon_never_imports_memctl() -> None:
    assert [shown(m) for m in MODULES if any(is_of(n, "memctl") for n in imports(m))] == []
    assert part_of("memctl.render") == "client"


def test_no_module_is_too_long() -> None:
    lengths = {shown(m): len(m.read_text(encoding="utf-8").splitlines()) for m in EVERY_MODULE}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_the_top_level_stays_small() -> None:
    assert len(list(DAEMON.glob("*.py"))) <= MAX_TOP_LEVEL_MODULES


def test_no_public_class_name_has_two_meanings() -> None:
    found = defaultdict(list)
    for module in EVERY_MODULE:
        for name in public_classes(module):
            found[name].append(shown(module))
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def test_no_docstring_opens_with_a_headless_clause() -> None:
    words = ("What", "Where", "Which", "Who", "Whose", "How", "Whether")
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    opened = [
        f"{shown(module)}: {text.splitlines()[0]}"
        for module in EVERY_MODULE
        for node in ast.walk(tree(module))
        if isinstance(node, kinds)
        and (text := ast.get_docstring(node))
        and text.split(maxsplit=1)[0] in words
    ]
    assert opened == []


def test_queues_are_created_in_one_place() -> None:
    made = {
        (str(module.relative_to(DAEMON)), name)
        for module in MODULES
        for name, _ in called(module)
        if name in QUEUES
    }
    assert made == {("pipeline.py", "MeteredQueue"), ("index/readers.py", "LifoQueue")}


def test_one_module_chooses_the_sqlite_driver_and_one_reads_databases_of_others() -> None:
    drivers = ("sqlite3", "pysqlite3", "sqlite_vec", "aiosqlite")
    importers = {
        str(module.relative_to(DAEMON))
        for module in MODULES
        if any(is_of(name, driver) for name in imports(module) for driver in drivers)
    }
    assert importers == {"index/driver.py", "source/transcripts/foreign_sqlite.py"}
