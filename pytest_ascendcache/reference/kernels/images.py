"""Images and the windows that slide over them, shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_ascendcache.reference.kernels.layout import offset, row_major
from pytest_ascendcache.reference.kernels.operator import KernelContext, Tensor
from pytest_ascendcache.reference.kernels.trace import Trace, Value, select

ORDERS = ("NCHW", "NHWC")


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
        self.strides = dict(zip(order, row_major(tensor.shape), strict=True))
        self._trace = op.trace

    def offset(self, n: Value, c: Value, h: Value, w: Value) -> Value:
        """The offset of an element."""
        return offset(self._trace, (n, c, h, w), tuple(self.strides[name] for name in "NCHW"))

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
