"""Document C: changes of what is not part of the key, fresh kernels, and parallel force."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.between_runs import YEAR
from pytest_ascendcache.conformance.kit.judge import Judge
from pytest_ascendcache.conformance.kit.shelf import rest
from pytest_ascendcache.conformance.kit.states import take_debug_config
from pytest_ascendcache.conformance.kit.told import needs_served, require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    DISABLE,
    ENABLE,
    FORCE,
    HIT,
    REMOVED,
    REPLACED,
    Outcome,
    elementary,
    needs,
    rule,
)
from pytest_ascendcache.contract import CacheMode, Capability, DebugConfig
from pytest_ascendcache.contract.facts import Delivery, Ending, Subject, SubjectKind
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import KernelRunError, StagedChange, Toolchain

OUTPUT = Subject(SubjectKind.OPTION, "--output")
NEITHER = "the kernel is neither the one of before the change nor a fresh one"


def _changed_kernels(cache: CacheUnderTest, change: StagedChange) -> tuple[bytes, bytes]:
    """Warm the cache and make the change. Returns the fresh kernels before and after it."""
    operator, environment = change.operator, change.environment
    before = cache.fresh(operator, environment=environment)
    cache.warm(operator, environment=environment)
    change.apply()
    after = cache.fresh(operator, environment=environment)
    if before == after:
        raise NotDecidable(f"the change makes no difference to {operator}")
    return before, after


def _force_brings_it_in(cache: CacheUnderTest, change: StagedChange) -> None:
    operator, environment = change.operator, change.environment
    kernels = _changed_kernels(cache, change)
    run = cache.compile(operator, mode=FORCE, environment=environment)
    # A knowledge base may be part of the key: then the old entry goes and a new one is stored.
    assert run[operator] in {REPLACED, Outcome(COMPILED, REMOVED)}
    _require_new(cache, run, change, kernels, "force delivered the kernel of before the change")
    cache.marks = False
    run = cache.compile(operator, mode=ENABLE, environment=environment)
    _require_new(cache, run, change, kernels, "enable served the kernel of before the change")


def _require_new(
    cache: CacheUnderTest,
    run: Run,
    change: StagedChange,
    kernels: tuple[bytes, bytes],
    is_old: str,
) -> None:
    """Break the check unless a run delivered a fresh kernel of after the change."""
    (before, after), operator = kernels, change.operator
    kernel = run.kernel(operator)
    if kernel == after:
        return
    assert kernel != before, cache.evidence.found(Delivery.STALE, is_old)
    is_fresh = cache.delivers_fresh(run, operator, environment=change.environment)
    assert is_fresh, cache.evidence.found(Delivery.ANOTHER, NEITHER)


@rule("cache-mode/force-applies-knowledge-base")
def test_force_applies_a_changed_knowledge_base(
    cache: CacheUnderTest, toolchain: Toolchain, exp: OperatorSpec
) -> None:
    change = toolchain.stage(Capability.KNOWLEDGE_BASE, exp, cache.sandbox)
    _force_brings_it_in(cache, change)


@rule("cache-mode/force-applies-knowledge-base")
def test_force_applies_it_to_every_operator(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """An entry of an operator that was not part of the force run must not survive it."""
    change = toolchain.stage(Capability.KNOWLEDGE_BASE, exp, cache.sandbox)
    cache.marks = False
    kernels = _changed_kernels(cache, change)
    cache.compile(add, mode=FORCE, environment=change.environment)
    run = cache.compile(exp, mode=ENABLE, environment=change.environment)
    _require_new(cache, run, change, kernels, "the old kernel survived force")


@rule("cache-mode/force-applies-toolchain-change")
def test_force_applies_a_changed_dependency(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec
) -> None:
    _force_brings_it_in(cache, toolchain.stage(Capability.TOOLCHAIN_CHANGE, add, cache.sandbox))


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(
            Capability.KNOWLEDGE_BASE, marks=rule("cache-mode/force-applies-knowledge-base")
        ),
        pytest.param(
            Capability.TOOLCHAIN_CHANGE, marks=rule("cache-mode/force-applies-toolchain-change")
        ),
    ],
)
def test_force_applies_what_is_older(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec, what: Capability
) -> None:
    """Archives and rollbacks bring files that are older than those they replace. What the new
    kernel is shows the same change with the times of today, made elsewhere."""
    places = [cache.new_output(name) for name in ("today", "older")]
    for place in places:
        place.mkdir()
    today, older = (toolchain.stage(what, add, place) for place in places)
    kernels = _changed_kernels(cache, today)
    own = [*places[1].rglob("*")]  # the toolchain may keep more beside them
    operator, environment = older.operator, older.environment
    if cache.compile(operator, mode=FORCE, environment=environment).kernel(operator) != kernels[0]:
        raise NotDecidable("the kernel depends on where the changed files are")
    older.apply()
    for path in filter(Path.is_file, own):
        rest(path, YEAR, modified=time.time() - YEAR)
    run = cache.compile(operator, mode=FORCE, environment=environment)
    _require_new(cache, run, older, kernels, "force delivered the kernel of before the change")


@rule("cache-mode/enable-after-change")
@pytest.mark.parametrize("what", [Capability.KNOWLEDGE_BASE, Capability.TOOLCHAIN_CHANGE])
def test_what_enable_serves_after_a_change(
    cache: CacheUnderTest, toolchain: Toolchain, exp: OperatorSpec, what: Capability
) -> None:
    needs(toolchain, what)
    change = toolchain.stage(what, exp, cache.sandbox)
    cache.marks = False
    before, after = _changed_kernels(cache, change)
    run = cache.compile(change.operator, mode=ENABLE, environment=change.environment)
    which = "the old kernel (as documented)"
    if run.kernel(change.operator) != before:
        _require_new(cache, run, change, (before, after), "")
        which = "a refreshed kernel"
    cache.evidence.readings.append(f"after a change of {WHAT[what]}, enable serves {which}")


WHAT = {
    Capability.KNOWLEDGE_BASE: "the knowledge base",
    Capability.TOOLCHAIN_CHANGE: "a dependency",
}


@elementary()
@rule("cache-mode/transparent")
def test_what_lies_at_the_output_is_replaced(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """What an earlier run left at --output is not the result of this one."""
    _require_replaced(cache, add, DISABLE)


@rule("cache-mode/transparent")
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_what_lies_at_the_output_is_replaced_beside_an_entry(
    cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode
) -> None:
    """Also a kernel that is served is delivered, whatever lies in its place."""
    cache.warm(add)
    _require_replaced(cache, add, mode)


def _require_replaced(cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode) -> None:
    first = cache.compile(add, mode=mode)
    left = first.model(add).read_bytes() + b"of an earlier run"
    first.model(add).write_bytes(left)
    run = cache.again(first.result.request)
    if run.succeeded:
        assert run.model(add).read_bytes() != left, cache.evidence.found(
            Delivery.OLD_OUTPUT, "the file of an earlier run is still there", subject=OUTPUT
        )
        return
    judge = Judge(cache.options, cache.edition, (add,), len(cache.evidence.steps), OUTPUT)
    facts = judge.ending(
        run, f"beside the file of an earlier run the toolchain {run.result.failure}"
    )
    require_none([each for each in facts if each.observed != Ending.FAILURE], cache.evidence)
    if not any(each in run.output for each in ("output", first.model(add).name)):
        raise NotDecidable(f"the toolchain {run.result.failure}")


@rule("cache-mode/transparent")
def test_a_served_kernel_of_every_operator_equals_a_fresh_one(
    cache: CacheUnderTest, probes: tuple[OperatorSpec, ...]
) -> None:
    cache.needs_reuse()
    cache.marks = False
    cache.warm(*probes)
    run = cache.compile(*probes, mode=ENABLE)
    assert cache.unlike_fresh(run) == {}, "wrong kernels were delivered"
    cache.trust_marks()
    needs_served(cache, cache.compile(*probes, mode=ENABLE), probes)


@rule("cache-mode/transparent")
def test_a_served_kernel_computes_the_operator(
    cache: CacheUnderTest, toolchain: Toolchain, probes: tuple[OperatorSpec, ...]
) -> None:
    needs(toolchain, Capability.RUN_KERNELS)
    from pytest_ascendcache.operators.semantics import sample_inputs, ulp_error

    cache.warm(*probes)
    fresh = cache.compile(*probes, mode=DISABLE)
    served = cache.compile(*probes, mode=ENABLE)
    needs_served(cache, served, probes)
    for operator in probes:
        inputs = sample_inputs(operator, seeded(1))
        # Positive control: a fresh kernel runs. No document bounds what it computes.
        expected = cache.toolchain.outputs(fresh.model(operator), operator, inputs)
        try:
            measured = cache.toolchain.outputs(served.model(operator), operator, inputs)
        except KernelRunError as error:
            pytest.fail(f"the served kernel does not run: {error}")
        for output, fresh_output in zip(measured, expected, strict=True):
            # Far less than another operator deviates.
            worst = ulp_error(output, fresh_output.astype("float64")).max()
            assert worst <= 64, f"{operator}: wrong numbers"


@rule("cache-mode/transparent")
@pytest.mark.parametrize("listed", ["probe_add", "OpType::Add"])
def test_beside_a_debug_list_kernels_equal_fresh_ones(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, listed: str
) -> None:
    cache.needs_reuse()
    take_debug_config(cache)
    config = DebugConfig(("ccec_g",), (listed,))
    cache.marks = False
    cache.warm(add, exp)
    run = cache.compile(add, exp, mode=ENABLE, debug_config=config)
    assert cache.delivers_fresh(run, exp), cache.evidence.found(
        Delivery.ANOTHER, "the unlisted operator was compiled for debugging", exp
    )
    alone = DebugConfig(("ccec_g",))
    assert cache.delivers_fresh(run, add, debug_config=alone), cache.evidence.found(
        Delivery.ANOTHER, "the listed operator was not compiled for debugging", add
    )


@rule("cache-mode/parallel-force")
@pytest.mark.parametrize("beside", ["force", "enable"])
def test_force_beside_other_compiles(
    cache: CacheUnderTest, probes: tuple[OperatorSpec, ...], beside: str
) -> None:
    operators = probes[:4]
    cache.marks = False
    cache.warm(*operators)
    modes = (FORCE, FORCE, FORCE, FORCE) if beside == "force" else (FORCE, ENABLE, FORCE, ENABLE)
    runs = cache.together(
        [cache.request(*operators[i:], *operators[:i], mode=m) for i, m in enumerate(modes)]
    )
    for run in runs:
        assert run.succeeded, f"a compile {run.result.ending}: {run.output.strip()[-200:]}"
        assert cache.unlike_fresh(run) == {}, "wrong kernels were delivered"
    assert cache.problems() == []
    cache.trust_marks()
    cache.warm(*operators)
    run = cache.compile(*operators, mode=ENABLE)
    if cache.marks:
        assert [run[operator] for operator in operators] == [HIT] * len(operators)
