"""Operators for checks: single ones, wide networks, and pairs, which a key confuses that lacks the
field in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.network import Network, Node
from pytest_ascendcache.operators.singleop import CONSTANT_TYPES
from pytest_ascendcache.operators.spec import attributes

_Shape = tuple[int, ...]


def operator_of(
    kind: str,
    *shapes: _Shape,
    dtype: str = "float32",
    out_dtype: str = "",
    outs: tuple[_Shape, ...] = (),
    format: str = "ND",
    constant: tuple[int, ...] = (),
    name: str = "",
    **named: Any,
) -> OperatorSpec:
    """An operator with inputs of these shapes, one more of int32 if there is a ``constant``, one
    output like the largest input or those of ``outs``, and the ``named`` attributes."""
    inputs = [TensorDesc.of(dtype, *shape, format=format) for shape in shapes]
    if constant:
        tensor = TensorDesc.of("int32", len(constant))
        inputs.append(replace(tensor, is_const=True, const_value=constant))
    outputs = [
        TensorDesc.of(out_dtype or dtype, *shape, format=format)
        for shape in outs or [max(shapes, key=prod)]
    ]
    return OperatorSpec(kind, tuple(inputs), tuple(outputs), attributes(**named), name=name)


NEIGHBOURS: tuple[tuple[OperatorSpec, OperatorSpec], ...] = (
    (operator_of("Add", (4, 8), (4, 8)), operator_of("Mul", (4, 8), (4, 8))),
    (operator_of("Sub", (6, 4), (6, 4)), operator_of("Sub", (4, 6), (4, 6))),
    (operator_of("Relu", (4, 8)), operator_of("Relu", (4, 8), dtype="float16")),
    (operator_of("Mul", (5, 8), (1, 8)), operator_of("Mul", (5, 8), (5, 1))),
    (operator_of("Sub", (3, 8), (3, 8)), operator_of("Sub", (1, 8), (3, 8))),
    (operator_of("SoftmaxV2", (4, 8), axes=(-1,)), operator_of("SoftmaxV2", (4, 8), axes=(0,))),
    (
        operator_of("LeakyRelu", (4, 8), negative_slope=0.1),
        operator_of("LeakyRelu", (4, 8), negative_slope=0.10001),
    ),
    (operator_of("Abs", (1, 2, 3, 4, 5)), operator_of("Abs", (1, 2, 3, 5, 4))),
    (operator_of("Exp", (70000,)), operator_of("Exp", (70000 - 65536,))),
    (operator_of("Neg", (2, 1, 8)), operator_of("Neg", (2, 8))),
)
"""Each pair differs in one field."""


_transposed = partial(operator_of, "Transpose", (2, 2, 2))

INPUTS = {
    # Without the attribute, the scale is 1.
    "attribute-of-zero": (operator_of("Swish", (4, 8), scale=0.0), operator_of("Swish", (4, 8))),
    "second-input": (operator_of("Sub", (4, 8), (4, 8)), operator_of("Sub", (4, 8), (1, 8))),
    "order-of-inputs": (operator_of("Sub", (4, 8), (1, 8)), operator_of("Sub", (1, 8), (4, 8))),
    "constant-input": (_transposed(constant=(1, 0, 2)), _transposed(constant=(0, 2, 1))),
}
"""Changes to operators with several inputs, which have no impostor, or to an attribute of 0, which
a program may treat as missing. Only this tells the two apart; their outputs have one shape."""

WIDE = (
    *("Abs", "LeakyRelu", "Add", "Maximum", "Cast", "ReduceMaxD", "TransposeD", "Flatten"),
    *("ConcatD", "SplitVD", "Bucketize", "PadV3"),
)
"""Types whose outputs show a mix-up of kernels, whichever attribute, list or tensor differs."""


def wide_network(operators: Sequence[OperatorSpec]) -> Network:
    """A network of unconnected operators, each with its own input data, without those whose data
    cannot be written into a network file."""
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
