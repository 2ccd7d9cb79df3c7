"""Documents C and I for models: what is said of an operator holds for it as a node, too. Which
nodes are fused is the compiler's choice, so kernels are compared with those of a fresh
conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest

from pytest_ascendcache.caches import Change, Snapshot
from pytest_ascendcache.conformance.kit.models import (
    PLAIN,
    ModelNode,
    ModelsUnderTest,
    NotConverted,
    SmallModel,
)
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    DISABLE,
    FORCE,
    REUSED,
    rule,
)
from pytest_ascendcache.contract import DebugConfig, PrecisionFile, SelectMode
from pytest_ascendcache.contract.facts import (
    Delivery,
    Ending,
    Fact,
    Later,
    Subject,
    SubjectKind,
    outcome_fact,
)
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.contract.outcome import ABSENT, KEPT, REWRITTEN, STORED
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.model_file import ModelParts

PRECISE, FAST = SelectMode.HIGH_PRECISION_FOR_ALL.value, SelectMode.HIGH_PERFORMANCE_FOR_ALL.value
CURVES = ("Tanh", "Exp", "Sqrt")
"""Types to which releases of CANN offer both modes; each can follow another node."""
GIVERS = {"MatMul": ("x", "w"), "Add": ("x", "b")}
PRODUCTS = ("BatchMatMulV2", "MatMulV2", "BatchMatMul", "MatMul")
"""Types that compilers make of MatMul."""
_SAME_NAME = ("LeakyRelu", "Add", "Tanh", "Sqrt")
"""Types that are called in ONNX as ATC calls them."""


@pytest.fixture
def models(cache: CacheUnderTest) -> ModelsUnderTest:
    return ModelsUnderTest(cache)


def _option(name: str, value: str = "") -> Subject:
    return Subject(SubjectKind.OPTION, name, value)


def _served(cache: CacheUnderTest, parts: ModelParts, subject: Subject, most: int) -> list[Fact]:
    """The fact that more than ``most`` kernels of a model were served from the cache."""
    served = [each for each in parts.kernels if each.served_from]
    if len(served) <= most:
        return []
    detail = f"{subject}: {len(served)} of {len(parts.kernels)} kernels of a model are served"
    run = len(cache.evidence.steps)
    return [outcome_fact(REUSED, [COMPILED], subject=subject, detail=detail, run=run)]


@rule("combinations/outcome")
def test_modes_and_debug_switches_hold_for_a_model(
    cache: CacheUnderTest, models: ModelsUnderTest
) -> None:
    """Debugging and ``disable`` serve nothing, ``force`` compiles everything, and whatever a node
    is fused with that is listed by its name or type, something is compiled; beside a precision
    file, too."""
    models.warm()
    facts: list[Fact] = []
    types = {node.type: f"OpType::{node.type}" for node in PLAIN.nodes if node.type in _SAME_NAME}
    kept = models.file("model.ini", PrecisionFile.of({"Tanh": HIGH_PRECISION}).content)
    for options in ({}, {"op_precision_mode": kept}):
        models.convert(options)
        for item in (*(node.name for node in PLAIN.nodes), *types.values()):
            listed = models.file("debug.cfg", DebugConfig(listed=(item,)).text())
            parts = models.convert({**options, "op_debug_config": listed})
            facts += _served(cache, parts, _option("op_debug_list"), len(parts.kernels) - 1)
    parts = models.convert({"op_debug_level": "1"})
    facts += _served(cache, parts, _option("--op_debug_level", "1"), 0)
    cache.mark()
    before = Snapshot.take(cache.root)
    # In another model some nodes are in the cache, and others are not.
    _, other = next(PLAIN.neighbours())
    parts = models.convert(mode=DISABLE, model=other)
    option = _option("--op_compiler_cache_mode", "disable")
    facts += _served(cache, parts, option, 0)
    for path, change in before.disturbed(Snapshot.take(cache.root)).items():
        detail = f"{path} of the cache is changed under disable"
        fate, due = (STORED, ABSENT) if change is Change.ADDED else (REWRITTEN, KEPT)
        facts.append(outcome_fact(fate, [due], path, subject=option, detail=detail))
    parts = models.convert(mode=FORCE)
    facts += _served(cache, parts, _option("--op_compiler_cache_mode", "force"), 0)
    require_none(facts, cache.evidence)


_EQUAL = SmallModel(
    (
        ModelNode("Tanh", "first", ("x",)),
        ModelNode("Exp", "between", ("first",)),
        ModelNode("Tanh", "second", ("between",)),
    )
)


@rule("debug/list-bypasses-listed")
@pytest.mark.parametrize("listed", ["first", "second"])
def test_one_of_two_equal_nodes_is_debugged(
    cache: CacheUnderTest, models: ModelsUnderTest, listed: str
) -> None:
    """The model has to hold the kernel that was compiled for it beside the other one's, whatever
    the switch makes of it."""
    models.warm(_EQUAL)
    facts: list[Fact] = []
    for switch in ("ccec_g", "dump_cce"):
        file = models.file("debug.cfg", DebugConfig((switch,), (listed,)).text())
        parts = models.convert({"op_debug_config": file}, model=_EQUAL)
        facts += _served(cache, parts, _option("op_debug_list"), len(parts.kernels) - 1)
    require_none(facts, cache.evidence)


@rule("cache-mode/transparent")
def test_a_model_beside_a_warm_cache_is_that_of_a_fresh_conversion(
    cache: CacheUnderTest, models: ModelsUnderTest
) -> None:
    """One cache, in which the same model was converted with other options before, and others that
    differ from it in one attribute or type of a node, or in one tensor."""
    names = PrecisionFile.of({}, {"curve": HIGH_PRECISION}).content
    plain = {"op_select_implmode": FAST}
    for options in (
        plain,
        {"op_select_implmode": PRECISE},
        {"op_precision_mode": models.file("names.ini", names)},
        {"op_select_implmode": SelectMode.HIGH_PRECISION.value, "optypelist_for_implmode": "Tanh"},
        plain,
    ):
        if not _is_fresh(cache, models, options, PLAIN):
            named = (f"--{key}={value.rpartition('/')[2]}" for key, value in options.items())
            detail = f"the model has other kernels than a fresh conversion with {' '.join(named)}"
            subject = _option(f"--{next(iter(options))}")
            raise AssertionError(cache.evidence.found(Delivery.ANOTHER, detail, subject=subject))
    refused = []
    for what, model in PLAIN.neighbours():
        try:
            models.fresh(plain, model)
        except NotConverted:
            refused.append(what)  # which types there are is the toolchain's choice
            continue
        assert _is_fresh(cache, models, plain, model), cache.evidence.found(
            Delivery.ANOTHER, f"where {what}, the model has another kernel than a fresh conversion"
        )
    if len(refused) == len([*PLAIN.neighbours()]):
        raise NotDecidable(f"no other model is converted: {'; '.join(refused)}")


@rule("cache-mode/key-separates")
def test_no_model_is_another_byte_for_byte(cache: CacheUnderTest, models: ModelsUnderTest) -> None:
    """One cache, and models that differ in one attribute, type or tensor, whose meaning follows
    from ONNX. Kernels may be the same where a model passes the difference to them."""
    first, refused = models.warm(), []
    again = models.convert()
    if (again.digests, again.rest) != (first.digests, first.rest):
        pytest.skip("two conversions of one model are not the same file")
    for what, model in PLAIN.neighbours():
        try:
            other = models.convert(model=model)
        except NotConverted:
            refused.append(what)
            continue
        same = (other.digests, other.rest) == (first.digests, first.rest)
        assert not same, cache.evidence.found(
            Delivery.ANOTHER, f"where {what}, the model is that of before, byte for byte"
        )
    if len(refused) == len([*PLAIN.neighbours()]):
        raise NotDecidable(f"no other model is converted: {'; '.join(refused)}")


def _is_fresh(
    cache: CacheUnderTest, models: ModelsUnderTest, options: Mapping[str, str], model: SmallModel
) -> bool:
    """Whether a conversion into the cache gives the kernels of a fresh one. One that fails beside
    the cache alone breaks the check. Raises ``NotDecidable`` if two fresh ones differ."""
    fresh = models.fresh(options, model)
    try:
        mine = models.convert(options, model=model).digests
    except NotConverted as failed:
        models.fresh(options, model, again=True)
        fact: Later | Ending = Ending.FAILURE
        try:
            models.convert(options, model=model)
        except NotConverted:
            fact = Later.FAILS
        raise AssertionError(cache.evidence.found(fact, f"beside a warm cache {failed}")) from None
    if mine != fresh and models.fresh(options, model, again=True) != fresh:
        raise NotDecidable("two fresh conversions of one model have different kernels")
    return mine == fresh


@rule("impl-mode/for-all")
def test_a_mode_holds_for_a_node_after_another(
    cache: CacheUnderTest, models: ModelsUnderTest
) -> None:
    """Types whose kernels differ by mode alone: so do those of a model in which they follow another
    node, fused or not."""
    alone = [ModelNode(kind, kind.lower(), ("x",)) for kind in CURVES]
    asked = {how: _by_mode(models, alone, how) for how in _WAYS}
    if not any(asked.values()):
        raise NotDecidable(f"none of {', '.join(CURVES)} has two implementations in a model")
    for giver, inputs in GIVERS.items():
        nodes = []
        for kind in CURVES:
            before = ModelNode(giver, f"before_{kind.lower()}", inputs)
            nodes += [before, ModelNode(kind, kind.lower(), (before.name,))]
        for how, due in asked.items():
            differ = _by_mode(models, nodes, how)
            detail = (
                f"{due} of {', '.join(CURVES)} have other kernels under {PRECISE} than under "
                f"{FAST}, and {differ} of them after {giver}"
            )
            assert differ >= due, cache.evidence.found(
                Delivery.UNCHANGED, detail, subject=_option(how.split()[0])
            )


@rule("impl-mode/precision-file")
def test_a_mode_holds_for_a_node_before_another(
    cache: CacheUnderTest, models: ModelsUnderTest
) -> None:
    """A product whose kernels differ by the mode of its type: so do those of a model in which a
    Relu follows it, fused or not."""
    product = ModelNode("MatMul", "product", ("x", "w"))
    followed = [product, ModelNode("Relu", "relu", ("product",))]
    for kind in PRODUCTS:
        try:
            alone, differ = (_by_type(models, nodes, kind) for nodes in ([product], followed))
        except NotConverted:
            continue  # which types there are is the toolchain's choice
        if alone:
            assert differ, cache.evidence.found(
                Delivery.UNCHANGED,
                f"a product has another kernel by the mode of {kind}, and none before a Relu",
                subject=_option("--op_precision_mode"),
            )
            return
    pytest.skip(f"none of {', '.join(PRODUCTS)} has two implementations in a model")


def _by_type(models: ModelsUnderTest, nodes: Sequence[ModelNode], kind: str) -> int:
    """How many kernels of a model are others under the other mode of a type."""
    model, made = SmallModel(tuple(nodes)), []
    for mode in (HIGH_PRECISION, HIGH_PERFORMANCE):
        file = models.file(f"{kind}-{mode}.ini", PrecisionFile.of({kind: mode}).content)
        made.append(models.fresh({"op_precision_mode": file}, model))
    return len(made[0] - made[1])


def _in_file(models: ModelsUnderTest, mode: str, by_name: bool) -> dict[str, str]:
    modes = dict.fromkeys([each.lower() if by_name else each for each in CURVES], mode)
    file = PrecisionFile.of({}, modes) if by_name else PrecisionFile.of(modes)
    return {"op_precision_mode": models.file(f"{mode}-{by_name}.ini", file.content)}


_WAYS: Mapping[str, Callable[[ModelsUnderTest, str], dict[str, str]]] = {
    "--op_select_implmode": lambda _, mode: {"op_select_implmode": f"{mode}_for_all"},
    "--op_precision_mode by types": partial(_in_file, by_name=False),
    "--op_precision_mode by names": partial(_in_file, by_name=True),
}
"""How an option gives all of :data:`CURVES` a mode. Names of nodes may have no effect at all."""


def _by_mode(models: ModelsUnderTest, nodes: Sequence[ModelNode], how: str) -> int:
    """How many kernels of a model are others under the other mode."""
    model = SmallModel(tuple(nodes))
    precise, fast = (
        models.fresh(_WAYS[how](models, mode), model) for mode in (HIGH_PRECISION, HIGH_PERFORMANCE)
    )
    return len(precise - fast)
