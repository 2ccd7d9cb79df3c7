"""The imports keep to ARCHITECTURE.md: a room imports only rooms above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_ascendcache

PACKAGE = Path(pytest_ascendcache.__file__).parent
FACE = (
    "budget",
    "audit_settings",
    "audits",
    "collector",
    "fixtures",
    "gangreports",
    "gangrun",
    "gangs",
    "hookspecs",
    "judging",
    "mindspore_settings",
    "op_compiler_settings",
    "plugin",
    "resuming",
    "release_settings",
    "report_settings",
    "reporting",
    "session",
    "settings",
    "suite",
    "toolchain_settings",
)
ALLOWED = {
    "operators": set(),
    "contract": {"operators"},
    "combinations": {"operators", "contract"},
    "cachedir": {"operators", "contract"},
    "audit": {"contract", "cachedir"},
    "faults": {"cachedir"},
    "ranks": set(),
    "toolchains": {"operators", "contract", "cachedir", "faults"},
    "observation": {"operators", "contract", "cachedir", "faults", "toolchains"},
    "stress": {"operators", "contract", "cachedir", "faults", "toolchains", "observation"},
    "release": {"operators", "contract", "cachedir"},
    "conformance": {
        "operators",
        "contract",
        "combinations",
        "cachedir",
        "audit",
        "faults",
        "ranks",
        "toolchains",
        "observation",
        "stress",
        "release",
    },
    "reference": {"operators"},
    "qualification": {
        *("operators", "contract", "faults", "toolchains", "release", "reference", "settings")
    },
    "reports": {"contract"},
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
    return {each[1] for each in parts if each[1] in ALLOWED or each[1] in FACE}


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
