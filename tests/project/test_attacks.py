"""Every attack has a check in every room, or a reason why it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_ascendcache.conformance as suite
from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.faults import Action, CrashKind

SUITE = Path(suite.__file__).parent
ROOMS = ("operator-cache", "ranks", "packages", "client")
ATTACKS = tomllib.loads((SUITE / "attacks.toml").read_text(encoding="utf-8"))["attack"]
CELLS = [(each["name"], room, each.get(room, "")) for each in ATTACKS for room in ROOMS]


@pytest.mark.parametrize(("attack", "room", "entry"), CELLS, ids=lambda each: each[:30])
def test_a_cell_names_a_check_or_a_reason(attack, room, entry):
    if entry.startswith("none: "):
        assert len(entry) > 15, f"{attack} on {room}: say why no check makes it"
        return
    file, _, check = entry.partition("::")
    assert (SUITE / file).is_file(), f"{attack} on {room}: no {file}"
    assert f"def {check}(" in (SUITE / file).read_text(encoding="utf-8"), f"no check {check}"


def test_no_attack_and_no_room_is_left_out():
    names = [each["name"] for each in ATTACKS]
    assert len(set(names)) == len(names)
    assert all(set(each) == {"name", *ROOMS} for each in ATTACKS)
    kinds = {"killed": "killed", "mid-write": "torn write", "power loss": "power loss"}
    other = {each.value for each in CrashKind} - set(kinds)
    assert other <= {"injected error"}, f"kinds of crash in no row: {other}"
    assert set(kinds.values()) <= set(names)
    errors = {Action.ENOSPC, Action.EIO, Action.EACCES, Action.EROFS}
    assert {each for each in Action if each.value.isupper()} == errors
    assert {"disk error", "another user", "read-only file system"} <= set(names)
