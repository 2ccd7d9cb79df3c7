"""Different operators have different simplified keys, unless only names of attributes differ.

The reference and the suite share the keys in ``operators/``, and neither of them checks this.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from pytest_ascendcache.combinations.generated import generate
from pytest_ascendcache.conformance.kit.packages import told_apart
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc, simplified_key
from pytest_ascendcache.operators.opinfo import OperatorInfo

TENSOR = TensorDesc.of("float32", 4, 8)
VALUES = {
    "bool": (False, True),
    "int": (0, 1, -1, 2, -2, 16, -16, 2**31, -(2**31)),
    "float": (0.0, 1.0, -1.0, 0.1, 0.1000001, 1e30, -1e-30),
    "string": ("", "a", "A", "ab", "ba", "none", "tanh"),
    "list_int": ((), (0,), (1,), (-1,), (0, 1), (1, 0), (1, -1), (-1, 1), tuple(range(8))),
    "list_float": ((), (0.5,), (-0.5,), (0.5, 0.5)),
    "list_bool": ((), (False,), (True,), (False, True), (True, False)),
    "list_list_int": ((), ((1, 2),), ((1,), (2,)), ((2, 1),)),
}


ONE_NAME_OR_ANOTHER = (20, 22)
"""Seeds that generate two operators with equal values under different attribute names.

One operator sets ``transpose_x1`` and the other ``transpose_x2``, or ``adj_x1`` and ``adj_x2``.
"""


def by_key(operators):
    operators_by_key = defaultdict(list)
    for each in operators:
        operators_by_key[simplified_key(OperatorInfo.of(each))].append(each)
    return operators_by_key


@pytest.mark.parametrize("seed", [*range(3), *ONE_NAME_OR_ANOTHER])
def test_generated_operators_have_keys_of_their_own(seed):
    operators = by_key(told_apart(generate(passes=2, seed=seed)))
    assert {key: each for key, each in operators.items() if len(each) > 1} == {}


@pytest.mark.parametrize("seed", ONE_NAME_OR_ANOTHER)
def test_only_what_names_other_attributes_cannot_be_told_apart(seed):
    operators = generate(passes=2, seed=seed)
    kept = told_apart(operators)
    lost = [each for each in operators if each not in kept]
    assert lost
    for key in (simplified_key(OperatorInfo.of(each)) for each in lost):
        named = [
            {attribute.name for attribute in each.attributes} for each in by_key(operators)[key]
        ]
        assert not set.intersection(*named)


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_of_an_attribute_counts(kind):
    keys = [
        simplified_key(
            OperatorInfo.of(OperatorSpec("X", (TENSOR,), (TENSOR,), (Attribute("a", kind, value),)))
        )
        for value in VALUES[kind]
    ]
    assert len(set(keys)) == len(keys), dict(zip(VALUES[kind], keys, strict=True))
