"""The imports keep to ARCHITECTURE.md: a room imports only rooms above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_ascendcache

PACKAGE = Path(pytest_ascendcache.__file__).parent
ORDER = (
    "operators",
    "contract",
    "combinations",
    "caches",
    "processes",
    "faults",
    "ranks",
    "toolchains",
    "observation",
    "stress",
    "audit",
    "release",
    "conformance",
    "reports",
    "reference",
    "qualification",
    "plugin",
)
"""A room imports only rooms before it, and of those only what ``NEVER`` leaves."""

NEVER = {
    "contract": {"combinations"},
    "ranks": {"operators", "contract", "combinations", "caches", "faults"},
    "audit": {"toolchains", "processes", "observation", "faults", "ranks", "stress"},
    "release": {"toolchains", "processes", "observation", "faults", "ranks", "stress", "audit"},
    "reports": {"toolchains", "processes", "observation", "faults", "ranks", "conformance"},
    "reference": {*ORDER} - {"operators", "reference"},
}
"""What a room must not know although it stands before it."""

ALLOWED = {
    room: {*ORDER[:number]} - NEVER.get(room, set()) - {"reference"}
    | ({"reference"} if room == "qualification" else set())
    for number, room in enumerate(ORDER)
}


def _imported(path: Path) -> set[str]:
    """Rooms and face modules a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    parts = [name.split(".") for name in names if name.startswith("pytest_ascendcache.")]
    return {each[1] for each in parts}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_rooms_above_it(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        extra = _imported(path) - ALLOWED[room] - {room}
        assert not extra, f"{path.relative_to(PACKAGE)} imports {sorted(extra)}"


def test_every_room_is_known() -> None:
    rooms = {each.name for each in PACKAGE.iterdir() if (each / "__init__.py").exists()}
    assert rooms == set(ALLOWED)


def test_the_architecture_names_every_room() -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [room for room in ALLOWED if f"`{room}/`" not in text] == []
