"""Pairs of operators that differ in one field. A key without that field confuses them."""

from __future__ import annotations

from typing import Any

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc


def operator_of(
    kind: str, *shapes: tuple[int, ...], dtype: str = "float32", out: int = 0, **attributes: Any
) -> OperatorSpec:
    """An operator with inputs of these shapes, and one output shaped like input number ``out``."""
    tensors = tuple(TensorDesc.of(dtype, *shape) for shape in shapes)
    kinds = {float: "float", int: "int", bool: "bool", tuple: "list_int"}
    named = tuple(Attribute(k, kinds[type(v)], v) for k, v in attributes.items())
    return OperatorSpec(kind, tensors, (tensors[out],), named)


NEIGHBOURS: tuple[tuple[OperatorSpec, OperatorSpec], ...] = (
    (operator_of("Add", (4, 8), (4, 8)), operator_of("Mul", (4, 8), (4, 8))),
    (operator_of("Sub", (6, 4), (6, 4)), operator_of("Sub", (4, 6), (4, 6))),
    (operator_of("Relu", (4, 8)), operator_of("Relu", (4, 8), dtype="float16")),
    (operator_of("Mul", (5, 8), (1, 8)), operator_of("Mul", (5, 8), (5, 1))),
    (operator_of("Sub", (3, 8), (3, 8)), operator_of("Sub", (1, 8), (3, 8), out=1)),
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
