"""Operators that move, join, cut, repeat and pad elements of any type, with unchanged bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from pytest_ascendcache.reference.kernels.layout import (
    broadcast_shape,
    broadcast_strides,
    merge,
    row_major,
)
from pytest_ascendcache.reference.kernels.operator import MOVABLE, KernelContext, Tensor
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value, select

MOST_TENSORS = 64
"""The most tensors that one operator joins or returns: CANN's limit for ConcatD."""


def copy(op: KernelContext, extents: Sequence[int], of: tuple[int, ...], start: int = 0) -> None:
    """Fill output 0, which has ``extents``, from input 0.

    Input 0 is read from offset ``start`` on with the strides ``of``.
    """
    source, target = op.input(0), op.output()
    merged, (reading, writing) = merge(extents, of, row_major(extents))
    with op.trace.nest(merged) as indices:
        word = source.load_bits(op.offset(indices, reading, start))
        target.store_bits(op.offset(indices, writing), word)


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
    copy(op, extents, tuple(source.strides[axis] for axis in perm))


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
    copy(op, target.shape, target.strides)


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
            each.load_bits(op.offset(indices, steps))
            for each, steps in zip((condition, yes, no), of, strict=True)
        )
        word = select(wanted.equals(0), second, first)
        op.output().store_bits(op.offset(indices, to), word)


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

for _name in ("Squeeze", "Unsqueeze"):
    register(_name, dtypes=MOVABLE, attributes=("axis", "axes"))(reshape)
for _name in ("SqueezeV3", "UnsqueezeV3"):
    register(_name, dtypes=MOVABLE, inputs=(1, 2), constant_inputs=(1,))(reshape)
register("Identity", dtypes=MOVABLE)(reshape)


def _broadcast_to(op: KernelContext) -> None:
    """Input 0 broadcast, as in numpy, to the shape that the constant input 1 holds."""
    source, target = op.input(0), op.output()
    wanted = op.constant_integers(1, "shape")
    if wanted is None:
        op.fail("lacks shape; connect input 1")
    made = broadcast_shape([source.shape, wanted])
    if made is None:
        op.fail(f"cannot broadcast {list(source.shape)} to {list(wanted)}; make extents 1")
    op.expect_shape(target, made, source.dtype)
    copy(op, made, broadcast_strides(source.shape, len(made)))


for _name in ("BroadcastTo", "Expand"):
    register(_name, dtypes=MOVABLE, inputs=(2, 2), constant_inputs=(1,))(_broadcast_to)


@register("ConcatD", dtypes=MOVABLE, attributes=("concat_dim", "N"), inputs=(1, MOST_TENSORS))
def concat(op: KernelContext) -> None:
    """The inputs joined along ``concat_dim``."""
    tensors = [op.input(position) for position in range(len(op.inputs))]
    shape = tensors[0].shape
    if not shape or op.integer("N", len(tensors)) != len(tensors):
        op.fail(f"has {len(tensors)} input(s) of {list(shape)}; give it N tensors with dimensions")
    axis = op.axis("concat_dim", len(shape))
    before, after = shape[:axis], shape[axis + 1 :]
    for each in tensors[1:]:
        op.expect_dtype_of_first(each)
        rest = (*each.shape[:axis], *each.shape[axis + 1 :])
        if len(each.shape) != len(shape) or rest != (*before, *after):
            op.fail(f"cannot join {list(shape)} and {list(each.shape)} along {axis}")
    along = sum(each.shape[axis] for each in tensors)
    op.expect_shape(op.output(), (*before, along, *after), tensors[0].dtype)
    row, start = along * prod(after), 0
    for each in tensors:
        width = each.shape[axis] * prod(after)
        with op.trace.nest((prod(before), width)) as (outer, inner):
            word = each.load_bits(outer * width + inner)
            op.output().store_bits(outer * row + inner + start, word)
        start += width


@register(
    "SplitVD",
    dtypes=MOVABLE,
    attributes=("size_splits", "split_dim", "num_split"),
    outputs=(1, MOST_TENSORS),
)
def split(op: KernelContext) -> None:
    """Input 0 cut along ``split_dim`` into outputs of ``size_splits`` extents."""
    source = op.input(0)
    axis = op.axis("split_dim", len(source.shape))
    sizes = op.integers("size_splits", length=len(op.outputs))
    before, after = source.shape[:axis], source.shape[axis + 1 :]
    if sum(sizes) != source.shape[axis] or min(sizes) < 0:
        op.fail(f"has size_splits {list(sizes)} for an extent of {source.shape[axis]}")
    row, start = source.shape[axis] * prod(after), 0
    for size, target in zip(sizes, op.outputs, strict=True):
        op.expect_shape(target, (*before, size, *after), source.dtype)
        width = size * prod(after)
        with op.trace.nest((prod(before), width)) as (outer, inner):
            target.store_bits(outer * width + inner, source.load_bits(outer * row + inner + start))
        start += width


@register("StridedSliceV2", dtypes=MOVABLE, inputs=(5, 5), constant_inputs=(1, 2, 3, 4))
def strided_slice(op: KernelContext) -> None:
    """``x[begin:end:stride]`` along each of the axes, with Python's meaning of a slice.

    Inputs 1 to 4 are the constants begin, end, axes and strides.
    """
    source = op.input(0)
    names = ("begin", "end", "axes", "strides")
    begin, end, axes, strides = (
        op.constant_integers(place, name) or () for place, name in enumerate(names, start=1)
    )
    if not len(begin) == len(end) == len(axes) == len(strides) or 0 in strides:
        op.fail("has begin, end, axes and strides of different lengths, or a stride of 0")
    steps, made, start = list(source.strides), list(source.shape), 0
    for first, last, axis, stride in zip(begin, end, axes, strides, strict=True):
        (place,) = op.axes((axis,), len(made))
        taken = range(*slice(first, last, stride).indices(source.shape[place]))
        made[place] = len(taken)
        start += taken.start * steps[place] if taken else 0
        steps[place] *= stride
    op.expect_shape(op.output(), made, source.dtype)
    copy(op, made, tuple(steps), start)


@register("TileD", dtypes=MOVABLE, attributes=("multiples",))
def tile(op: KernelContext) -> None:
    """Input 0 repeated ``multiples`` times along each dimension."""
    source = op.input(0)
    multiples = op.integers("multiples", length=len(source.shape))
    made = [many * extent for many, extent in zip(multiples, source.shape, strict=True)]
    op.expect_shape(op.output(), made, source.dtype)
    extents, steps = [], []
    for many, extent, step in zip(multiples, source.shape, source.strides, strict=True):
        extents += [many, extent]
        steps += [0, step]
    copy(op, extents, tuple(steps))


@register(
    "PadV3",
    dtypes=MOVABLE,
    attributes=("mode", "paddings_contiguous"),
    inputs=(2, 3),
    constant_inputs=(1,),
)
def pad(op: KernelContext) -> None:
    """Input 0 padded with the element of input 2, default 0.

    The constant input 1 holds, for each dimension, how many elements to add before and after.
    """
    op.text("mode", "constant", ("constant",))
    source, filler = op.input(0), op.optional_input(2)
    paddings = op.constant_integers(1, "paddings") or ()
    if len(paddings) != 2 * len(source.shape) or min(paddings, default=0) < 0:
        op.fail(f"has {list(paddings)} for paddings; use two values from 0 on for each dimension")
    if filler is not None:
        op.expect_dtype_of_first(filler)
    before, after = paddings[::2], paddings[1::2]
    made = [sum(each) for each in zip(before, source.shape, after, strict=True)]
    op.expect_shape(op.output(), made, source.dtype)
    trace = op.trace
    zero = trace.index(0) if source.bits == 64 else trace.word(0)
    nothing = zero if filler is None else filler.load_bits(trace.index(0))
    if not source.desc.elements:
        op.fail(f"has nothing to pad in {list(source.shape)}; use positive extents")
    with trace.nest(made) as indices:
        inside: Value | None = None
        place = trace.index(0)
        for index, extent, first, step in zip(
            indices, source.shape, before, source.strides, strict=True
        ):
            own = index + -first
            place = place + own * step
            for check in (own >= 0, own < extent):
                inside = check if inside is None else inside & check
        word = source.load_bits(place if inside is None else select(inside, place, 0))
        word = word if inside is None else select(inside, word, nothing)
        op.output().store_bits(op.offset(indices, row_major(made)), word)
