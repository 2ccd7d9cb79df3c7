"""Operators that move elements of any type without changing their bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from pytest_ascendcache.reference.kernels.layout import broadcast_strides, merge, offset, row_major
from pytest_ascendcache.reference.kernels.operator import MOVABLE, KernelContext, Tensor
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import select


def copy(op: KernelContext, extents: Sequence[int], of: tuple[int, ...], start: int = 0) -> None:
    """Fill output 0, which has ``extents``, from input 0.

    Input 0 is read from offset ``start`` on with the strides ``of``.
    """
    source, target = op.input(0), op.output()
    merged, (reading, writing) = merge(extents, of, row_major(extents))
    with op.trace.nest(merged) as indices:
        word = source.load_bits(offset(op.trace, indices, reading, start))
        target.store_bits(offset(op.trace, indices, writing), word)


@register("Transpose", dtypes=MOVABLE, attributes=("perm",), inputs=(1, 2), constant_inputs=(1,))
def transpose(op: KernelContext) -> None:
    """Input 0 with its axes in the order of ``perm``, the constant input 1 or an attribute."""
    source = op.input(0)
    rank = len(source.shape)
    perm = op.constant_integers(1, "perm")
    if perm is None:
        op.fail("lacks perm; set the attribute perm to a list_int")
    if sorted(axis % rank if -rank <= axis < rank else -1 for axis in perm) != list(range(rank)):
        op.fail(f"has {list(perm)} for perm; use a permutation of the axes 0 to {rank - 1}")
    extents = [source.shape[axis] for axis in perm]
    op.expect_shape(op.output(), extents, source.dtype)
    strides = row_major(source.shape)
    copy(op, extents, tuple(strides[axis] for axis in perm))


register("TransposeD", dtypes=MOVABLE, attributes=("perm",))(transpose)


@register(
    "Reshape",
    dtypes=MOVABLE,
    attributes=("axis", "num_axes", "shape"),
    inputs=(1, 2),
    constant_inputs=(1,),
)
def reshape(op: KernelContext) -> None:
    """Input 0 with the shape that the output declares."""
    source, target = op.input(0), op.output()
    if source.desc.elements != target.desc.elements:
        op.fail(
            f"cannot turn {list(source.shape)} into {list(target.shape)}; "
            "declare an output with as many elements"
        )
    op.expect_shape(target, target.shape, source.dtype)
    copy(op, target.shape, row_major(target.shape))


@register("Flatten", dtypes=MOVABLE, attributes=("axis",))
def flatten(op: KernelContext) -> None:
    """Input 0 with two dimensions: those before ``axis``, and those from it on."""
    shape = op.input(0).shape
    axis = op.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        op.fail(f"has {axis} for the attribute axis; use -{len(shape)} to {len(shape)}")
    axis += len(shape) if axis < 0 else 0
    extents = (prod(shape[:axis]), prod(shape[axis:]))
    op.expect_shape(op.output(), extents, op.input(0).dtype)
    copy(op, extents, row_major(extents))


@register(
    "GatherV2",
    dtypes=MOVABLE,
    attributes=("batch_dims", "negative_index_support", "is_preprocessed"),
    inputs=(3, 3),
    constant_inputs=(2,),
)
def gather(op: KernelContext) -> None:
    """Slices of input 0 at the indices of input 1, along the axis of the constant input 2.

    A negative index counts from the end. An index out of range takes the nearest slice, so the
    kernel reads nothing outside of input 0.
    """
    source, places, target = op.input(0), op.input(1), op.output()
    if places.dtype not in ("int32", "int64"):
        op.fail(f"cannot take {places.dtype} places of {source.dtype}; use int32 or int64 places")
    axes = op.constant_integers(2, "axis") or ()
    if len(axes) != 1 or op.integer("batch_dims", 0):
        op.fail("takes one axis, and 0 for batch_dims")
    (axis,) = op.axes(axes, len(source.shape), "axis")
    before, extent, after = source.shape[:axis], source.shape[axis], source.shape[axis + 1 :]
    if not extent:
        op.fail(f"has nothing to take from {list(source.shape)}; use positive extents")
    op.expect_shape(target, (*before, *places.shape, *after), source.dtype)
    outer, count, inner = prod(before), prod(places.shape), prod(after)
    trace, words = op.trace, places.bits // 32  # the low word of an int64 comes first
    with trace.nest((outer, count, inner)) as (first, number, last):
        place = trace.load(places.pointer, number * words, 32).to_index()
        place = select(place < 0, place + extent, place)
        place = select(place < 0, 0, select(place < extent, place, extent - 1))
        word = source.load_bits((first * extent + place) * inner + last)
        target.store_bits((first * count + number) * inner + last, word)


@register("SelectV2", dtypes=MOVABLE, inputs=(3, 3))
def select_elements(op: KernelContext) -> None:
    """Input 1 where input 0 is true, else input 2; all three broadcast."""
    _choose(op, *(op.input(position) for position in range(3)))


@register("MaskedFill", dtypes=MOVABLE, inputs=(3, 3))
def fill_where_masked(op: KernelContext) -> None:
    """Input 2 where input 1 is true, else input 0; all three broadcast."""
    x, mask, value = (op.input(position) for position in range(3))
    _choose(op, mask, value, x)


def _choose(op: KernelContext, condition: Tensor, yes: Tensor, no: Tensor) -> None:
    if condition.dtype != "bool" or yes.dtype != no.dtype:
        op.fail(
            f"cannot choose between {yes.dtype} and {no.dtype} by {condition.dtype}; use one type "
            "for both, and bool"
        )
    shape = op.common_shape((condition, yes, no))
    op.expect_shape(op.output(), shape, yes.dtype)
    strides = [broadcast_strides(each.shape, len(shape)) for each in (condition, yes, no)]
    extents, (to, *of) = merge(shape, row_major(shape), *strides)
    with op.trace.nest(extents) as indices:
        wanted, first, second = (
            each.load_bits(offset(op.trace, indices, steps))
            for each, steps in zip((condition, yes, no), of, strict=True)
        )
        word = select(wanted.equals(0), second, first)
        op.output().store_bits(offset(op.trace, indices, to), word)


def _triangle(upper: bool, op: KernelContext) -> None:
    """Input 0 with zeros below (or above) the diagonal, which counts upwards from the main one."""
    x, y = op.input(0), op.output()
    if len(x.shape) < 2:
        op.fail(f"has the shape {list(x.shape)} for input 0; give it at least 2 dimensions")
    op.expect_shape(y, x.shape, x.dtype)
    outer, (rows, columns) = prod(x.shape[:-2]), x.shape[-2:]
    diagonal = op.integer("diagonal", 0)
    with op.trace.nest((outer, rows, columns)) as (first, row, column):
        place = (first * rows + row) * columns + column
        right = column + row * -1
        word = x.load_bits(place)
        if upper:
            y.store_bits(place, select(right < diagonal, 0, word))
        else:
            y.store_bits(place, select(right < diagonal + 1, word, 0))


for _name in ("Triu", "Tril"):
    register(_name, dtypes=MOVABLE, attributes=("diagonal",))(partial(_triangle, _name == "Triu"))
