"""Matrix products and convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_ascendcache.reference.kernels.images import (
    Image,
    Window,
    data_order,
    output_image,
    spatial,
)
from pytest_ascendcache.reference.kernels.layout import (
    broadcast_shape,
    broadcast_strides,
    offset,
    row_major,
)
from pytest_ascendcache.reference.kernels.operator import KernelContext
from pytest_ascendcache.reference.kernels.reductions import Sum
from pytest_ascendcache.reference.kernels.registry import register


def _reject_quantised(op: KernelContext) -> None:
    if op.optional_input(3) is not None:
        op.fail("has an offset_w input, which belongs to int8 weights; leave it out")
    if op.integer("offset_x", 0) != 0:
        op.fail(f"has {op.integer('offset_x')} for the attribute offset_x; use 0 with float types")


def _swapped(pair: Sequence[int], swap: bool) -> tuple[int, int]:
    first, second = pair
    return (second, first) if swap else (first, second)


def product(transpose_first: str, transpose_second: str) -> Callable[[KernelContext], None]:
    """The tracer of a matrix product: the last two dimensions, with an optional bias per column.

    The other dimensions broadcast. The arguments name the attributes that transpose an input.
    """

    def trace(op: KernelContext) -> None:
        first, second, bias = op.input(0), op.input(1), op.optional_input(2)
        _reject_quantised(op)
        swap_first, swap_second = op.flag(transpose_first), op.flag(transpose_second)
        shapes = f"{list(first.shape)} and {list(second.shape)}"
        if min(len(first.shape), len(second.shape)) < 2:
            op.fail(f"has the shapes {shapes}; give both at least 2 dimensions")
        rows, depth = _swapped(first.shape[-2:], swap_first)
        other_depth, columns = _swapped(second.shape[-2:], swap_second)
        batch = broadcast_shape([first.shape[:-2], second.shape[:-2]])
        if depth != other_depth or batch is None:
            op.fail(
                f"cannot multiply {shapes} with {transpose_first}={swap_first} and "
                f"{transpose_second}={swap_second}; make the inner extents and the batches agree"
            )
        op.expect_dtype_of_first(second)
        op.expect_shape(op.output(), (*batch, rows, columns))
        if bias is not None:
            op.expect_shape(bias, (columns,))

        rank = len(batch) + 2
        *first_batch, one, two = broadcast_strides(first.shape, rank)
        by_row, first_depth = _swapped((one, two), swap_first)
        *second_batch, one, two = broadcast_strides(second.shape, rank)
        second_depth, by_column = _swapped((one, two), swap_second)
        with op.trace.nest(op.output().shape) as indices:
            left = offset(op.trace, indices, (*first_batch, by_row, 0))
            right = offset(op.trace, indices, (*second_batch, 0, by_column))
            total = Sum(op)
            with op.trace.nest((depth,)) as (inner,):
                factor = first.load(left + inner * first_depth)
                total.add(factor * second.load(right + inner * second_depth))
            result = total.get()
            if bias is not None:
                result = result + bias.load(indices[-1])
            op.output().store(offset(op.trace, indices, row_major(op.output().shape)), result)

    return trace


for _name, _flags in (
    ("MatMul", ("transpose_x1", "transpose_x2")),
    ("MatMulV2", ("transpose_x1", "transpose_x2")),
    ("BatchMatMul", ("adj_x1", "adj_x2")),
    ("BatchMatMulV2", ("adj_x1", "adj_x2")),
):
    register(
        _name,
        attributes=(*_flags, "offset_x"),
        inputs=(2, 4),
        two_implementations=True,
    )(product(*_flags))


@register(
    "Conv2D",
    attributes=("strides", "pads", "dilations", "groups", "data_format", "offset_x"),
    inputs=(2, 4),
    two_implementations=True,
)
def convolution(op: KernelContext) -> None:
    """Cross-correlation of an image, NCHW or NHWC, with filters.

    ``strides`` and ``dilations`` follow the image's order; ``pads`` is top, bottom, left, right.
    The filters' format is NCHW (also if it says ND), NHWC or HWCN.
    """
    order = data_order(op)
    bias = op.optional_input(2)
    _reject_quantised(op)
    op.expect_dtype_of_first(op.input(1))
    filter_order = op.input(1).desc.format
    if filter_order not in ("ND", "NCHW", "NHWC", "HWCN"):
        op.fail(f"has the format {filter_order} for input 1; use NCHW, NHWC, HWCN or ND")
    x = Image(op, op.input(0), order)
    filters = Image(op, op.input(1), "NCHW" if filter_order == "ND" else filter_order)
    pads = op.integers("pads", length=4)
    window = Window(
        (filters.extents["H"], filters.extents["W"]),
        spatial(op, "strides", order),
        (pads[0], pads[1], pads[2], pads[3]),
        spatial(op, "dilations", order, (1, 1, 1, 1)),
    )
    groups, channels = op.integer("groups", 1), filters.extents["N"]
    depth = filters.extents["C"]
    if groups < 1 or channels % groups or depth * groups != x.extents["C"]:
        op.fail(
            f"has groups={groups}, {x.extents['C']} input channels, {channels} filters of depth "
            f"{depth}; use a divisor of the filters and depth * groups input channels"
        )
    height, width = window.output(op, x)
    batch = x.extents["N"]
    y = output_image(op, order, {"N": batch, "C": channels, "H": height, "W": width})
    if bias is not None:
        op.expect_shape(bias, (channels,))
    per_group = channels // groups
    with op.trace.nest((batch, groups, per_group, height, width)) as (n, group, member, h, w):
        channel = group * per_group + member
        total = Sum(op)
        with (
            op.trace.nest((depth,)) as (c,),
            window.taps(op.trace, x, (height, width), (h, w)) as (tap, place, inside),
        ):
            value = x.load(n, group * depth + c, place, inside)
            total.add(value * filters.tensor.load(filters.offset(channel, c, *tap)))
        result = total.get()
        if bias is not None:
            result = result + bias.load(channel)
        y.tensor.store(y.offset(n, channel, h, w), result)
