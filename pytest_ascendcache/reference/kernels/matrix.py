"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_ascendcache.reference.kernels.layout import broadcast_shape, broadcast_strides
from pytest_ascendcache.reference.kernels.operator import KernelContext
from pytest_ascendcache.reference.kernels.reductions import Sum
from pytest_ascendcache.reference.kernels.registry import register


def reject_quantised(op: KernelContext) -> None:
    """Fail if a product or convolution has quantised weights."""
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
        reject_quantised(op)
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
            left = op.offset(indices, (*first_batch, by_row, 0))
            right = op.offset(indices, (*second_batch, 0, by_column))
            total = Sum(op)
            with op.trace.nest((depth,)) as (inner,):
                factor = first.load(left + inner * first_depth)
                total.add(factor * second.load(right + inner * second_depth))
            result = total.get()
            if bias is not None:
                result = result + bias.load(indices[-1])
            op.output().store(op.offset(indices, op.output().strides), result)

    return trace


@register("GEMM", attributes=("transpose_a", "transpose_b"), inputs=(5, 5))
def gemm(op: KernelContext) -> None:
    """alpha * (a x b) + beta * c, where alpha and beta are tensors of one element."""
    a, b, c, alpha, beta = (op.input(place) for place in range(5))
    swap_a, swap_b = op.flag("transpose_a"), op.flag("transpose_b")
    if len(a.shape) != 2 or len(b.shape) != 2:
        op.fail(f"has the shapes {list(a.shape)} and {list(b.shape)}; give both 2 dimensions")
    (rows, depth), (other, columns) = _swapped(a.shape, swap_a), _swapped(b.shape, swap_b)
    if depth != other:
        op.fail(f"cannot multiply {[*a.shape]} and {[*b.shape]}; make the inner extents agree")
    for each, shape in ((c, (rows, columns)), (op.output(), (rows, columns))):
        op.expect_shape(each, shape)
    for each in (b, c, alpha, beta):
        op.expect_dtype_of_first(each)
    for each in (alpha, beta):
        op.expect_shape(each, (1,))
    (by_row, first_depth) = _swapped(a.strides, swap_a)
    (second_depth, by_column) = _swapped(b.strides, swap_b)
    with op.trace.nest((rows, columns)) as indices:
        left = op.offset(indices, (by_row, 0))
        right = op.offset(indices, (0, by_column))
        total = Sum(op)
        with op.trace.nest((depth,)) as (inner,):
            total.add(a.load(left + inner * first_depth) * b.load(right + inner * second_depth))
        zero = op.offset(indices, (0, 0))
        place = op.offset(indices, op.output().strides)
        result = total.get() * alpha.load(zero) + beta.load(zero) * c.load(place)
        op.output().store(place, result)


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
