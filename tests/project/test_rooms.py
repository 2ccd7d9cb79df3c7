"""Imports follow ARCHITECTURE.md: a room imports only rooms above it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pytest_ascendcache

PACKAGE = Path(pytest_ascendcache.__file__).parent
ORDER = (
    "files",
    "words",
    "operators",
    "contract",
    "language",
    "combinations",
    "caches",
    "processes",
    "faults",
    "nodes",
    "ranks",
    "toolchains",
    "observation",
    "stress",
    "audit",
    "release",
    "why",
    "conformance",
    "reports",
    "reference",
    "qualification",
    "plugin",
)
"""A room imports only rooms before it, except for those that ``NEVER`` names."""

NEVER = {
    "contract": {"combinations"},
    "ranks": {"operators", "contract", "combinations", "caches", "faults"},
    "audit": {"toolchains", "processes", "observation", "faults", "ranks", "stress"},
    "release": {"toolchains", "processes", "observation", "faults", "ranks", "stress", "audit"},
    "reports": {"toolchains", "processes", "observation", "faults", "ranks", "conformance"},
    "reference": {*ORDER} - {"words", "operators", "reference"},
}
"""Rooms that a room must not import although they come before it."""

ALLOWED = {
    room: {*ORDER[:number]} - NEVER.get(room, set()) - {"reference"}
    | ({"reference"} if room == "qualification" else set())
    for number, room in enumerate(ORDER)
}


MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
"""Every module of the package by name."""

SPELLED_OUT = {
    "pytest_ascendcache.conformance": "pytest rewrites its asserts, so it is named before import",
    # CANN's cache code needs a kernel compiler, so the adapter starts the reference's programs.
    "pytest_ascendcache.reference.atc": "toolchains/cann_cache has it compile kernels",
    "pytest_ascendcache.reference.run": "toolchains/cann_cache has it run kernels",
}
"""Modules that a string may name, each with the reason."""


def _imported(path: Path) -> set[str]:
    """Return the modules of the package that a file imports anywhere, even only for types."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = inner & MODULES.keys()
            names |= modules if modules == inner else {*modules, node.module}
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name for name in names if name.startswith("pytest_ascendcache.")}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_rooms_above_it(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        rooms = {name.split(".")[1] for name in _imported(path)}
        extra = rooms - ALLOWED[room] - {room}
        assert not extra, f"{path.relative_to(PACKAGE)} imports {sorted(extra)}"


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {name: _imported(path) - {name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_no_import_is_hidden_in_a_string() -> None:
    hidden = {name: found for name, path in MODULES.items() if (found := _spelled_out(path))}
    assert hidden == {}


def _spelled_out(path: Path) -> list[str]:
    """Return strings of a file, except docstrings, that name or import a module of the package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {id(each) for each in statements}
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]
    names = MODULES.keys() - SPELLED_OUT.keys() - {PACKAGE.name}
    imports = re.compile(rf"^\s*(from|import) {PACKAGE.name}\b", re.MULTILINE)
    return [each for each in strings if each in names or imports.search(each)]


def test_the_root_holds_only_rooms() -> None:
    names = {each.name for each in PACKAGE.iterdir() if each.name != "__pycache__"}
    assert names == {*ALLOWED, "__init__.py", "py.typed"}


def test_every_room_is_known() -> None:
    rooms = {each.name for each in PACKAGE.iterdir() if (each / "__init__.py").exists()}
    assert rooms == set(ALLOWED)


def test_the_architecture_names_every_room() -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [room for room in ALLOWED if f"`{room}/`" not in text] == []


@pytest.mark.parametrize(
    "path",
    sorted((PACKAGE / "conformance").rglob("fixtures.py")),
    ids=lambda path: path.parent.name,
)
def test_every_fixture_of_the_suite_reaches_its_checks(path: Path) -> None:
    """Modules of the suite import what ``__all__`` names. They would not import an ``autouse``
    fixture that is missing there, and no check would notice."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    made = [
        each.name
        for each in tree.body
        if isinstance(each, ast.FunctionDef)
        and any("fixture" in ast.unparse(decorator) for decorator in each.decorator_list)
    ]
    (offered,) = (
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__"
    )
    assert sorted(made) == sorted(offered)


def _definitions(kinds: tuple[type[ast.AST], ...]) -> list[tuple[str, int, str]]:
    """The name, the number of lines and the module of each class or function."""
    return [
        (node.name, (node.end_lineno or 0) - node.lineno + 1, module)
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and isinstance(node, kinds)
    ]


def test_no_heart_grows() -> None:
    classes, functions = _definitions((ast.ClassDef,)), _definitions((ast.FunctionDef,))
    assert [each for each in classes if each[1] > 250] == []
    assert [each for each in functions if each[1] > 60] == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    names = Counter(name for name, *_ in _definitions((ast.ClassDef,)) if name[0] != "_")
    assert {name for name, times in names.items() if times > 1} <= {"CompiledModel"}
