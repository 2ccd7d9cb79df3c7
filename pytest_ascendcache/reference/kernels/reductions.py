"""Operators that combine the elements along some axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, prod

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.half import cut_to_11_bits
from pytest_ascendcache.reference.kernels.layout import merge, row_major
from pytest_ascendcache.reference.kernels.operator import NUMBERS, KernelContext, Tensor
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Type, Value, select

_BLOCK = 16
"""Elements that a high_performance sum adds up with the precision of float16."""


class Sum:
    """A running sum of floats.

    High precision: float32 with Kahan's compensation. High performance: blocks of 16 elements,
    each truncated to 11 bits after every step, are added up in float32. A sum that had only 11
    bits would stop growing at 2048 times its elements, and one in float16 would overflow before a
    mean does.
    """

    def __init__(self, op: KernelContext) -> None:
        self._precise = op.precise
        self._total = op.trace.variable(0.0)
        if op.precise:
            self._compensation = op.trace.variable(0.0)
        else:
            self._block = op.trace.variable(0.0)
            self._added = op.trace.variable(0, Type.WORD)

    def add(self, value: Value) -> None:
        """Add one element."""
        total = self._total.get()
        if not self._precise:
            block = cut_to_11_bits(self._block.get() + value)
            added = self._added.get() + 1
            full = added.equals(_BLOCK)
            self._total.set(select(full, total + block, total))
            self._block.set(select(full, 0.0, block))
            self._added.set(select(full, 0, added))
            return
        corrected = value - self._compensation.get()
        result = total + corrected
        lost = (result - total) - corrected
        # An infinite sum has no remainder: infinity minus infinity is NaN.
        self._compensation.set(select(lost.absolute() < inf, lost, 0.0))
        self._total.set(result)

    def get(self) -> Value:
        """The sum so far."""
        total = self._total.get()
        return total if self._precise else total + self._block.get()

    def mean(self, count: int) -> Value:
        """The sum so far divided by ``count``."""
        total = self.get()
        return total / float(count) if self._precise else total * (1.0 / count)


class Reduction:
    """Nested loops over a tensor: kept dimensions outside, reduced dimensions inside."""

    def __init__(self, op: KernelContext, tensor: Tensor, axes: tuple[int, ...]) -> None:
        self._op = op
        shape, strides = tensor.shape, tensor.strides
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        self.count = prod(shape[axis] for axis in axes)
        """How many elements are combined into one."""
        kept_shape = tuple(shape[axis] for axis in kept)
        self._outer, (self._outer_strides, self._row_strides) = merge(
            kept_shape, tuple(strides[axis] for axis in kept), row_major(kept_shape)
        )
        self._inner, (self._inner_strides,) = merge(
            [shape[axis] for axis in axes], tuple(strides[axis] for axis in axes)
        )

    @contextmanager
    def rows(self) -> Iterator[tuple[Value, Value]]:
        """Loop over the results; yields the offsets of the first element and of the result."""
        with self._op.trace.nest(self._outer) as indices:
            first = self._op.offset(indices, self._outer_strides)
            yield first, self._op.offset(indices, self._row_strides)

    @contextmanager
    def elements(self, first: Value) -> Iterator[Value]:
        """Loop over the elements of the row that starts at ``first``; yields their offsets."""
        with self._op.trace.nest(self._inner) as indices:
            yield first + self._op.offset(indices, self._inner_strides)


def _reduced(op: KernelContext) -> Reduction:
    source, target = op.input(0), op.output()
    rank = len(source.shape)
    axes = op.axes(op.constant_integers(1, "axes") or tuple(range(rank)), rank)
    one = (1,) if op.flag("keep_dims") else ()
    shape: tuple[int, ...] = ()
    for axis, extent in enumerate(source.shape):
        shape += one if axis in axes else (extent,)
    op.expect_shape(target, shape, source.dtype)
    return Reduction(op, source, axes)


def _sum(op: KernelContext) -> None:
    """The sum along ``axes``, which is the constant input 1 or the attribute; default all axes."""
    source, target = op.input(0), op.output()
    reduction = _reduced(op)
    with reduction.rows() as (first, row):
        if source.is_float:
            total = Sum(op)
            with reduction.elements(first) as element:
                total.add(source.load(element))
            target.store(row, total.get())
        else:
            words = op.trace.variable(0, Type.WORD)
            with reduction.elements(first) as element:
                words.set(words.get() + source.load(element))
            target.store(row, words.get())


def _mean(op: KernelContext) -> None:
    source, target = op.input(0), op.output()
    reduction = _reduced(op)
    if not reduction.count:
        op.fail(f"has no element to take the mean of in {list(source.shape)}; use positive extents")
    with reduction.rows() as (first, row):
        total = Sum(op)
        with reduction.elements(first) as element:
            total.add(source.load(element))
        target.store(row, total.mean(reduction.count))


def _extreme(
    floats: Callable[[Value, Value], Value], is_maximum: bool
) -> Callable[[KernelContext], None]:
    """The tracer of a maximum or minimum along ``axes``; ``floats`` is that of two floats."""

    def trace(op: KernelContext) -> None:
        source, target = op.input(0), op.output()
        reduction = _reduced(op)
        with reduction.rows() as (first, row):
            if source.is_float:
                best = op.trace.variable(-inf if is_maximum else inf)
            else:
                best = op.trace.variable(0x80000000 if is_maximum else 0x7FFFFFFF, Type.WORD)
            with reduction.elements(first) as element:
                value, so_far = source.load(element), best.get()
                if source.is_float:
                    best.set(floats(so_far, value))
                else:
                    better = value > so_far if is_maximum else value < so_far
                    best.set(select(better, value, so_far))
            target.store(row, best.get())

    return trace


_ATTRIBUTES = ("axes", "keep_dims", "noop_with_empty_axes")

for _name, _trace in (
    ("Sum", _sum),
    ("Max", _extreme(f.maximum, is_maximum=True)),
    ("Min", _extreme(f.minimum, is_maximum=False)),
):
    register(
        f"Reduce{_name}",
        dtypes=NUMBERS,
        attributes=_ATTRIBUTES,
        inputs=(1, 2),
        constant_inputs=(1,),
    )(_trace)
    register(f"Reduce{_name}D", dtypes=NUMBERS, attributes=_ATTRIBUTES)(_trace)
register(
    "ReduceMean",
    attributes=_ATTRIBUTES,
    inputs=(1, 2),
    constant_inputs=(1,),
    two_implementations=True,
)(_mean)
register("ReduceMeanD", attributes=_ATTRIBUTES)(_mean)
