"""Registration of defects: the methods they override, their memory, and their combination."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_ascendcache.qualification.catalogue import Wrong, defect, override
from pytest_ascendcache.reference.incremental.info import InfoPolicy
from pytest_ascendcache.reference.mode import ModePolicy


@pytest.fixture(autouse=True)
def _own_defects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_ascendcache.qualification.catalogue.DEFECTS", {})


@override(ModePolicy.purges)
def never(*_: Any) -> bool:
    return False


def counting() -> Wrong:
    @defect("a/rule", overrides=ModePolicy.purges, also=[never], memory={"modes": []})
    def counts_modes(self: Any, right: Any, mode: str) -> Any:
        """Modes are counted."""
        self.memory.modes.append(mode)
        return right(mode), len(self.memory.modes)

    @counts_modes.also(InfoPolicy.matches)
    def _(self: Any, right: Any, found: Any, wanted: Any) -> Any:
        return self.memory.modes, right(found, wanted)

    return counts_modes


def test_functions_of_a_defect_share_a_memory_and_each_run_has_its_own() -> None:
    make = counting()
    for _ in range(2):
        policies: Any = make()
        assert policies.mode.purges("force") == (False, 1)  # `right` calls the function in `also`
        assert policies.mode.purges(mode="enable") == (False, 2)
        assert policies.incremental.info.matches(1, 1) == (["force", "enable"], True)


def test_a_defect_says_what_it_overrides() -> None:
    purges = ("reference/mode.py", "ModePolicy.purges")
    matches = ("reference/incremental/info.py", "InfoPolicy.matches")
    assert counting().replaces == {purges, matches}
    parts = {"__doc__": "Nothing is purged.", "purges": lambda *_: False, "limit": 3}
    assert defect("a/rule")(type("PurgesNothing", (ModePolicy,), parts)).replaces == {purges}


def test_a_defect_may_include_others_with_their_memories() -> None:
    @defect("a/rule", overrides=ModePolicy.purges, memory={"other": "x"})
    def remembers(self: Any, right: Any, mode: str) -> Any:
        """It remembers."""
        return self.memory.other, right(mode)

    mixed: Any = Wrong([remembers, counting()])()
    assert mixed.mode.purges("force") == ("x", (False, 1))


def nowhere(*_: Any) -> None:
    """It is nowhere."""


def test_a_defect_has_to_say_what_it_is_and_where() -> None:
    with pytest.raises(ValueError, match="no docstring"):
        defect("a/rule", overrides=ModePolicy.purges)(lambda *_: False)
    for method in (str.upper, object.__repr__):
        with pytest.raises(ValueError, match="does not belong to exactly one of the policies"):
            defect("a/rule", overrides=method)(nowhere)
    counting()
    with pytest.raises(ValueError, match="exists twice"):
        counting()
