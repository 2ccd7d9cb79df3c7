"""Comparisons, logic, and other operators of several inputs that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.operator import NUMBERS, WIDE, KernelContext
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value, select


def _truth(op: KernelContext, holds: Value) -> Value:
    return select(holds, op.trace.word(1), op.trace.word(0))


def _logic(formula: Callable[..., Value], op: KernelContext) -> None:
    op.broadcast(formula, "bool")


def _comparison(holds: Callable[[Value, Value], Value]) -> Callable[[KernelContext], None]:
    def trace(op: KernelContext) -> None:
        op.expect_dtype_of_first(op.input(1))
        op.broadcast(lambda x1, x2: _truth(op, holds(x1, x2)), "bool")

    return trace


for _name, _holds in (
    ("Equal", lambda x1, x2: x1.equals(x2)),
    ("Less", lambda x1, x2: x1 < x2),
    ("LessEqual", lambda x1, x2: x1 <= x2),
    ("Greater", lambda x1, x2: x1 > x2),
    ("GreaterEqual", lambda x1, x2: x1 >= x2),
):
    register(_name, dtypes=(*NUMBERS, *WIDE, "bool"), inputs=(2, 2))(_comparison(_holds))


for _name, _formula in (
    ("LogicalAnd", lambda x1, x2: x1 & x2),
    ("LogicalOr", lambda x1, x2: x1 | x2),
):
    register(_name, dtypes=("bool",), inputs=(2, 2))(partial(_logic, _formula))
register("LogicalNot", dtypes=("bool",))(partial(_logic, lambda x: x ^ 1))


@register("IsNan")
def is_nan(op: KernelContext) -> None:
    op.broadcast(lambda x: _truth(op, x.is_nan()), "bool")


@register("ClipByValue", dtypes=NUMBERS, inputs=(3, 3))
def clip_by_value(op: KernelContext) -> None:
    """x clamped to input 1 and input 2, which broadcast; NaN stays NaN."""
    op.elementwise(f.clamp)


@register("Bucketize", attributes=("boundaries", "dtype", "right"))
def bucketize(op: KernelContext) -> None:
    """The number of ``boundaries`` below x; with ``right``, the default, below or equal to it.

    No boundary is below NaN.
    """
    boundaries, right = op.numbers("boundaries"), op.flag("right", default=True)

    def count(x: Value) -> Value:
        total = op.trace.word(0)
        for each in boundaries:
            total = total + _truth(op, x >= each if right else x > each)
        return total

    op.broadcast(count, "int32")


@register("AccumulateNV2", dtypes=NUMBERS, attributes=("N",), inputs=(1, 64))
def accumulate(op: KernelContext) -> None:
    """The sum of all inputs, from the first to the last."""
    op.elementwise(lambda *elements: reduce(add, elements))
