"""The table of operator types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches

from pytest_ascendcache.reference.kernels.errors import UnsupportedOperator
from pytest_ascendcache.reference.kernels.operator import (
    FLOATS,
    KernelContext,
    OperatorDefinition,
)
from pytest_ascendcache.reference.kernels.trace import Value

_DEFINITIONS: dict[str, OperatorDefinition] = {}
_FUSED: dict[str, OperatorDefinition] = {}

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


def register_fused(
    type_name: str,
    first: OperatorDefinition,
    last: OperatorDefinition,
    epilogue: Callable[[KernelContext, Value], Value] | None = None,
    *,
    trace: Tracer | None = None,
    inputs: tuple[int, int] | None = None,
    outputs: tuple[int, int] | None = None,
) -> None:
    """Define a type that does the work of two: the first one's with ``epilogue`` on what it
    stores, or a ``trace`` of its own."""
    _FUSED[type_name] = replace(
        first,
        type=type_name,
        trace=trace or first.trace,
        dtypes=tuple(each for each in first.dtypes if each in last.dtypes),
        attributes=(*first.attributes, *last.attributes),
        inputs=inputs or first.inputs,
        outputs=outputs or first.outputs,
        two_implementations=first.two_implementations or last.two_implementations,
        epilogue=epilogue,
    )


def operator_types() -> tuple[str, ...]:
    """Every registered operator type, sorted; fused ones are not among them."""
    return tuple(sorted(_DEFINITIONS))


def definition(type_name: str) -> OperatorDefinition:
    """The definition of a type.

    Raises:
        UnsupportedOperator: where there is none.
    """
    found = _DEFINITIONS.get(type_name) or _FUSED.get(type_name)
    if found is None:
        close = get_close_matches(type_name, _DEFINITIONS, 3, 0.5)
        instead = " or ".join(close) or f"one of {', '.join(operator_types())}"
        raise UnsupportedOperator(f"operator type {type_name!r} has no kernel here; use {instead}.")
    return found
