"""Robustness: damaged entries, and many processes at once."""

from __future__ import annotations

import pytest

from pytest_ascendcache.conformance.vocabulary import (
    COMPILED,
    ENABLE,
    KEPT,
    REUSED,
    REWRITTEN,
    Outcome,
    rule,
)
from pytest_ascendcache.faults import DAMAGES, Damage
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_damaged_entry_heals(cache: CacheUnderTest, add: OperatorSpec, damage: Damage) -> None:
    cache.warm(add)
    damage.apply(cache.entry(add))
    run = cache.attempt(add, mode=ENABLE)
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"
    assert run[add] == Outcome(COMPILED, REWRITTEN)
    assert run.kernel(add) == cache.fresh(add), "a wrong kernel was delivered"
    assert cache.problems() == []
    assert _residue(cache) == [], "what was damaged is still there"
    assert cache.compile(add, mode=ENABLE)[add] == Outcome(REUSED, KEPT)


@rule("robust/heals-damaged-entry")
def test_every_damaged_entry_of_a_run_heals(
    cache: CacheUnderTest, probes: tuple[OperatorSpec, ...]
) -> None:
    operators = probes[:3]
    cache.warm(*operators)
    for operator in operators:
        DAMAGES[1].apply(cache.entry(operator))
    run = cache.attempt(*operators, mode=ENABLE)
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"
    for operator in operators:
        assert run[operator] == Outcome(COMPILED, REWRITTEN)


@rule("robust/heals-damaged-entry")
def test_damage_to_one_entry_leaves_the_others(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.warm(add, exp)
    DAMAGES[0].apply(cache.entry(add))
    run = cache.attempt(add, exp, mode=ENABLE)
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"
    assert run[add] == Outcome(COMPILED, REWRITTEN)
    assert run[exp] == Outcome(REUSED, KEPT)


_ENDINGS = (".o", ".json", ".h", ".lock", "_pre.json", "_pre.lock")
"""What CANN keeps of an entry. Source: facts ``cann-operator-cache`` section 1.2."""


def _residue(cache: CacheUnderTest) -> list[str]:
    """Files named after entries that are neither an entry's nor a lock."""
    known = {stem + ending for stem in cache.entries() for ending in _ENDINGS}
    names = [path.name for path in cache.layout.soc(cache.options.soc).iterdir()]
    extra = [name for name in names if name not in known and "te_" in name]
    # A lock of the directory, and one of aging; a lock for each process would be residue.
    locks = [name for name in names if name.endswith(".lock") and name not in known]
    return extra + (locks if len(locks) > 2 else [])


@rule("robust/same-key-race")
@pytest.mark.parametrize("before", ["empty", "damaged"])
@pytest.mark.parametrize("round", range(2))
def test_many_processes_compile_one_key(
    cache: CacheUnderTest, add: OperatorSpec, before: str, round: int
) -> None:
    if before == "damaged":
        cache.warm(add)
        DAMAGES[round].apply(cache.entry(add))
    cache.marks = False
    for run in cache.together([cache.request(add, mode=ENABLE) for _ in range(6)]):
        assert run.succeeded, f"a compile {run.result.ending}: {run.output.strip()[-200:]}"
        assert run.kernel(add) == cache.fresh(add), "a wrong kernel was delivered"
    entries = [each for each in cache.entries().values() if each.operator_type == "add"]
    assert len(entries) == 1, "one key has several entries"
    assert cache.problems() == []
    assert _residue(cache) == []
    cache.marks = True
    assert cache.compile(add, mode=ENABLE)[add] == Outcome(REUSED, KEPT)


@rule("robust/same-key-race")
def test_many_processes_compile_the_same_operators_in_any_order(
    cache: CacheUnderTest, probes: tuple[OperatorSpec, ...]
) -> None:
    operators = probes[:4]
    requests = [cache.request(*operators[i:], *operators[:i], mode=ENABLE) for i in range(4)]
    for run in cache.together(requests):
        assert run.succeeded, f"a compile {run.result.ending}: {run.output.strip()[-200:]}"
        for operator in operators:
            assert run.kernel(operator) == cache.fresh(operator), f"{operator}: wrong kernel"
    assert cache.problems() == []
    assert _residue(cache) == []
