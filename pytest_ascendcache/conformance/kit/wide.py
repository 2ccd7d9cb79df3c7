"""Networks of many operators side by side, as nobody would write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.network import Network, Node
from pytest_ascendcache.operators.singleop import CONSTANT_TYPES

WIDE = (
    *("Abs", "LeakyRelu", "Add", "Maximum", "Cast", "ReduceMaxD", "TransposeD", "Flatten"),
    *("ConcatD", "SplitVD", "Bucketize"),
)
"""Types whose numbers are told apart whatever they are: attributes, lists, many tensors."""


def wide_network(operators: Sequence[OperatorSpec]) -> Network:
    """Operators side by side, each with data of its own; without those whose data cannot be
    written."""
    from pytest_ascendcache.operators.semantics import sample_inputs

    tensors: dict[str, TensorDesc] = {}
    constants: dict[str, tuple[float, ...]] = {}
    nodes = []
    for each in operators:
        if not {tensor.dtype.name for tensor in each.inputs} <= CONSTANT_TYPES:
            continue
        given = tuple(f"{each.name}_input{number}" for number, _ in enumerate(each.inputs))
        made = tuple(f"{each.name}_output{number}" for number, _ in enumerate(each.outputs))
        described = zip((*given, *made), (*each.inputs, *each.outputs), strict=True)
        tensors |= {name: replace(tensor, name=name) for name, tensor in described}
        data = sample_inputs(each, seeded(1))
        constants |= {
            name: tuple(values.ravel().tolist())
            for name, tensor, values in zip(given, each.inputs, data, strict=True)
            if not tensor.is_const
        }
        nodes.append(Node(each, given, made))
    outputs = tuple(name for node in nodes for name in node.outputs)
    return Network("wide", tensors, constants, tuple(nodes), outputs)
