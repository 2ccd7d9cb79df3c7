"""Pooling of images."""

from __future__ import annotations

from math import inf

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.images import (
    Image,
    Window,
    data_order,
    same_padding,
    spatial,
)
from pytest_ascendcache.reference.kernels.operator import KernelContext
from pytest_ascendcache.reference.kernels.reductions import Sum
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value, select

_NONE = (0, 0, 0, 0)


def _window(op: KernelContext, order: str, x: Image) -> tuple[Window, bool]:
    """The window by the attributes of MaxPool/AvgPool (``padding``) or of MaxPoolV3/AvgPoolV2
    (``padding_mode``, ``pads``, ``global_pooling``), and whether sizes are rounded up."""
    extents = (x.extents["H"], x.extents["W"])
    if op.flag("global_pooling"):
        return Window(extents, (1, 1), _NONE), False
    kernel, strides = spatial(op, "ksize", order), spatial(op, "strides", order)
    modes = ("SAME", "VALID")
    if op.spec.type in ("MaxPool", "AvgPool"):
        mode = op.text("padding", "", modes)
        if not mode:
            op.fail("lacks the required attribute padding; set it to SAME or VALID")
    else:
        mode = op.text("padding_mode", "CALCULATED", ("CALCULATED", *modes))
    if mode == "SAME":
        return Window(kernel, strides, same_padding(extents, kernel, strides)), False
    if mode == "VALID":
        return Window(kernel, strides, _NONE), False
    pads = op.integers("pads", _NONE, 4)
    for axis in (0, 1):
        if max(pads[2 * axis : 2 * axis + 2]) >= kernel[axis]:
            op.fail(f"has pads {list(pads)} for a window of {list(kernel)}; use pads below it")
    return Window(kernel, strides, (pads[0], pads[1], pads[2], pads[3])), op.flag("ceil_mode")


def _images(op: KernelContext) -> tuple[Image, Image, Window]:
    order = data_order(op)
    x = Image(op, op.input(0), order)
    window, ceil = _window(op, order, x)
    height, width = window.output(op, x, ceil)
    made = {**x.extents, "H": height, "W": width}
    op.expect_shape(op.output(), [made[name] for name in order], op.input(0).dtype)
    return x, Image(op, op.output(), order), window


def _largest(op: KernelContext) -> None:
    """The largest element of the window; padding never wins, NaN always does."""
    x, y, window = _images(op)
    size = (y.extents["H"], y.extents["W"])
    with op.trace.nest([y.extents[name] for name in "NCHW"]) as (n, c, *place):
        best = op.trace.variable(-inf)
        with window.taps(op.trace, x, size, place) as (_, position, inside):
            best.set(f.maximum(best.get(), _load(x, n, c, position, inside, -inf)))
        y.tensor.store(y.offset(n, c, *place), best.get())


def _average(op: KernelContext) -> None:
    """The mean of the window; ``exclusive`` (the default) leaves padding out of the count."""
    x, y, window = _images(op)
    size = (y.extents["H"], y.extents["W"])
    with op.trace.nest([y.extents[name] for name in "NCHW"]) as (n, c, *place):
        total = Sum(op)
        count = op.trace.variable(0.0)
        with window.taps(op.trace, x, size, place) as (_, position, inside):
            total.add(_load(x, n, c, position, inside, 0.0))
            one = op.trace.floating(1.0)
            count.set(count.get() + (one if inside is None else select(inside, one, 0.0)))
        kernel = op.trace.floating(window.kernel[0] * window.kernel[1])
        share = count.get() if op.flag("exclusive", True) else kernel
        mean = total.get() / share if op.precise else total.get() * f.rough_reciprocal(share)
        y.tensor.store(y.offset(n, c, *place), mean)


def _load(
    x: Image,
    n: Value,
    c: Value,
    position: tuple[Value, Value],
    inside: Value | None,
    padding: float,
) -> Value:
    source = x.offset(n, c, *position)
    if inside is None:
        return x.tensor.load(source)
    return select(inside, x.tensor.load(select(inside, source, 0)), padding)


_BY_PADDING = ("ksize", "strides", "padding", "data_format")
_BY_PADS = (
    *("ksize", "strides", "padding_mode", "pads"),
    *("data_format", "global_pooling", "ceil_mode"),
)

register("MaxPool", attributes=_BY_PADDING)(_largest)
register("MaxPoolV3", attributes=_BY_PADS)(_largest)
register("AvgPool", attributes=_BY_PADDING)(_average)
register("AvgPoolV2", attributes=(*_BY_PADS, "exclusive"), two_implementations=True)(_average)


@register("GlobalAveragePool")
def global_average_pool(op: KernelContext) -> None:
    """The mean of each channel."""
    order = data_order(op)
    x = Image(op, op.input(0), order)
    op.expect_shape(
        op.output(),
        [1 if name in "HW" else x.extents[name] for name in order],
        op.input(0).dtype,
    )
    y = Image(op, op.output(), order)
    zero = op.trace.index(0)
    with op.trace.nest((x.extents["N"], x.extents["C"])) as (n, c):
        total = Sum(op)
        with op.trace.nest((x.extents["H"], x.extents["W"])) as (h, w):
            total.add(x.tensor.load(x.offset(n, c, h, w)))
        y.tensor.store(y.offset(n, c, zero, zero), total.get() / float(_area(op, x)))


def _area(op: KernelContext, x: Image) -> int:
    area = x.extents["H"] * x.extents["W"]
    if not area:
        op.fail("has an empty image; use positive extents")
    return area
