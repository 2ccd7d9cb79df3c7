"""Operators on images: convolution and pooling, which slide a window over an image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.matrix import reject_quantised
from pytest_ascendcache.reference.kernels.operator import KernelContext, Tensor
from pytest_ascendcache.reference.kernels.reductions import Sum
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Trace, Value, select

ORDERS = ("NCHW", "NHWC")
_NONE = (0, 0, 0, 0)


class Image:
    """A four-dimensional tensor whose dimensions are named N, C, H and W.

    ``order`` is the order in which they are stored, such as NHWC.
    """

    def __init__(self, op: KernelContext, tensor: Tensor, order: str) -> None:
        if len(tensor.shape) != 4:
            op.fail(
                f"has the shape {list(tensor.shape)} for {tensor.role}; "
                f"give it the 4 dimensions {order}"
            )
        self.tensor = tensor
        self.extents = dict(zip(order, tensor.shape, strict=True))
        self.strides = dict(zip(order, tensor.strides, strict=True))
        self._op = op

    def offset(self, n: Value, c: Value, h: Value, w: Value) -> Value:
        """The offset of an element."""
        return self._op.offset((n, c, h, w), tuple(self.strides[name] for name in "NCHW"))

    def load(
        self,
        n: Value,
        c: Value,
        position: tuple[Value, Value],
        inside: Value | None,
        padding: float = 0.0,
    ) -> Value:
        """The element at a position that :meth:`Window.taps` yields, or ``padding`` outside."""
        source = self.offset(n, c, *position)
        if inside is None:
            return self.tensor.load(source)
        return select(inside, self.tensor.load(select(inside, source, 0)), padding)


def output_image(
    op: KernelContext, order: str, extents: Mapping[str, int], dtype: str | None = None
) -> Image:
    """Output 0 as an image, which must declare these extents and, if given, this element type."""
    op.expect_shape(op.output(), [extents[name] for name in order], dtype)
    return Image(op, op.output(), order)


def data_order(op: KernelContext) -> str:
    """The order of the dimensions: the format of input 0, else ``data_format``, else NCHW."""
    format = op.input(0).desc.format
    order = op.text("data_format", format if format in ORDERS else "NCHW", ORDERS)
    if format in ORDERS and format != order:
        op.fail(f"has data_format {order} but format {format} for input 0; make them agree")
    if format not in (*ORDERS, "ND"):
        op.fail(f"has the format {format} for input 0; use NCHW, NHWC or ND")
    return order


def spatial(
    op: KernelContext, name: str, order: str, default: tuple[int, ...] | None = None
) -> tuple[int, int]:
    """H and W of a list_int attribute of 4 positive elements, which must be 1 for N and C."""
    values = dict(zip(order, op.integers(name, default, 4), strict=True))
    if min(values.values()) < 1 or (values["N"], values["C"]) != (1, 1):
        op.fail(
            f"has {list(values.values())} for the attribute {name}; "
            f"use positive values, and 1 for N and C ({order})"
        )
    return values["H"], values["W"]


def same_padding(
    extents: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int]
) -> tuple[int, int, int, int]:
    """TensorFlow's SAME padding: top, bottom, left, right; an odd element goes to the end."""
    pads: list[int] = []
    for extent, size, stride in zip(extents, kernel, strides, strict=True):
        total = max((-(-extent // stride) - 1) * stride + size - extent, 0)
        pads += (total // 2, total - total // 2)
    return pads[0], pads[1], pads[2], pads[3]


@dataclass(frozen=True)
class Window:
    """A kernel's height and width, and how it slides; ``pads`` is top, bottom, left, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int] = (1, 1)

    def output(self, op: KernelContext, image: Image, ceil: bool = False) -> tuple[int, int]:
        """Height and width of the result; ``ceil`` rounds them up."""
        if min(self.pads) < 0:
            op.fail(f"has {list(self.pads)} for pads; use values from 0 on")
        sizes = []
        for axis, name in enumerate("HW"):
            before, after = self.pads[2 * axis : 2 * axis + 2]
            span = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            room = image.extents[name] + before + after - span
            if room < 0:
                op.fail(
                    f"has a window of {span} over {name}={image.extents[name]} with padding "
                    f"{before} and {after}; use a smaller window or more padding"
                )
            stride = self.strides[axis]
            size = (-(-room // stride) if ceil else room // stride) + 1
            # A window that starts beyond the image and its leading padding would see no element.
            if ceil and (size - 1) * stride >= image.extents[name] + before:
                size -= 1
            sizes.append(size)
        return sizes[0], sizes[1]

    @contextmanager
    def taps(
        self, trace: Trace, image: Image, size: Sequence[int], place: Sequence[Value]
    ) -> Iterator[tuple[tuple[Value, Value], tuple[Value, Value], Value | None]]:
        """Loop over the kernel's elements for the result at ``place``.

        ``size`` is the height and width of all results. Yields the position in the kernel, the
        position in the image, and whether the latter is inside the image, or ``None`` if no
        position is outside.
        """
        with trace.nest(self.kernel) as taps:
            inside: Value | None = None
            positions = []
            for axis, name in enumerate("HW"):
                extent, before = image.extents[name], self.pads[2 * axis]
                stride, dilation = self.strides[axis], self.dilations[axis]
                position = place[axis] * stride + taps[axis] * dilation + -before
                furthest = (size[axis] - 1) * stride + (self.kernel[axis] - 1) * dilation - before
                checks = [position >= 0] if before else []
                checks += [position < extent] if furthest >= extent else []
                for check in checks:
                    inside = check if inside is None else inside & check
                positions.append(position)
            yield (taps[0], taps[1]), (positions[0], positions[1]), inside


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
    reject_quantised(op)
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
