"""Comparison, logic and choice: operators whose inputs and output differ in element type."""

from __future__ import annotations

from collections.abc import Callable

from pytest_ascendcache.reference.kernels.layout import broadcast_shape, broadcast_strides
from pytest_ascendcache.reference.kernels.operator import FLOATS, NUMBERS, WIDE, KernelContext
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value, select


def _broadcast(op: KernelContext, dtype: str, formula: Callable[..., Value]) -> None:
    """Fill output 0 of this element type with ``formula`` of the inputs, broadcast as in numpy."""
    inputs = [op.input(position) for position in range(len(op.inputs))]
    shape = broadcast_shape([each.shape for each in inputs])
    if shape is None:
        shapes = " and ".join(str(list(each.shape)) for each in inputs)
        op.fail(f"cannot broadcast the shapes {shapes}; make unequal extents 1")
    op.expect_shape(op.output(), shape, dtype)
    op.walk(shape, [broadcast_strides(each.shape, len(shape)) for each in inputs], formula)


def _truth(op: KernelContext, holds: Value) -> Value:
    return select(holds, op.trace.word(1), op.trace.word(0))


def _comparison(holds: Callable[[Value, Value], Value]) -> Callable[[KernelContext], None]:
    def trace(op: KernelContext) -> None:
        op.expect_dtype_of_first(op.input(1))
        _broadcast(op, "bool", lambda x1, x2: _truth(op, holds(x1, x2)))

    return trace


for _name, _holds in (
    ("Equal", lambda x1, x2: x1.equals(x2)),
    ("Less", lambda x1, x2: x1 < x2),
    ("LessEqual", lambda x1, x2: x1 <= x2),
    ("Greater", lambda x1, x2: x1 > x2),
    ("GreaterEqual", lambda x1, x2: x1 >= x2),
):
    register(_name, dtypes=(*NUMBERS, *WIDE, "bool"), inputs=(2, 2))(_comparison(_holds))


@register("LogicalAnd", dtypes=("bool",), inputs=(2, 2))
def logical_and(op: KernelContext) -> None:
    _broadcast(op, "bool", lambda x1, x2: x1 & x2)


@register("LogicalOr", dtypes=("bool",), inputs=(2, 2))
def logical_or(op: KernelContext) -> None:
    _broadcast(op, "bool", lambda x1, x2: x1 | x2)


@register("LogicalNot", dtypes=("bool",))
def logical_not(op: KernelContext) -> None:
    _broadcast(op, "bool", lambda x: x ^ 1)


@register("IsNan")
def is_nan(op: KernelContext) -> None:
    _broadcast(op, "bool", lambda x: _truth(op, x.is_nan()))


@register("ClipByValue", dtypes=NUMBERS, inputs=(3, 3))
def clip_by_value(op: KernelContext) -> None:
    """x kept between input 1 and input 2, which broadcast; NaN stays NaN."""
    for position in (1, 2):
        op.expect_dtype_of_first(op.input(position))

    def clip(x: Value, low: Value, high: Value) -> Value:
        x = select(x < low, low, x)
        return select(x > high, high, x)

    _broadcast(op, op.input(0).dtype, clip)


@register("Bucketize", dtypes=FLOATS, attributes=("boundaries", "dtype", "right"))
def bucketize(op: KernelContext) -> None:
    """How many of ``boundaries`` lie below x; with ``right``, which is the default, how many x
    does not lie below. NaN lies above none."""
    boundaries, right = op.numbers("boundaries"), op.flag("right", default=True)

    def count(x: Value) -> Value:
        total = op.trace.word(0)
        for each in boundaries:
            total = total + _truth(op, x >= each if right else x > each)
        return total

    _broadcast(op, "int32", count)


@register("AccumulateNV2", dtypes=NUMBERS, attributes=("N",), inputs=(1, 64))
def accumulate(op: KernelContext) -> None:
    """The sum of all inputs, from the first to the last."""
    for each in range(1, len(op.inputs)):
        op.expect_dtype_of_first(op.input(each))

    def add(first: Value, *others: Value) -> Value:
        for each in others:
            first = first + each
        return first

    _broadcast(op, op.input(0).dtype, add)
