"""Networks of many unconnected operators, for checks that want many kernels from one run."""

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
"""Types whose outputs show a mix-up of kernels, whichever attribute, list or tensor differs."""


def wide_network(operators: Sequence[OperatorSpec]) -> Network:
    """A network of unconnected operators, each with its own input data.

    Operators whose data cannot be written into a network file are left out.
    """
    from pytest_ascendcache.operators.semantics import sample_inputs

    tensors: dict[str, TensorDesc] = {}
    constants: dict[str, tuple[float, ...]] = {}
    nodes = []
    for each in operators:
        if not {tensor.dtype.name for tensor in each.inputs} <= CONSTANT_TYPES:
            continue
        inputs = tuple(f"{each.name}_input{number}" for number, _ in enumerate(each.inputs))
        results = tuple(f"{each.name}_output{number}" for number, _ in enumerate(each.outputs))
        pairs = zip((*inputs, *results), (*each.inputs, *each.outputs), strict=True)
        tensors |= {name: replace(tensor, name=name) for name, tensor in pairs}
        data = sample_inputs(each, seeded(1))
        constants |= {
            name: tuple(values.ravel().tolist())
            for name, tensor, values in zip(inputs, each.inputs, data, strict=True)
            if not tensor.is_const
        }
        nodes.append(Node(each, inputs, results))
    outputs = tuple(name for node in nodes for name in node.outputs)
    return Network("wide", tensors, constants, tuple(nodes), outputs)
