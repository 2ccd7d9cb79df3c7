"""Document C, "same compile parameters and operator parameters": which operators share an entry."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pytest_ascendcache.caches.canary import same_code
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.together import Together
from pytest_ascendcache.conformance.kit.vocabulary import (
    ENABLE,
    FORCE,
    HIT,
    KEPT,
    NEW,
    OTHER_SOCS,
    rule,
)
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec

node = partial(operator_of, name="node")


def _leaky(slope: float) -> OperatorSpec:
    return node("LeakyRelu", (4, 4), negative_slope=slope)


def _mean(axes: tuple[int, ...], keep: bool, out: tuple[int, ...]) -> OperatorSpec:
    return node("ReduceMeanD", (4, 4), outs=(out,), axes=axes, keep_dims=keep)


def _sum(shape: tuple[int, ...], *axes: int) -> OperatorSpec:
    """A sum along axes, which are a constant input; the result is a vector."""
    return node("ReduceSum", shape, outs=((4,),), constant=axes, keep_dims=False)


def _matmul(first: bool, second: bool, *bias: tuple[int, ...]) -> OperatorSpec:
    return node("MatMulV2", (4, 4), (4, 4), *bias, transpose_x1=first, transpose_x2=second)


def _layer_norm(axis: int) -> OperatorSpec:
    """Over the last two dimensions or the last one, which give the same tensors here."""
    outs = ((4, 1, 8), (4, 1, 1), (4, 1, 1))
    axes: dict[str, Any] = {"begin_norm_axis": axis, "begin_params_axis": 1}
    return node("LayerNorm", (4, 1, 8), (1, 8), (1, 8), outs=outs, **axes)


def _softmax(axis: int, *shape: int) -> OperatorSpec:
    return node("SoftmaxV2", shape, axes=(axis,))


def _padded(*last: int) -> OperatorSpec:
    """Five dimensions, of which the last is made longer, before it or after it."""
    return node(
        "PadV3", (1, 2, 2, 4, 4), outs=((1, 2, 2, 6, 6),), constant=(0,) * 6 + (1, 1, *last)
    )


def _concat(*last: int) -> OperatorSpec:
    """Sixteen inputs, whose description is longer than a page of memory."""
    shapes = [(4, 8)] * 14 + [(4, each) for each in last]
    return node("ConcatD", *shapes, outs=((4, 128),), concat_dim=1, N=16)


def _laid_out(operator: OperatorSpec, *origin: int) -> OperatorSpec:
    """The operator whose tensors had another shape before a compiler laid them out."""
    inputs, outputs = (
        tuple(replace(each, origin_shape=origin) for each in tensors)
        for tensors in (operator.inputs, operator.outputs)
    )
    return replace(operator, inputs=inputs, outputs=outputs)


_ADD = node("Add", (4, 8), (4, 8))
PAIRS = {
    "type": (_ADD, node("Mul", (4, 8), (4, 8))),
    "shape": (_ADD, node("Add", (4, 16), (4, 16))),
    "shape-transposed": (_ADD, node("Add", (8, 4), (8, 4))),
    "shape-beside-its-origin": (_ADD, _laid_out(node("Add", (4, 16), (4, 16)), 4, 8)),
    "shape-rank": (_ADD, node("Add", (32,), (32,))),
    "shape-leading-1": (
        _mean((1,), False, (4,)),
        node("ReduceMeanD", (1, 4, 4), outs=((1, 4),), axes=(1,), keep_dims=False),
    ),
    "shape-of-second-input": (_ADD, node("Add", (4, 8), (1, 8))),
    "shape-of-equal-digits": (node("Add", (1, 28), (1, 28)), node("Add", (12, 8), (12, 8))),
    "shape-by-256": (node("Add", (2, 8), (2, 8)), node("Add", (2, 264), (2, 264))),
    "shape-by-65536": (node("Add", (2, 8), (2, 8)), node("Add", (2, 65544), (2, 65544))),
    "third-input": (_matmul(False, False), _matmul(False, False, (4,))),
    "order-of-inputs": (node("Sub", (4, 8), (1, 8)), node("Sub", (1, 8), (4, 8))),
    "dtype": (_ADD, node("Add", (4, 8), (4, 8), dtype="float16")),
    "dtype-of-output": (
        node("Cast", (4, 4), out_dtype="float16", dst_type=1),
        node("Cast", (4, 4), out_dtype="int32", dst_type=3),
    ),
    "dtype-of-equal-width": (
        node("Cast", (4, 4), dtype="int8", out_dtype="float32", dst_type=0),
        node("Cast", (4, 4), dtype="uint8", out_dtype="float32", dst_type=0),
    ),
    "format": (
        node("Add", (1, 2, 4, 4), (1, 2, 4, 4), format="NCHW"),
        node("Add", (1, 2, 4, 4), (1, 2, 4, 4), format="NHWC"),
    ),
    "attribute-float": (_leaky(0.1), _leaky(0.2)),
    "attribute-float-close": (_leaky(0.1), _leaky(0.1000001)),
    "attribute-bool": (_mean((1,), False, (4,)), _mean((1,), True, (4, 1))),
    "attribute-bool-alone": (_matmul(False, False), _matmul(True, False)),
    "attribute-second": (_matmul(False, False), _matmul(False, True)),
    "attribute-int": (_layer_norm(1), _layer_norm(2)),
    "attribute-string": (
        node("GeluV2", (4, 4), approximate="none"),
        node("GeluV2", (4, 4), approximate="tanh"),
    ),
    "attribute-list": (_mean((0,), False, (4,)), _mean((1,), False, (4,))),
    "attribute-list-order": (
        node("TransposeD", (4, 4, 4), perm=(0, 2, 1)),
        node("TransposeD", (4, 4, 4), perm=(1, 0, 2)),
    ),
    "attribute-sign": (
        node("SoftmaxV2", (4, 4, 4), axes=(1,)),
        node("SoftmaxV2", (4, 4, 4), axes=(-1,)),
    ),
    "attribute-minus-1": (_softmax(-1, 4, 4), _softmax(-2, 4, 4)),
    "attribute-0": (node("HardSigmoid", (4, 4)), node("HardSigmoid", (4, 4), beta=0.0)),
    "attribute-small": (
        node("LeakyRelu", (4, 4), negative_slope=1e-7),
        node("LeakyRelu", (4, 4), negative_slope=1e-12),
    ),
    "shape-trailing-1": (_softmax(-1, 8), _softmax(-1, 8, 1)),
    "last-inputs-of-many": (_concat(8, 8), _concat(9, 7)),
    "attribute-present": (node("LeakyRelu", (4, 4)), _leaky(0.25)),
    "constant-input": (_sum((4, 4), 0), _sum((4, 4), 1)),
    "constant-input-late": (_padded(2, 0), _padded(0, 2)),
    "constant-input-further": (_sum((4, 4, 4), 0, 1), _sum((4, 4, 4), 0, 2)),
}
"""The field that changes -> two operators that differ in nothing else."""


def every_pair(cache: CacheUnderTest) -> None:
    """Compile all bases in one run, and the variants in the next, by the same names."""
    cache.needs_reuse()
    pairs = [
        tuple(each.named(f"node_{number}") for each in pair)
        for number, pair in enumerate(PAIRS.values())
    ]
    bases, variants = ([pair[place] for pair in pairs] for place in (0, 1))
    cache.warm(*bases)
    run = cache.compile(*variants, mode=ENABLE)
    known = {replace(each, name="") for each in bases}
    for base, variant in pairs:
        assert cache.fate(run, base) is KEPT
        # A variant may be another pair's base or variant; then it has an entry already.
        if (unnamed := replace(variant, name="")) not in known:
            assert run[variant] == NEW
            known.add(unnamed)
    runs = [cache.compile(*each, mode=ENABLE) for each in (bases, variants)]
    for pair in pairs:
        outcomes = [run[each] for run, each in zip(runs, pair, strict=True)]
        assert outcomes == [HIT] * 2
        stems = [run.served_from(each) for run, each in zip(runs, pair, strict=True)]
        assert stems[0] != stems[1]


@rule("cache-mode/key-separates")
@pytest.mark.parametrize("changed", PAIRS)
def test_a_changed_parameter_has_its_own_entry(
    cache: CacheUnderTest, changed: str, together: Together
) -> None:
    if together.go_well("every pair", every_pair, cache.evidence):
        return
    cache.needs_reuse()
    base, variant = PAIRS[changed]
    cache.warm(base)
    run = cache.compile(variant, mode=ENABLE)
    assert run[variant] == NEW
    assert cache.fate(run, base) is KEPT
    # One at a time, so that each keeps its name: another rule judges the effect of names.
    runs = [cache.compile(each, mode=ENABLE) for each in (base, variant)]
    assert runs[0][base] == runs[1][variant] == HIT
    assert runs[0].served_from(base) != runs[1].served_from(variant)


@rule("cache-mode/key-separates")
@pytest.mark.parametrize("other_soc", OTHER_SOCS, indirect=True)
def test_another_soc_has_its_own_entry(
    cache: CacheUnderTest, add: OperatorSpec, other_soc: str
) -> None:
    cache.needs_reuse()
    cache.warm(add)
    run = cache.compile(add, mode=ENABLE, soc=other_soc)
    assert run[add] == NEW
    assert cache.fate(run, add, soc=cache.options.soc) is KEPT
    assert cache.delivers_fresh(run, add, soc=other_soc)


@rule("cache-mode/key-separates")
@pytest.mark.parametrize(("one", "other"), [("1", "2"), ("0", "2")])
def test_deterministic_levels_have_entries_of_their_own(
    cache: CacheUnderTest, add: OperatorSpec, one: str, other: str
) -> None:
    """A parameter of newer releases; toolchains that do not take it are skipped."""
    cache.needs_reuse()
    levels = {level: {"deterministic_level": level} for level in (one, other)}
    first = cache.attempt(add, mode=ENABLE, raw_options=levels[one])
    if not first.succeeded:
        pytest.skip(f"{cache.toolchain.name}: does not take --deterministic_level")
    assert first[add] == NEW
    run = cache.compile(add, mode=ENABLE, raw_options=levels[other])
    if run[add] == HIT:
        fresh = cache.compile(add, mode=CacheMode.DISABLE, raw_options=levels[other])
        wrong = f"level {other} was served what {one} compiled"
        assert same_code(run.kernel(add), fresh.kernel(add)), wrong
        pytest.skip(f"{cache.toolchain.name}: compiles {add} alike at both levels")
    assert run[add] == NEW
    run = cache.compile(add, mode=ENABLE, raw_options=levels[one])
    assert run[add] == HIT


@rule("cache-mode/key-separates")
def test_an_unknown_combination_is_compiled_as_asked(cache: CacheUnderTest) -> None:
    """Every change at once next to every base: no kernel is confused with another."""
    cache.needs_reuse()
    bases = [base.named(f"base_{name}".replace("-", "_")) for name, (base, _) in PAIRS.items()]
    variants = [
        variant.named(f"variant_{name}".replace("-", "_")) for name, (_, variant) in PAIRS.items()
    ]
    cache.warm(*bases)
    run = cache.compile(*variants, mode=ENABLE)
    # A variant may be another pair's base; then it is served its own kernel.
    known = {replace(base, name="") for base in bases}
    for variant in variants:
        if replace(variant, name="") not in known:
            assert not run.served_from(variant), f"{variant} was served another's kernel"


@rule("cache-mode/key-separates")
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_operators_of_one_type_are_told_apart_within_a_run(
    cache: CacheUnderTest, mode: CacheMode
) -> None:
    operators = [operator_of("Add", (4, n), (4, n), name=f"add_{n}") for n in (4, 8, 12)]
    cache.marks = False
    fresh = {each: cache.fresh(each) for each in operators}
    for _ in range(2):
        run = cache.compile(*operators, mode=mode)
        for operator in operators:
            others = {*fresh.values()} - {fresh[operator]}
            assert run.kernel(operator) not in others, f"{operator}: another's kernel"


@rule("cache-mode/key-ignores-names")
@pytest.mark.parametrize(
    "renamed", ["operator", "inputs", "outputs", "attributes-reordered", "device"]
)
def test_names_share_an_entry(cache: CacheUnderTest, renamed: str) -> None:
    base = _mean((1,), False, (4,))
    cache.warm(base)
    variant = {
        "operator": base.named("another_node"),
        "inputs": replace(base, inputs=tuple(replace(t, name="x") for t in base.inputs)),
        "outputs": replace(base, outputs=tuple(replace(t, name="y") for t in base.outputs)),
        "attributes-reordered": replace(base, attributes=base.attributes[::-1]),
        "device": base,
    }[renamed]
    environment = {"DEVICE_ID": "3", "ASCEND_DEVICE_ID": "3"} if renamed == "device" else {}
    run = cache.compile(variant, mode=ENABLE, environment=environment)
    assert run[variant] == HIT
    assert run.served_from(variant) == {cache.entry(base).stem}
