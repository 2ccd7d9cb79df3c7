"""The operators of a stress run: small, different from each other, known by their number."""

from __future__ import annotations

from pytest_ascendcache.operators import OperatorSpec, TensorDesc

_TYPES = (("Add", 2), ("Exp", 1), ("Mul", 2), ("Sqrt", 1))
"""Type and number of inputs. Two of them have an implementation for each mode."""


def population(count: int) -> tuple[OperatorSpec, ...]:
    """The first ``count`` operators; the n-th is the same whatever the count."""
    return tuple(_operator(number) for number in range(count))


def _operator(number: int) -> OperatorSpec:
    kind, inputs = _TYPES[number % len(_TYPES)]
    tensor = TensorDesc.of("float32", 4, 8 + number)
    return OperatorSpec(kind, (tensor,) * inputs, (tensor,), name=f"{kind.lower()}_{number}")
