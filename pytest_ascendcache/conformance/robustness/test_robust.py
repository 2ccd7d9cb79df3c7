"""Robustness: damaged entries, many processes at once, moved caches and read-only caches."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from functools import partial

import pytest

from pytest_ascendcache.conformance.incremental.fixtures import ended_well
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.states import give_away, residue
from pytest_ascendcache.conformance.kit.together import Together
from pytest_ascendcache.conformance.kit.told import is_refused, require_none, stays_usable
from pytest_ascendcache.conformance.kit.vocabulary import (
    ENABLE,
    HIT,
    REPLACED,
    elementary,
    needs,
    needs_meeting,
    rule,
)
from pytest_ascendcache.contract import Capability, Delivered
from pytest_ascendcache.contract.facts import Ending, Fact, Later, outcome_fact
from pytest_ascendcache.faults import DAMAGES, METADATA_REPLACED, Action, Damage, Tree
from pytest_ascendcache.files import copy_tree
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NetworkUnderTest,
    Run,
    meeting_place,
    probe_network,
)
from pytest_ascendcache.operators import OperatorSpec


def _victims(damages: tuple[Damage, ...]) -> dict[Damage, OperatorSpec]:
    """An operator for each kind of damage, all of one type so that entries' names are alike."""
    return {
        each: operator_of("Add", (row, 24), (row, 24), name=f"damaged_{row - 1}")
        for row, each in enumerate(damages, 1)
    }


_VICTIMS = _victims((*DAMAGES, *METADATA_REPLACED))
_BESIDE = tuple(operator_of("Exp", (rows, 24), name=f"whole_{rows}") for rows in (1, 2))
_ALL = (_BESIDE[0], *_VICTIMS.values(), _BESIDE[1])
"""The first and the last stay whole: damage must not cost more than the damaged entry."""


def damage_of_every_kind(cache: CacheUnderTest) -> None:
    """A cache in which every entry has another kind of damage."""
    cache.warm(*_ALL)
    cache.mark()
    for damage, operator in _VICTIMS.items():
        damage.apply(cache.entry(operator))
    run = cache.attempt(*_ALL, mode=ENABLE)
    assert run.succeeded
    assert {run[each] for each in _VICTIMS.values()} == {REPLACED}
    assert {run[each] for each in _BESIDE} == {HIT}
    assert cache.unlike_fresh(run) == {}
    assert cache.problems() == []
    assert residue(cache) == []
    again = cache.compile(*_ALL, mode=ENABLE)
    assert {again[each] for each in _ALL} == {HIT}


def damage_of_what_was_written(cache: CacheUnderTest) -> None:
    """The same without markers, for damage other than replaced metadata."""
    cache.marks = False
    cache.warm(*_ALL)
    for damage in DAMAGES:
        damage.apply(cache.entry(_VICTIMS[damage]))
    run = cache.attempt(*_ALL, mode=ENABLE)
    assert run.succeeded
    assert cache.unlike_fresh(run) == {}
    assert cache.problems() == []
    cache.trust_marks()
    again = cache.compile(*_ALL, mode=ENABLE)
    assert {again[each] for each in _ALL} == {HIT}
    assert cache.unlike_fresh(again) == {}


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("damage", [*DAMAGES, *METADATA_REPLACED], ids=lambda damage: damage.name)
def test_a_damaged_entry_heals(
    cache: CacheUnderTest, add: OperatorSpec, damage: Damage, together: Together
) -> None:
    if together.go_well("damage of every kind", damage_of_every_kind, cache.evidence):
        return
    cache.warm(add)
    damage.apply(cache.entry(add))
    run = cache.attempt(add, mode=ENABLE)
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"
    assert run[add] == REPLACED
    assert cache.delivers_fresh(run, add), "a wrong kernel was delivered"
    assert cache.problems() == []
    assert residue(cache) == [], "what was damaged is still there"
    assert cache.compile(add, mode=ENABLE)[add] == HIT


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_an_entry_as_it_was_written_heals(
    cache: CacheUnderTest, add: OperatorSpec, damage: Damage, together: Together
) -> None:
    """Without a marker, so that nothing but the damage differs from what the toolchain wrote."""
    if together.go_well("damage of what was written", damage_of_what_was_written, cache.evidence):
        return
    cache.marks = False
    cache.warm(add)
    damage.apply(cache.entry(add))
    cache.trust_marks()
    problem = cache.recovery(add)
    assert problem is None, cache.evidence.found(problem, str(problem))


_KINDS = ("object-code-flipped", "object-late-flipped", "object-missing", "metadata-missing")


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("kind", _KINDS)
def test_every_damaged_entry_of_a_run_heals(
    cache: CacheUnderTest, probes: tuple[OperatorSpec, ...], kind: str
) -> None:
    """Operators of every kind, including large kernels."""
    cache.needs_reuse()
    damage = next(each for each in DAMAGES if each.name == kind)
    cache.warm(*probes)
    for operator in probes:
        damage.apply(cache.entry(operator))
    run = cache.attempt(*probes, mode=ENABLE)
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"
    for operator in probes:
        assert run[operator] == REPLACED
    unlike = cache.unlike_fresh(run, None)
    assert unlike == {}, "wrong kernels were delivered"


@rule("robust/heals-damaged-entry")
def test_damage_to_one_entry_leaves_the_others(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.warm(add, exp)
    DAMAGES[0].apply(cache.entry(add))
    run = cache.attempt(add, exp, mode=ENABLE)
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"
    assert run[add] == REPLACED
    assert run[exp] == HIT


@elementary()
@rule("robust/same-key-race")
def test_two_processes_compile_at_once(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """Different operators in one cache, and nothing of one process is another's."""
    for run in cache.together([cache.request(each, mode=ENABLE) for each in (add, exp)]):
        (operator,) = run.operators
        ended = Fact.seen(Ending.FAILURE, f"a compile beside another {run.result.ending}")
        assert run.succeeded, cache.evidence.found(ended, ended.detail)
        assert cache.delivers_fresh(run, operator), "a wrong kernel was delivered"


_PROCESSES, _OWN = 4, 6


@rule("robust/same-key-race")
def test_processes_store_what_only_they_compile(cache: CacheUnderTest) -> None:
    """Six operators in each of four processes. One that finds the cache locked may leave an entry
    out; that most are missing is work lost whenever models are converted side by side."""
    cache.needs_reuse()
    cache.marks = False
    every = [
        operator_of("Add", (rows, 40), (rows, 40), name=f"own_{rows}")
        for rows in range(1, _PROCESSES * _OWN + 1)
    ]
    for run in cache.together(
        [cache.request(*every[first::_PROCESSES], mode=ENABLE) for first in range(_PROCESSES)]
    ):
        assert run.succeeded, f"a compile {run.result.ending}: {run.output.strip()[-200:]}"
    cache.trust_marks()
    run = cache.compile(*every, mode=ENABLE)
    lost = [each for each in every if run[each] != HIT]
    if len(lost) * 2 > len(every):
        detail = f"{len(lost)} of {len(every)} operators that processes compiled at once are lost"
        require_none([outcome_fact(run[lost[0]], [HIT], lost[0], detail=detail)], cache.evidence)


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
        assert cache.delivers_fresh(run, add), "a wrong kernel was delivered"
    cache.needs_readable_entries()
    assert len(cache.entries()) == 1, "one key has several entries"
    assert cache.problems() == []
    assert residue(cache) == []
    cache.trust_marks()
    assert cache.compile(add, mode=ENABLE)[add] == HIT


@rule("robust/relocatable")
@pytest.mark.parametrize("how", ["copied", "moved"])
def test_a_cache_gives_hits_under_another_root(
    cache: CacheUnderTest, add: OperatorSpec, how: str
) -> None:
    cache.warm(add)
    cache.mark()
    root = cache.sandbox / "another" / "root"
    root.parent.mkdir()
    if how == "copied":
        # Like plain cp, which does not keep file times.
        copy_tree(cache.root, root, shutil.copyfile)
        for number, path in enumerate(sorted(root.rglob("te_*"))):  # the object is newer
            os.utime(path, (now := time.time() - 60 + 10 * number, now))
    else:
        cache.root.rename(root)
    run = cache.elsewhere(root).compile(add, mode=ENABLE)
    assert run[add] == HIT


@rule("robust/read-only-cache")
def test_a_read_only_file_system_gives_hits(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    needs(cache.toolchain, Capability.FAULT_POINTS, Action.EROFS)
    cache.warm(add)
    cache.mark()
    for operator in (add, exp):
        compiling = cache.interruption(operator, mode=ENABLE)
        strike = partial(compiling.strike, Action.EROFS, compiling.operations[0])
        failure = cache.failed_for_the_cache
        run = stays_usable(cache.evidence, strike, failure, "read-only", is_refused)
        _reads_only(cache, run, operator, hit=operator is add)
        assert Tree.read(cache.root).content == compiling.before.content


@rule("robust/read-only-cache")
def test_a_read_only_file_system_gives_a_rank_its_kernels(network: NetworkUnderTest) -> None:
    """Those that are there are used, and what is not there is compiled and not kept."""
    needs(network.toolchain, Capability.INCREMENTAL_BUILD, Capability.FAULT_POINTS, Action.EROFS)
    square = probe_network("Square")
    network.warm(square)
    for wanted in (square, probe_network("Square", "Exp")):
        running = network.interruption(wanted)
        strike = partial(running.strike, Action.EROFS, running.operations[0])
        run = stays_usable(network.evidence, strike, network.failed_for_the_cache, "read-only")
        assert run.wrong == {}
        assert run.compiled <= {"exp"}, "the kernel on disk is not used"


@rule("robust/read-only-cache")
def test_a_cache_of_another_user_gives_hits(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """Everybody may read the files. Only their owner may update their times, or ask that reading
    them updates none."""
    cache.warm(add)
    cache.mark()
    give_away(cache.root)
    for operator in (add, exp):
        request = replace(cache.request(operator, mode=ENABLE), unprivileged=True)
        attempt, failure = partial(cache.unwatched, request), cache.failed_for_the_cache
        run = stays_usable(cache.evidence, attempt, failure, "of another user", is_refused)
        _reads_only(cache, run, operator, hit=operator is add)


@rule("robust/read-only-cache")
def test_kernels_of_another_user_serve_a_gang(network: NetworkUnderTest) -> None:
    """One user has compiled for the ranks of others, which use the kernels."""
    needs(network.toolchain, Capability.INCREMENTAL_BUILD)
    needs_meeting(network.toolchain)
    network.needs_reuse()
    square = probe_network("Square")
    with meeting_place(2) as gang:
        requests = [network.request(square, rank, gang) for rank in range(2)]
        ended_well(*network.together(*requests))
        for rank in range(2):
            network.mark(rank)
        give_away(network.cache)
        others = [replace(each, unprivileged=True) for each in requests]
        runs, again = (network.together(*others) for _ in range(2))
    failing = next((run for run in again if not run.succeeded), None)
    if failing is not None and not all(run.succeeded for run in runs):
        why = f"kernels of another user: every run fails: the rank {failing.result.ending}"
        raise AssertionError(network.evidence.found(Later.FAILS, why))
    ended_well(*runs, *again)
    assert not any(run.files_written for run in runs), "files of another user are changed"
    assert not any(run.compiled for run in runs), "the kernels on disk are not used"


def _reads_only(cache: CacheUnderTest, run: Run, operator: OperatorSpec, hit: bool) -> None:
    assert run.succeeded, f"{operator}: the compile {run.result.ending}"
    if hit:
        again = outcome_fact(Delivered.COMPILED, [Delivered.REUSED], operator)
        assert run.served_from(operator), cache.evidence.found(
            again, f"{operator}: its entry is not reused"
        )
    else:
        assert cache.delivers_fresh(run, operator), f"{operator}: a wrong kernel is delivered"
