"""Operators that join, cut, repeat and pad tensors of any type without changing their bits."""

from __future__ import annotations

from math import prod

from pytest_ascendcache.reference.kernels.layout import (
    broadcast_shape,
    broadcast_strides,
    offset,
    row_major,
)
from pytest_ascendcache.reference.kernels.movement import copy, reshape
from pytest_ascendcache.reference.kernels.operator import MOVABLE, KernelContext
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value, select

MOST_TENSORS = 64
"""The most tensors that one operator joins or returns: CANN's limit for ConcatD."""

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
        if (*each.shape[:axis], *each.shape[axis + 1 :]) != (*before, *after):
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
    steps, made, start = list(row_major(source.shape)), list(source.shape), 0
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
    for many, extent, step in zip(multiples, source.shape, row_major(source.shape), strict=True):
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
            indices, source.shape, before, row_major(source.shape), strict=True
        ):
            own = index + -first
            place = place + own * step
            for check in (own >= 0, own < extent):
                inside = check if inside is None else inside & check
        word = source.load_bits(place if inside is None else select(inside, place, 0))
        word = word if inside is None else select(inside, word, nothing)
        op.output().store_bits(offset(trace, indices, row_major(made)), word)
