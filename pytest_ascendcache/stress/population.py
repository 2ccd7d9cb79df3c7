"""The operators of a stress run: small, different from each other, known by their number."""

from __future__ import annotations

from pytest_ascendcache.operators import OperatorSpec, TensorDesc

_TYPES = (
    ("Add", 2, "float32"),
    ("Exp", 1, "float16"),
    ("Mul", 2, "float32"),
    ("Sqrt", 1, "float16"),
)
"""Type, number of inputs, data type. The two of float16 have an implementation for each mode."""


def population(count: int) -> tuple[OperatorSpec, ...]:
    """The first ``count`` operators; the n-th is the same whatever the count."""
    return tuple(_operator(number) for number in range(count))


def _operator(number: int) -> OperatorSpec:
    kind, inputs, dtype = _TYPES[number % len(_TYPES)]
    tensor = TensorDesc.of(dtype, 4, 8 + number)
    return OperatorSpec(kind, (tensor,) * inputs, (tensor,), name=f"{kind.lower()}_{number}")
