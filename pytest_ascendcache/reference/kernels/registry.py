"""The table of operator types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

from pytest_ascendcache.reference.kernels.errors import UnsupportedOperator
from pytest_ascendcache.reference.kernels.operator import (
    FLOATS,
    KernelContext,
    OperatorDefinition,
)

_DEFINITIONS: dict[str, OperatorDefinition] = {}
# Where register() writes: the built-in table, or the innermost collect_definitions().
_TABLES = [_DEFINITIONS]

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
    """Define, or redefine, an operator type: for this process, or, within
    :func:`collect_definitions`, for whoever collects.

    The arguments are the fields of :class:`OperatorDefinition`; the decorated function is its
    ``trace`` and is returned unchanged.
    """

    def decorate(trace: Tracer) -> Tracer:
        _TABLES[-1][type_name] = OperatorDefinition(
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


@contextmanager
def collect_definitions() -> Iterator[dict[str, OperatorDefinition]]:
    """Collect what is registered inside, by type, instead of defining it for the process.

    The result is what ``build`` takes as ``custom``.
    """
    collected: dict[str, OperatorDefinition] = {}
    _TABLES.append(collected)
    try:
        yield collected
    finally:
        _TABLES.remove(collected)


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
