"""Kernels that compute wrong numbers. The suite missed them until it generated operators."""

from __future__ import annotations

from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.installation import InstallationPolicy

NUMBERS = "combinations/numbers"

REDEFINE = InstallationPolicy.load_custom_operators
"""A kernel that is redefined here is wrong in the process that compiles, and nowhere else."""


@defect(NUMBERS, overrides=REDEFINE, found_later=True)
def quotients_flushed_to_zero(self, right, environ):
    """The kernel of RealDiv returns 0 for small float16 quotients."""
    right(environ)
    from pytest_ascendcache.reference.kernels.elementwise import elementwise, real_divide
    from pytest_ascendcache.reference.kernels.trace import select

    @elementwise("RealDiv", operands=2, two_implementations=True)
    def flushed(op: Any, x1: Any, x2: Any) -> Any:
        quotient = real_divide(op, x1, x2)
        return select(quotient.absolute() < 2.0**-14, quotient * 0.0, quotient)


@defect(NUMBERS, overrides=REDEFINE, found_later=True)
def odd_tail_not_written(self, right, environ):
    """The kernel of Tanh leaves out the last element of an odd tensor."""
    right(environ)
    from pytest_ascendcache.reference.kernels import functions as f
    from pytest_ascendcache.reference.kernels.registry import register

    @register("Tanh", two_implementations=True)
    def even(op: Any) -> None:
        count = op.output().desc.elements
        with op.trace.nest((count - count % 2,)) as (index,):
            x = op.input(0).load(index)
            op.output().store(index, f.tanh(x) if op.precise else f.rough_tanh(x))


@defect(NUMBERS, overrides=REDEFINE, found_later=True)
def inner_broadcast_is_read_through(self, right, environ):
    """The kernel of Mul broadcasts only the last dimension."""
    right(environ)
    from pytest_ascendcache.reference.kernels.layout import broadcast_strides, row_major
    from pytest_ascendcache.reference.kernels.operator import NUMBERS as DTYPES
    from pytest_ascendcache.reference.kernels.registry import register

    @register("Mul", dtypes=DTYPES, inputs=(2, 2))
    def multiply(op: Any) -> None:
        shape = op.output().shape
        strides = []
        for each in (op.input(0), op.input(1)):
            right = list(broadcast_strides(each.shape, len(shape)))
            if len(shape) > 2 and right[-2] == 0:
                right[-2] = row_major(shape)[-2] % max(each.desc.elements, 1)
            strides.append(tuple(right))
        op.walk(shape, strides, lambda one, other: one * other)


@defect(NUMBERS, overrides=REDEFINE, found_later=True)
def maximum_begins_with_zero(self, right, environ):
    """The kernel of ReduceMax begins with 0."""
    right(environ)
    from pytest_ascendcache.reference.kernels import functions as f
    from pytest_ascendcache.reference.kernels import reductions
    from pytest_ascendcache.reference.kernels.registry import register

    @register("ReduceMaxD", attributes=("axes", "keep_dims", "noop_with_empty_axes"))
    def maximum(op: Any) -> None:
        reduction = reductions._reduced(op)
        with reduction.rows() as (first, row):
            best = op.trace.variable(0.0)
            with reduction.elements(first) as element:
                best.set(f.maximum(best.get(), op.input(0).load(element)))
            op.output().store(row, best.get())


@defect(NUMBERS, overrides=REDEFINE, found_later=True)
def mean_of_long_rows_divided_by_2048(self, right, environ):
    """The kernel of ReduceMean divides by 2048 at most."""
    right(environ)
    from pytest_ascendcache.reference.kernels import reductions
    from pytest_ascendcache.reference.kernels.registry import register

    attributes = ("axes", "keep_dims", "noop_with_empty_axes")

    def mean(op: Any) -> None:
        reduction = reductions._reduced(op)
        with reduction.rows() as (first, row):
            total = reductions.Sum(op)
            with reduction.elements(first) as element:
                total.add(op.input(0).load(element))
            op.output().store(row, total.get() / float(min(reduction.count, 2048)))

    register(
        "ReduceMean",
        attributes=attributes,
        inputs=(1, 2),
        constant_inputs=(1,),
        two_implementations=True,
    )(mean)
    register("ReduceMeanD", attributes=attributes)(mean)
