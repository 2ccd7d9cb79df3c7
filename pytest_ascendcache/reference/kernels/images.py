"""Images and the windows that slide over them, shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_ascendcache.reference.kernels.layout import offset, row_major
from pytest_ascendcache.reference.kernels.operator import KernelContext, Tensor
from pytest_ascendcache.reference.kernels.trace import Trace, Value

ORDERS = ("NCHW", "NHWC")


class Image:
    """A four-dimensional tensor whose dimensions have names: N, C, H and W."""

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
        """Offset of an element."""
        return offset(self._trace, (n, c, h, w), tuple(self.strides[name] for name in "NCHW"))


def data_order(op: KernelContext) -> str:
    """Order of the dimensions: the format of input 0, else ``data_format``, else NCHW."""
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
    """H and W of a positive list_int attribute of 4 elements that are 1 for N and C."""
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
    """TensorFlow's SAME: top, bottom, left, right, the odd one at the end."""
    pads: list[int] = []
    for extent, size, stride in zip(extents, kernel, strides, strict=True):
        total = max((-(-extent // stride) - 1) * stride + size - extent, 0)
        pads += (total // 2, total - total // 2)
    return pads[0], pads[1], pads[2], pads[3]


@dataclass(frozen=True)
class Window:
    """Height and width of the kernel, and how it slides; ``pads`` is top, bottom, left, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int] = (1, 1)

    def output(self, op: KernelContext, image: Image, ceil: bool = False) -> tuple[int, int]:
        """Height and width of the result."""
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
            # A window that would start behind the image and its leading padding sees nothing.
            if ceil and (size - 1) * stride >= image.extents[name] + before:
                size -= 1
            sizes.append(size)
        return sizes[0], sizes[1]

    @contextmanager
    def taps(
        self, trace: Trace, image: Image, size: Sequence[int], place: Sequence[Value]
    ) -> Iterator[tuple[tuple[Value, Value], tuple[Value, Value], Value | None]]:
        """Loop over the kernel's elements for one result.

        ``size`` is the result's height and width, ``place`` the one computed. Yields the position
        in the kernel, the position in the image, and whether the latter is inside; outside it is
        moved to 0 so that reading it is safe. ``None`` where no padding is ever touched.
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
