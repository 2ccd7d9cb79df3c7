"""The table of operator types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    two_implementations: bool = False,
) -> Callable[[Tracer], Tracer]:
    """Define, or redefine, an operator type for this process.

    The arguments are the fields of :class:`OperatorDefinition`; the decorated function is its
    ``trace``. To define a type for one build only, pass ``custom`` to ``build``.
    """

    def decorate(trace: Tracer) -> Tracer:
        _DEFINITIONS[type_name] = OperatorDefinition(
            type_name, trace, dtypes, attributes, inputs, outputs, two_implementations
        )
        return trace

    return decorate


def operator_types() -> tuple[str, ...]:
    """Every registered operator type, sorted."""
    return tuple(sorted(_DEFINITIONS))


def definition(type_name: str, custom: Mapping[str, OperatorDefinition]) -> OperatorDefinition:
    """The definition of a type; ``custom`` takes precedence.

    Raises:
        UnsupportedOperator: where there is none.
    """
    found = custom.get(type_name) or _DEFINITIONS.get(type_name)
    if found is None:
        close = get_close_matches(type_name, [*custom, *_DEFINITIONS], 3, 0.5)
        instead = " or ".join(close) or f"one of {', '.join(operator_types())}"
        raise UnsupportedOperator(f"operator type {type_name!r} has no kernel here; use {instead}.")
    return found
