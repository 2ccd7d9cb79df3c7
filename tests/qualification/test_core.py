"""The core of the suite notices every recorded defect, and covers every rule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from itertools import combinations
from pathlib import Path

import pytest

from pytest_ascendcache.combinations.cell import Cell
from pytest_ascendcache.conformance.costs import shares
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.core import FACTORS, Core, core_of
from pytest_ascendcache.qualification.cover import candidates_of, noticed_by
from pytest_ascendcache.toolchains.installed import OF_ATC

BUDGETS = Path(__file__).parents[2] / "ci/budgets.py"
OFFERS = {"an atc": OF_ATC, "everything": frozenset(Capability)}


@pytest.fixture(scope="module")
def rules() -> Mapping[str, str]:
    printed = subprocess.run([sys.executable, BUDGETS, "--rules"], capture_output=True, check=True)
    found: dict[str, str] = json.loads(printed.stdout)
    return found


@pytest.fixture(params=OFFERS.values(), ids=OFFERS)
def offered(request: pytest.FixtureRequest) -> frozenset[Capability]:
    capabilities: frozenset[Capability] = request.param
    return capabilities


@pytest.fixture
def core(rules: Mapping[str, str], offered: frozenset[Capability]) -> Core:
    return core_of(rules, offered)


def question(check: str) -> str:
    return check.partition("[")[0]


DEAR = 10
"""Runs of a check that the core does without if only one defect needs it."""


def test_every_recorded_defect_is_noticed_but_for_dear_ones(
    rules: Mapping[str, str], offered: frozenset[Capability], core: Core
) -> None:
    costs = {each.check: each.cost for each in candidates_of(rules, offered)}
    by_check = noticed_by(matrix.read(), costs, every_edition=True)
    known = frozenset().union(*by_check.values())
    noticed = frozenset().union(*(by_check.get(each, frozenset()) for each in core.chosen))
    assert (core.noticed, core.known) == (len(noticed), len(known))
    assert core.noticed > 0.96 * core.known > 400
    for defect in known - noticed:
        assert min(costs[each] for each in by_check if defect in by_check[each]) >= DEAR, defect


def test_the_worst_harm_of_each_defect_is_seen(
    rules: Mapping[str, str], offered: frozenset[Capability], core: Core
) -> None:
    """For a defect that can hang a run, the core needs a check that sees more than lost work."""
    costs = {each.check: each.cost for each in candidates_of(rules, offered)}
    looked_at = 0
    for defect, records in matrix.by_reason(matrix.read()).items():
        harms = {each.check: Harm(each.harm) for each in records if each.harm}
        known = {check: harm.rank for check, harm in harms.items() if check in costs}
        worst = [each for each in known if known[each] == min(known.values())]
        if known and harms[worst[0]].fails and min(costs[each] for each in worst) < DEAR:
            assert {*worst} & core.chosen, defect
            looked_at += 1
    assert looked_at > 80


def test_every_rule_and_file_has_a_check(rules: Mapping[str, str], core: Core) -> None:
    assert {rules[each] for each in core.chosen} == set(rules.values())
    files = {each.partition("::")[0] for each in rules}
    assert {each.partition("::")[0] for each in core.chosen} == files


def test_every_cheap_question_is_asked(
    rules: Mapping[str, str], offered: frozenset[Capability], core: Core
) -> None:
    cheap = {question(each.check) for each in candidates_of(rules, offered) if each.cost <= 5}
    assert cheap <= {question(each) for each in core.chosen}


def test_every_pair_of_deciding_levels_is_tried(rules: Mapping[str, str], core: Core) -> None:
    def tried(checks: Collection[str]) -> set[tuple[str, ...]]:
        ids = [each.partition("[")[2][:-1] for each in checks if "test_outcome[" in each]
        cells = [Cell.special_in(each) for each in ids]
        return {
            tuple(f"{each}={cell.get(each, '')}" for each in pair)
            for cell in cells
            for pair in combinations(FACTORS, 2)
        }

    assert tried(core.chosen) == tried(rules)


def test_it_costs_a_fraction(
    rules: Mapping[str, str], offered: frozenset[Capability], core: Core
) -> None:
    costs = shares(each.check for each in candidates_of(rules, offered))
    assert sum(costs.get(each, 0) for each in core.chosen) < 0.4 * sum(costs.values())
