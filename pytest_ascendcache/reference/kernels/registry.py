"""The table of operator types."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from pytest_ascendcache.reference.kernels.errors import UnsupportedOperator
from pytest_ascendcache.reference.kernels.operator import (
    FLOATS,
    KernelContext,
    OperatorDefinition,
)

_DEFINITIONS: dict[str, OperatorDefinition] = {}

Tracer = Callable[[KernelContext], None]


def register(
    type_name: str,
    *,
    dtypes: tuple[str, ...] = FLOATS,
    attributes: tuple[str, ...] = (),
    inputs: tuple[int, int] = (1, 1),
    outputs: tuple[int, int] = (1, 1),
    constant_inputs: tuple[int, ...] = (),
    two_implementations: bool = False,
) -> Callable[[Tracer], Tracer]:
    """Define, or redefine, an operator type for this process.

    The arguments are the fields of :class:`OperatorDefinition`; the decorated function is its
    ``trace`` and is returned unchanged.
    """

    def decorate(trace: Tracer) -> Tracer:
        _DEFINITIONS[type_name] = OperatorDefinition(
            type=type_name,
            trace=trace,
            dtypes=dtypes,
            attributes=attributes,
            inputs=inputs,
            outputs=outputs,
            constant_inputs=constant_inputs,
            two_implementations=two_implementations,
        )
        return trace

    return decorate


def operator_types() -> tuple[str, ...]:
    """Every registered operator type, sorted."""
    return tuple(sorted(_DEFINITIONS))


def definition(type_name: str) -> OperatorDefinition:
    """The definition of a type.

    Raises:
        UnsupportedOperator: where there is none.
    """
    found = _DEFINITIONS.get(type_name)
    if found is None:
        close = get_close_matches(type_name, _DEFINITIONS, 3, 0.5)
        instead = " or ".join(close) or f"one of {', '.join(operator_types())}"
        raise UnsupportedOperator(f"operator type {type_name!r} has no kernel here; use {instead}.")
    return found
