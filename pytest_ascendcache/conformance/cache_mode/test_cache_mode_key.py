"""Document C, "same compile parameters and operator parameters": what shares an entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_ascendcache.conformance.kit.together import Together
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    ENABLE,
    FORCE,
    KEPT,
    OTHER_SOCS,
    REUSED,
    STORED,
    Outcome,
    rule,
)
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc


def _binary(
    kind: str, dtype: str, first: tuple[int, ...], second: tuple[int, ...], format: str = "ND"
) -> OperatorSpec:
    result = max(first, second)  # none of the pairs broadcasts both of its inputs
    return OperatorSpec(
        kind,
        (TensorDesc.of(dtype, *first, format=format), TensorDesc.of(dtype, *second, format=format)),
        (TensorDesc.of(dtype, *result, format=format),),
        name="node",
    )


def _unary(
    kind: str,
    *attributes: Attribute,
    dtype: str = "float32",
    result: str = "",
    shape: tuple[int, ...] = (4, 4),
    reduced: tuple[int, ...] | None = None,
) -> OperatorSpec:
    return OperatorSpec(
        kind,
        (TensorDesc.of(dtype, *shape),),
        (TensorDesc.of(result or dtype, *(shape if reduced is None else reduced)),),
        attributes,
        name="node",
    )


def _mean(axes: tuple[int, ...], keep: bool, reduced: tuple[int, ...]) -> OperatorSpec:
    return _unary(
        "ReduceMeanD",
        Attribute("axes", "list_int", axes),
        Attribute("keep_dims", "bool", keep),
        reduced=reduced,
    )


def _leaky(slope: float) -> OperatorSpec:
    return _unary("LeakyRelu", Attribute("negative_slope", "float", slope))


def _sum_along(axis: int) -> OperatorSpec:
    axes = replace(TensorDesc.of("int32", 1), is_const=True, const_value=(axis,))
    image, reduced = TensorDesc.of("float32", 4, 4), TensorDesc.of("float32", 4)
    keep = Attribute("keep_dims", "bool", False)
    return OperatorSpec("ReduceSum", (image, axes), (reduced,), (keep,), name="node")


def _sum_of_cube(*axes: int) -> OperatorSpec:
    constant = replace(TensorDesc.of("int32", len(axes)), is_const=True, const_value=axes)
    cube, reduced = TensorDesc.of("float32", 4, 4, 4), TensorDesc.of("float32", 4)
    keep = Attribute("keep_dims", "bool", False)
    return OperatorSpec("ReduceSum", (cube, constant), (reduced,), (keep,), name="node")


def _of_cube(kind: str, name: str, *values: int) -> OperatorSpec:
    return _unary(kind, Attribute(name, "list_int", values), shape=(4, 4, 4))


def _matmul(first: bool, second: bool, biased: bool = False) -> OperatorSpec:
    square, bias = TensorDesc.of("float32", 4, 4), TensorDesc.of("float32", 4)
    transposed = (
        Attribute("transpose_x1", "bool", first),
        Attribute("transpose_x2", "bool", second),
    )
    inputs = (square, square, bias) if biased else (square, square)
    return OperatorSpec("MatMulV2", inputs, (square,), transposed, name="node")


def _layer_norm(axis: int) -> OperatorSpec:
    """Over the last two dimensions or the last one, which come to the same tensors here."""
    x, vector = TensorDesc.of("float32", 4, 1, 8), TensorDesc.of("float32", 1, 8)
    mean = TensorDesc.of("float32", 4, 1, 1)
    axes = (
        Attribute("begin_norm_axis", "int", axis),
        Attribute("begin_params_axis", "int", 1),
    )
    return OperatorSpec("LayerNorm", (x, vector, vector), (x, mean, mean), axes, name="node")


_ADD = _binary("Add", "float32", (4, 8), (4, 8))
PAIRS = {
    "type": (_ADD, _binary("Mul", "float32", (4, 8), (4, 8))),
    "shape": (_ADD, _binary("Add", "float32", (4, 16), (4, 16))),
    "shape-transposed": (_ADD, _binary("Add", "float32", (8, 4), (8, 4))),
    "shape-rank": (_ADD, _binary("Add", "float32", (32,), (32,))),
    "shape-of-second-input": (_ADD, _binary("Add", "float32", (4, 8), (1, 8))),
    "shape-of-equal-digits": (
        _binary("Add", "float32", (1, 28), (1, 28)),
        _binary("Add", "float32", (12, 8), (12, 8)),
    ),
    "shape-by-256": (
        _binary("Add", "float32", (2, 8), (2, 8)),
        _binary("Add", "float32", (2, 264), (2, 264)),
    ),
    "shape-by-65536": (
        _binary("Add", "float32", (2, 8), (2, 8)),
        _binary("Add", "float32", (2, 65544), (2, 65544)),
    ),
    "third-input": (_matmul(False, False), _matmul(False, False, biased=True)),
    "order-of-inputs": (
        _binary("Sub", "float32", (4, 8), (1, 8)),
        _binary("Sub", "float32", (1, 8), (4, 8)),
    ),
    "dtype": (_ADD, _binary("Add", "float16", (4, 8), (4, 8))),
    "dtype-of-output": (
        _unary("Cast", Attribute("dst_type", "int", 1), result="float16"),
        _unary("Cast", Attribute("dst_type", "int", 3), result="int32"),
    ),
    "dtype-of-equal-width": (
        _unary("Cast", Attribute("dst_type", "int", 0), dtype="int8", result="float32"),
        _unary("Cast", Attribute("dst_type", "int", 0), dtype="uint8", result="float32"),
    ),
    "format": (
        _binary("Add", "float32", (1, 2, 4, 4), (1, 2, 4, 4), "NCHW"),
        _binary("Add", "float32", (1, 2, 4, 4), (1, 2, 4, 4), "NHWC"),
    ),
    "attribute-float": (_leaky(0.1), _leaky(0.2)),
    "attribute-float-close": (_leaky(0.1), _leaky(0.1000001)),
    "attribute-bool": (_mean((1,), False, (4,)), _mean((1,), True, (4, 1))),
    "attribute-bool-alone": (_matmul(False, False), _matmul(True, False)),
    "attribute-second": (_matmul(False, False), _matmul(False, True)),
    "attribute-int": (_layer_norm(1), _layer_norm(2)),
    "attribute-string": (
        _unary("GeluV2", Attribute("approximate", "string", "none")),
        _unary("GeluV2", Attribute("approximate", "string", "tanh")),
    ),
    "attribute-list": (_mean((0,), False, (4,)), _mean((1,), False, (4,))),
    "attribute-list-order": (
        _of_cube("TransposeD", "perm", 0, 2, 1),
        _of_cube("TransposeD", "perm", 1, 0, 2),
    ),
    "attribute-sign": (_of_cube("SoftmaxV2", "axes", 1), _of_cube("SoftmaxV2", "axes", -1)),
    "attribute-present": (_unary("LeakyRelu"), _leaky(0.25)),
    "constant-input": (_sum_along(0), _sum_along(1)),
    "constant-input-further": (_sum_of_cube(0, 1), _sum_of_cube(0, 2)),
}
"""What changes -> two operators that differ in nothing else."""


def every_pair(cache: CacheUnderTest) -> None:
    """The bases of all pairs in one run, and what is changed in the next, by the same names."""
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
        # What is the base of another pair was there before, as is what two pairs come to.
        if (unnamed := replace(variant, name="")) not in known:
            assert run[variant] == Outcome(COMPILED, STORED)
            known.add(unnamed)
    runs = [cache.compile(*each, mode=ENABLE) for each in (bases, variants)]
    for pair in pairs:
        found = [run[each] for run, each in zip(runs, pair, strict=True)]
        assert found == [Outcome(REUSED, KEPT)] * 2
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
    assert run[variant] == Outcome(COMPILED, STORED)
    assert cache.fate(run, base) is KEPT
    # One at a time, so that each keeps its name: what names cost is another rule's business.
    runs = [cache.compile(each, mode=ENABLE) for each in (base, variant)]
    assert [run[each] for run, each in zip(runs, (base, variant), strict=True)] == [
        Outcome(REUSED, KEPT),
        Outcome(REUSED, KEPT),
    ]
    assert runs[0].served_from(base) != runs[1].served_from(variant)


@rule("cache-mode/key-separates")
@pytest.mark.parametrize("other_soc", OTHER_SOCS, indirect=True)
def test_another_soc_has_its_own_entry(
    cache: CacheUnderTest, add: OperatorSpec, other_soc: str
) -> None:
    cache.needs_reuse()
    cache.warm(add)
    run = cache.compile(add, mode=ENABLE, soc=other_soc)
    assert run[add] == Outcome(COMPILED, STORED)
    assert cache.fate(run, add, soc=cache.options.soc) is KEPT
    assert run.kernel(add) == cache.fresh(add, soc=other_soc)


@rule("cache-mode/key-separates")
@pytest.mark.parametrize(("one", "other"), [("1", "2"), ("0", "2")])
def test_deterministic_levels_have_entries_of_their_own(
    cache: CacheUnderTest, add: OperatorSpec, one: str, other: str
) -> None:
    """A parameter of newer releases; nothing is said of those that do not take it."""
    cache.needs_reuse()
    levels = {level: {"deterministic_level": level} for level in (one, other)}
    first = cache.attempt(add, mode=ENABLE, raw_options=levels[one])
    if not first.succeeded:
        pytest.skip(f"{cache.toolchain.name}: does not take --deterministic_level")
    assert first[add] == Outcome(COMPILED, STORED)
    run = cache.compile(add, mode=ENABLE, raw_options=levels[other])
    assert run[add] == Outcome(COMPILED, STORED), f"level {other} was served what {one} compiled"
    run = cache.compile(add, mode=ENABLE, raw_options=levels[one])
    assert run[add] == Outcome(REUSED, KEPT)


@rule("cache-mode/key-separates")
def test_an_unknown_combination_is_compiled_as_asked(cache: CacheUnderTest) -> None:
    """Every change at once, beside every base: nothing is taken for something else."""
    cache.needs_reuse()
    bases = [base.named(f"base_{name}".replace("-", "_")) for name, (base, _) in PAIRS.items()]
    variants = [
        variant.named(f"variant_{name}".replace("-", "_")) for name, (_, variant) in PAIRS.items()
    ]
    cache.warm(*bases)
    run = cache.compile(*variants, mode=ENABLE)
    # A variant may be another pair's base; its kernel must be its own all the same.
    known = {replace(base, name="") for base in bases}
    for variant in variants:
        if replace(variant, name="") not in known:
            assert not run.served_from(variant), f"{variant} was served another's kernel"


@rule("cache-mode/key-separates")
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_operators_of_one_type_are_told_apart_within_a_run(
    cache: CacheUnderTest, mode: CacheMode
) -> None:
    operators = [_binary("Add", "float32", (4, n), (4, n)).named(f"add_{n}") for n in (4, 8, 12)]
    cache.marks = False
    for _ in range(2):
        run = cache.compile(*operators, mode=mode)
        for operator in operators:
            assert run.kernel(operator) == cache.fresh(operator), f"{operator}: another's kernel"


@rule("cache-mode/key-ignores-names")
@pytest.mark.parametrize("renamed", ["operator", "inputs", "outputs", "attributes-reordered"])
def test_names_share_an_entry(cache: CacheUnderTest, renamed: str) -> None:
    base = _mean((1,), False, (4,))
    cache.warm(base)
    variant = {
        "operator": base.named("another_node"),
        "inputs": replace(base, inputs=tuple(replace(t, name="x") for t in base.inputs)),
        "outputs": replace(base, outputs=tuple(replace(t, name="y") for t in base.outputs)),
        "attributes-reordered": replace(base, attributes=base.attributes[::-1]),
    }[renamed]
    run = cache.compile(variant, mode=ENABLE)
    assert run[variant] == Outcome(REUSED, KEPT)
    assert run.served_from(variant) == {cache.entry(base).stem}
