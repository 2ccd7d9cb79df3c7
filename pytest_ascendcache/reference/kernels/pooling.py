"""Pooling of images."""

from __future__ import annotations

from math import inf

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.images import (
    Image,
    Window,
    data_order,
    output_image,
    same_padding,
    spatial,
)
from pytest_ascendcache.reference.kernels.operator import KernelContext
from pytest_ascendcache.reference.kernels.reductions import Sum
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import select

_NONE = (0, 0, 0, 0)


def _window(op: KernelContext, order: str, x: Image) -> tuple[Window, bool]:
    """The window that the attributes describe, and whether output sizes are rounded up.

    MaxPool and AvgPool have ``padding``; MaxPoolV3 and AvgPoolV2 have ``padding_mode``, ``pads``
    and ``global_pooling``.
    """
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
    return x, output_image(op, order, made, op.input(0).dtype), window


def _largest(op: KernelContext) -> None:
    """The largest element of the window. Padding never wins, NaN always does."""
    x, y, window = _images(op)
    size = (y.extents["H"], y.extents["W"])
    with op.trace.nest([y.extents[name] for name in "NCHW"]) as (n, c, *place):
        best = op.trace.variable(-inf)
        with window.taps(op.trace, x, size, place) as (_, position, inside):
            best.set(f.maximum(best.get(), x.load(n, c, position, inside, -inf)))
        y.tensor.store(y.offset(n, c, *place), best.get())


def _average(op: KernelContext) -> None:
    """The mean of the window; ``exclusive``, the default, does not count padding."""
    x, y, window = _images(op)
    size = (y.extents["H"], y.extents["W"])
    with op.trace.nest([y.extents[name] for name in "NCHW"]) as (n, c, *place):
        total = Sum(op)
        count = op.trace.variable(0.0)
        with window.taps(op.trace, x, size, place) as (_, position, inside):
            total.add(x.load(n, c, position, inside))
            one = op.trace.floating(1.0)
            count.set(count.get() + (one if inside is None else select(inside, one, 0.0)))
        kernel = op.trace.floating(window.kernel[0] * window.kernel[1])
        share = count.get() if op.flag("exclusive", True) else kernel
        mean = total.get() / share if op.precise else total.get() * f.rough_reciprocal(share)
        y.tensor.store(y.offset(n, c, *place), mean)


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
    y = output_image(op, order, {**x.extents, "H": 1, "W": 1}, op.input(0).dtype)
    area = x.extents["H"] * x.extents["W"]
    if not area:
        op.fail("has an empty image; use positive extents")
    zero = op.trace.index(0)
    with op.trace.nest((x.extents["N"], x.extents["C"])) as (n, c):
        total = Sum(op)
        with op.trace.nest((x.extents["H"], x.extents["W"])) as (h, w):
            total.add(x.tensor.load(x.offset(n, c, h, w)))
        y.tensor.store(y.offset(n, c, zero, zero), total.get() / float(area))
