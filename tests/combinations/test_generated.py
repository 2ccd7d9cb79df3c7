"""Generated operators: equal for equal seeds, of every type; neighbours differ in one parameter."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pytest_ascendcache.combinations.differences import between, differences
from pytest_ascendcache.combinations.generated import FAMILIES, generate, groups
from pytest_ascendcache.conformance.kit import generated as kit
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.operators.semantics import (
    OPERATOR_TYPES,
    edge_inputs,
    evaluate,
    has_semantics,
    judged_elements,
)
from pytest_ascendcache.reference.kernels import (
    KernelOptions,
    build,
    implementations,
)
from pytest_ascendcache.reference.kernels.compiler import check

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module", params=SEEDS)
def operators(request):
    return generate(seed=request.param)


def test_one_seed_gives_the_same_operators():
    assert generate(seed=3) == generate(seed=3)
    assert generate(seed=3) != generate(seed=4)


def test_every_type_has_its_turn(operators):
    assert {each.type for each in operators} == OPERATOR_TYPES == {each.type for each in FAMILIES}


def test_all_differ_in_more_than_their_names(operators):
    assert len({replace(each, name="") for each in operators}) == len(operators)


def test_neighbours_are_in_different_groups(operators):
    split = groups(operators, 5)
    assert sorted(len(each) for each in split)[0] >= len(operators) // 5
    place = {each: number for number, group in enumerate(split) for each in group}
    assert all(place[a] != place[b] for a, b in pairwise(operators))


def test_shapes_fit_what_the_operator_computes(operators):
    """They include long and odd extents, eight dimensions, and false and negative attributes."""
    for each in operators:
        assert has_semantics(each), each
        (y, *_) = evaluate(each, edge_inputs(each, seed=1))
        assert y.shape == each.outputs[0].shape, each
    shapes = {tensor.shape for each in operators for tensor in each.inputs if tensor.shape}
    assert max(map(len, shapes)) == 8
    assert max(max(shape) for shape in shapes) > 4096
    values = [attribute.value for each in operators for attribute in each.attributes]
    assert False in values
    assert any(isinstance(value, tuple) and min(value) < 0 for value in values)


def test_the_reference_compiles_a_sample_of_them(operators):
    for each in operators[::20]:
        options = KernelOptions(soc="Ascend910B1", implementation=implementations(each)[0])
        assert build(each, "te_generated", options).object


LEFT = OperatorSpec(
    "Cast",
    (TensorDesc.of("float32", 2, 1),),
    (TensorDesc.of("bool", 2, 1),),
    (Attribute("dst_type", "int", 12),),
)
RIGHT = replace(LEFT, outputs=(TensorDesc.of("uint8", 2, 1),), attributes=())


@pytest.mark.parametrize("number", range(1, 7))
def test_the_reference_takes_every_operator_of_other_seeds(number):
    """The reference checks the operators that ``--ascend-seed`` can generate, but compiles none."""
    for each in generate(seed=1000 * number):
        check(each, KernelOptions(soc="Ascend910B1"))


def test_differences_name_field_and_values():
    assert differences(LEFT, RIGHT) == [
        "output 0 dtype: bool -> uint8",
        "attribute dst_type: 12 -> absent",
    ]
    assert differences(LEFT, LEFT.named("other")) == []
    wider = replace(LEFT, inputs=(*LEFT.inputs, TensorDesc.of("int32", 1)))
    assert differences(LEFT, wider) == ["input 1: absent -> int32"]


def test_between_takes_one_field_more():
    assert {len(differences(LEFT, each)) for each in between(LEFT, RIGHT)} == {1}


def test_edges_are_there_and_the_last_element_is_none():
    tensor = TensorDesc.of("float16", 5, 7)
    spec = OperatorSpec("Relu", (tensor,), (tensor,))
    (x,) = edge_inputs(spec, seed=1)
    assert np.isnan(x).sum() == 1
    assert np.isinf(x).sum() == 2
    assert 0 < abs(x.flat[-1]) < 2.1
    exact = np.where(np.isnan(x), np.nan, np.maximum(x, 0)).astype(np.float64)
    assert judged_elements(spec, [x], exact).all()
    exact.flat[-1] = np.nan
    assert not judged_elements(spec, [x], exact).flat[-1], "NaN that no input explains"


def test_operators_are_narrowed_to_types_and_are_the_same() -> None:
    every = kit.generated("pairwise")
    kit.narrow(["Cast", "Exp"])
    try:
        assert kit.generated("pairwise") == tuple(e for e in every if e.type in ("Cast", "Exp"))
    finally:
        kit.narrow(())
    assert kit.generated("pairwise") == every
