"""The table of operator types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pytest_ascendcache.reference.kernels.errors import UnsupportedOperator
from pytest_ascendcache.reference.kernels.operator import KernelContext, OperatorDefinition

_DEFINITIONS: dict[str, OperatorDefinition] = {}
_FUSED: dict[str, OperatorDefinition] = {}

Tracer = Callable[[KernelContext], None]


def register(type_name: str, **fields: Any) -> Callable[[Tracer], Tracer]:
    """Define, or redefine, an operator type for this process.

    ``fields`` are those of :class:`OperatorDefinition`; the decorated function is its ``trace`` and
    is returned unchanged.
    """

    def decorate(trace: Tracer) -> Tracer:
        _DEFINITIONS[type_name] = OperatorDefinition(type_name, trace, **fields)
        return trace

    return decorate


def register_fused(
    type_name: str, first: OperatorDefinition, last: OperatorDefinition, **fields: Any
) -> None:
    """Define a type that does the work of two.

    It is the first type with the attributes of both; ``fields`` replace further fields of its
    :class:`OperatorDefinition`, such as the ``epilogue`` that does the work of the last type.
    """
    _FUSED[type_name] = replace(
        first,
        type=type_name,
        dtypes=tuple(each for each in first.dtypes if each in last.dtypes),
        attributes=(*first.attributes, *last.attributes),
        two_implementations=first.two_implementations or last.two_implementations,
        **fields,
    )


def operator_types() -> tuple[str, ...]:
    """Every registered operator type, sorted, without the fused ones."""
    return tuple(sorted(_DEFINITIONS))


def definition(type_name: str) -> OperatorDefinition:
    """The definition of a type, fused or not."""
    known = _DEFINITIONS.get(type_name) or _FUSED.get(type_name)
    if known is None:
        close = get_close_matches(type_name, _DEFINITIONS, 3, 0.5)
        instead = " or ".join(close) or f"one of {', '.join(operator_types())}"
        raise UnsupportedOperator(f"operator type {type_name!r} has no kernel here; use {instead}.")
    return known
