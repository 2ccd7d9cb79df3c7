"""Which checks a worker takes together, and which go first: those that cost the most runs.

A run of atc takes seconds and hosts have many cores, so the last check to begin decides when the
run ends. Checks of one batch of combinations share their runs, and stay together.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_ascendcache.combinations import batches
from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.conformance.costs import asleep_of, life_of, shares
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of

_COMBINATIONS = "cache_mode/test_combinations.py::"
_PORTIONS = 4
"""A worker takes this part of its share of a user's own tests that are left, in their order."""


class Spreading:
    """Portions of tests, for as many workers as the run has."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(self, tests: Sequence[str]) -> list[list[int]]:
        """Positions of tests in portions that one worker takes at a time, in the order they are
        given out: checks of the suite by their runs, then a user's own tests."""
        names = [each.removeprefix(SUITE_NODES) for each in tests]
        own = [position for position, each in enumerate(names) if each == tests[position]]
        batch = self._batches(names)
        portions: dict[str, list[int]] = {}
        for position in sorted(set(range(len(tests))) - set(own)):
            name = names[position]
            portions.setdefault(batch.get(name, name), []).append(position)

        toolchain = settings_of(self._config).toolchain

        runs = shares((names[each] for portion in portions.values() for each in portion), toolchain)

        def cost(portion: list[int]) -> float:
            return sum(runs[names[each]] + asleep_of(names[each], toolchain) for each in portion)

        found = sorted(portions.values(), key=cost, reverse=True)
        workers = len(self._config.getoption("tx", None) or "1")
        while own:  # smaller and smaller, so that workers end together
            size = max(1, len(own) // (_PORTIONS * workers))
            found.append(own[:size])
            del own[:size]
        return found

    def _batches(self, names: Sequence[str]) -> dict[str, str]:
        """Checks of combinations and lives -> the batch whose runs they share."""
        lives = {each: life for each in names if (life := life_of(each))}
        mine = [each for each in names if each.startswith(_COMBINATIONS)]
        if not mine:
            return lives
        plan = ascend_session_of(self._config).plan
        found = {
            cell.id: f"batch {number}"
            for number, batch in enumerate(batches(plan.cells))
            for cell in batch
        }
        cases = {each: each.partition("[")[2].removesuffix("]") for each in mine}
        return lives | {each: found[case] for each, case in cases.items() if case in found}
