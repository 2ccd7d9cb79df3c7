"""Operators that scale the elements of a row by statistics of the row."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.layout import broadcast_strides, row_major
from pytest_ascendcache.reference.kernels.operator import KernelContext, Tensor
from pytest_ascendcache.reference.kernels.reductions import Reduction, Sum
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value, select


def _softmax_rows(op: KernelContext) -> Reduction:
    source, target = op.input(0), op.output()
    rank = len(source.shape)
    if rank == 0:
        op.fail("has a scalar input; give it at least 1 dimension")
    axes = op.axes(op.integers("axes", (-1,)), rank)
    op.expect_shape(target, source.shape, "float32" if op.flag("half_to_float") else source.dtype)
    return Reduction(op, source, axes)


def _largest(op: KernelContext, rows: Reduction, first: Value) -> Value:
    largest = op.trace.variable(-inf)
    with rows.elements(first) as element:
        value, so_far = op.input(0).load(element), largest.get()
        largest.set(select(value > so_far, value, so_far))
    return largest.get()


def _sum_of_powers(op: KernelContext, rows: Reduction, first: Value, largest: Value) -> Value:
    total = Sum(op)
    with rows.elements(first) as element:
        shifted = op.input(0).load(element) - largest
        total.add(f.exp(shifted) if op.precise else f.rough_exp(shifted))
    return total.get()


@register("SoftmaxV2", attributes=("axes", "half_to_float"), two_implementations=True)
def softmax(op: KernelContext) -> None:
    """e**(x - max) / sum of e**(x - max) along ``axes``, by default the last one."""
    source, target = op.input(0), op.output()
    rows = _softmax_rows(op)
    with rows.rows() as (first, _):
        largest = _largest(op, rows, first)
        total = _sum_of_powers(op, rows, first, largest)
        share = total if op.precise else f.rough_reciprocal(total)
        with rows.elements(first) as element:
            shifted = source.load(element) - largest
            if op.precise:
                target.store(element, f.exp(shifted) / share)
            else:
                target.store(element, f.rough_exp(shifted) * share)


@register("LogSoftmaxV2", attributes=("axes",), two_implementations=True)
def log_softmax(op: KernelContext) -> None:
    """x - max - log(sum of e**(x - max)) along ``axes``, by default the last one."""
    source, target = op.input(0), op.output()
    rows = _softmax_rows(op)
    with rows.rows() as (first, _):
        largest = _largest(op, rows, first)
        logarithm = f.log(_sum_of_powers(op, rows, first, largest))
        with rows.elements(first) as element:
            target.store(element, (source.load(element) - largest) - logarithm)


@register(
    "LayerNorm",
    attributes=("begin_norm_axis", "begin_params_axis", "epsilon"),
    inputs=(3, 3),
    outputs=(1, 3),
    two_implementations=True,
)
def layer_norm(op: KernelContext) -> None:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta.

    Mean and variance are those of the dimensions from ``begin_norm_axis`` on; gamma and beta have
    the dimensions from ``begin_params_axis`` on. Outputs: y, then mean and variance if declared.
    """
    x, gamma, beta = op.input(0), op.input(1), op.input(2)
    rank = len(x.shape)
    norm_axis = op.axis("begin_norm_axis", rank, 0)
    params_axis = op.axis("begin_params_axis", rank, 0)
    epsilon = op.number("epsilon", 1e-7)
    for each in (gamma, beta):
        op.expect_shape(each, x.shape[params_axis:], x.dtype)
    op.expect_shape(op.output(), x.shape, x.dtype)
    row_shape, inner = x.shape[:norm_axis], x.shape[norm_axis:]
    for each in op.outputs[1:]:
        op.expect_shape(each, row_shape + (1,) * len(inner), x.dtype)
    if not prod(inner):
        op.fail(f"has nothing to normalise in {list(x.shape)}; use positive extents")

    trace, count = op.trace, prod(inner)
    with trace.nest(row_shape) as outer:
        first = op.offset(outer, x.strides[:norm_axis])
        row = op.offset(outer, row_major(row_shape))
        mean, variance = moments(op, x, first, count)
        root = _inverse_root(op, variance + epsilon)
        with trace.nest(inner) as indices:
            element = first + op.offset(indices, row_major(inner))
            steps = broadcast_strides(gamma.shape, rank)
            parameter = op.offset([*outer, *indices], steps)
            normal = (x.load(element) - mean) * root
            result = normal * gamma.load(parameter) + beta.load(parameter)
            op.output().store(element, result)
        for each, value in zip(op.outputs[1:], (mean, variance), strict=False):
            each.store(row, value)


def normalise(
    op: KernelContext, load: Callable[[Value], Value], count: int, epsilon: float
) -> tuple[Value, Value]:
    """Mean and 1 / sqrt(variance + epsilon) of the ``count`` elements that ``load`` returns."""
    mean = average(op, count, load)

    def squared(place: Value) -> Value:
        value = load(place) - mean
        return value * value

    return mean, _inverse_root(op, average(op, count, squared) + epsilon)


def _inverse_root(op: KernelContext, x: Value) -> Value:
    return 1.0 / x.square_root() if op.precise else f.rough_rsqrt(x)


@register(
    "BatchNorm",
    attributes=("epsilon", "data_format", "is_training"),
    inputs=(5, 5),
)
def batch_norm(op: KernelContext) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset for each channel (dimension 1).

    Inputs 1 to 4 are scale, offset, mean and variance. Only inference is supported.
    """
    x = op.input(0)
    if op.flag("is_training"):
        op.fail("has is_training true; only inference is compiled here, so set it to false")
    op.text("data_format", "NCHW", ("NCHW",))
    if len(x.shape) < 2:
        op.fail(f"has the shape {list(x.shape)} for input 0; give it at least 2 dimensions")
    for place in range(1, 5):
        op.expect_shape(op.input(place), (x.shape[1],))
        op.expect_dtype_of_first(op.input(place))
    op.expect_shape(op.output(), x.shape, x.dtype)
    epsilon = op.number("epsilon", 1e-4)

    def formula(x: Value, scale: Value, shift: Value, mean: Value, variance: Value) -> Value:
        return (x - mean) / (variance + epsilon).square_root() * scale + shift

    along = tuple(int(dimension == 1) for dimension in range(len(x.shape)))
    op.walk(x.shape, [x.strides, along, along, along, along], formula)


def moments(op: KernelContext, x: Tensor, first: Value, count: int) -> tuple[Value, Value]:
    """Mean and variance of ``count`` elements of ``x`` from the offset ``first`` on."""
    mean = average(op, count, lambda place: x.load(first + place))

    def squared(place: Value) -> Value:
        value = x.load(first + place)
        return (value - mean) * (value - mean)

    return mean, average(op, count, squared)


def average(op: KernelContext, count: int, term: Callable[[Value], Value]) -> Value:
    """The mean of ``term(place)`` for the places from 0 to ``count``."""
    total = Sum(op)
    with op.trace.nest((count,)) as (place,):
        total.add(term(place))
    return total.mean(count)
