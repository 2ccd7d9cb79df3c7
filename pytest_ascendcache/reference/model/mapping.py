"""How each ONNX type becomes operators of ATC, with one small function for each type.

Source: the targets of Huawei's published ONNX parser plugins (facts ``onnx-models`` section 2).
They differ by release, and a real ATC fuses and rewrites further.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from pytest_ascendcache.operators.dtypes import TYPE_NUMBERS
from pytest_ascendcache.reference.model.importing import (
    Importer,
    NotMapped,
    attribute,
    optional_input,
)

Mapping = Callable[[Importer, Any], None]

MAPPED: dict[str, Mapping] = {}
"""How a node of each supported ONNX type is converted."""


def maps(*types: str) -> Callable[[Mapping], Mapping]:
    """Register the decorated function as the conversion of these ONNX types."""

    def register(function: Mapping) -> Mapping:
        MAPPED.update(dict.fromkeys(types, function))
        return function

    return register


_SAME_NAMES = """
    Abs Neg Sign Floor Ceil Sqrt Reciprocal Exp Log Relu Sigmoid Tanh Erf Softplus HardSwish
    Add Sub Mul Equal Less Greater
"""
_SAME = {
    **{name: name for name in _SAME_NAMES.split()},
    "Div": "RealDiv",
    "LessOrEqual": "LessEqual",
    "GreaterOrEqual": "GreaterEqual",
    "And": "LogicalAnd",
    "Or": "LogicalOr",
    "Not": "LogicalNot",
    "Where": "SelectV2",
    "IsNaN": "IsNan",
}
"""ONNX types without attributes that have the inputs and outputs of an ATC type."""


@maps(*_SAME)
def _renamed(to: Importer, node: Any) -> None:
    to.emit(_SAME[node.op_type], list(node.input))


maps("Identity")(lambda to, node: to.same(node.input[0]))


@maps("Dropout")
def _dropout(to: Importer, node: Any) -> None:
    mode = optional_input(node, 2)
    training = bool(mode) and to.integers(mode, "mode") != (0,)
    if training or any(map(to.is_used, node.output[1:])):
        raise NotMapped("drops elements, as in training; export the model for inference")
    to.same(node.input[0])


_FLOATS = {
    "LeakyRelu": ("LeakyRelu", {"alpha": ("negative_slope", 0.01)}),
    "Elu": ("Elu", {"alpha": ("alpha", 1.0)}),
    "HardSigmoid": ("HardSigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
}


@maps(*_FLOATS)
def _with_floats(to: Importer, node: Any) -> None:
    kind, names = _FLOATS[node.op_type]
    given: dict[str, Any] = {
        name: float(attribute(node, own, each)) for own, (name, each) in names.items()
    }
    to.emit(kind, [node.input[0]], **given)


@maps("Pow")
def _power(to: Importer, node: Any) -> None:
    base, exponent = node.input
    value = to.array(exponent)
    if value is not None:
        exponent = to.constant(value.astype(to.dtype(base)))
    to.emit("Pow", [base, exponent])


@maps("Max", "Min")
def _extreme(to: Importer, node: Any) -> None:
    kind = {"Max": "Maximum", "Min": "Minimum"}[node.op_type]
    if len(node.input) == 1:
        return to.same(node.input[0])
    so_far, *others, last = node.input
    shape = to.shape(so_far)
    for other in others:
        shape = np.broadcast_shapes(shape, to.shape(other))
        made = to.temporary(node.input[0], shape)
        to.emit(kind, [so_far, other], [made])
        so_far = made
    return to.emit(kind, [so_far, last])


@maps("Sum")
def _sum(to: Importer, node: Any) -> None:
    to.emit("AccumulateNV2", list(node.input), N=len(node.input))


@maps("Clip")
def _clip(to: Importer, node: Any) -> None:
    kind = np.dtype(to.dtype(node.input[0]))
    limits: Any = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    names = []
    for place, name in ((1, "min"), (2, "max")):
        limit = optional_input(node, place)
        if not limit:
            value = attribute(node, name, getattr(limits, name))
            limit = to.constant(np.array(value, kind))
        names.append(limit)
    to.emit("ClipByValue", [node.input[0], *names])


@maps("Cast")
def _cast(to: Importer, node: Any) -> None:
    target = to.dtype(node.output[0])
    if target == to.dtype(node.input[0]):
        return to.same(node.input[0])
    return to.emit("Cast", [node.input[0]], dst_type=TYPE_NUMBERS[target])


# --- products ------------------------------------------------------------------------------


def _reshaped(to: Importer, source: str, shape: tuple[int, ...], target: str = "") -> str:
    """The tensor ``target``, or a new one, with the elements of ``source`` in another shape."""
    made = target or to.temporary(source, shape)
    to.emit("Reshape", [source], [made], constants={1: shape})
    return made


@maps("MatMul")
def _product(to: Importer, node: Any) -> None:
    left, right = node.input
    shapes = [to.shape(left), to.shape(right)]
    vectors = [len(shape) == 1 for shape in shapes]
    if not any(vectors):
        return to.emit("BatchMatMulV2", [left, right], adj_x1=False, adj_x2=False)
    if vectors[0]:
        left, shapes[0] = _reshaped(to, left, (1, *shapes[0])), (1, *shapes[0])
    if vectors[1]:
        right, shapes[1] = _reshaped(to, right, (*shapes[1], 1)), (*shapes[1], 1)
    batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    made = to.temporary(node.input[0], (*batch, shapes[0][-2], shapes[1][-1]))
    to.emit("BatchMatMulV2", [left, right], [made], adj_x1=False, adj_x2=False)
    _reshaped(to, made, to.shape(node.output[0]), node.output[0])
    return None


@maps("Gemm")
def _gemm(to: Importer, node: Any) -> None:
    alpha, beta = (float(attribute(node, name, 1.0)) for name in ("alpha", "beta"))
    flags: dict[str, Any] = {
        f"transpose_x{number}": bool(attribute(node, name, 0))
        for number, name in ((1, "transA"), (2, "transB"))
    }
    output, shape, bias = node.output[0], to.shape(node.output[0]), optional_input(node, 2)
    if alpha == beta == 1.0 and bias and to.shape(bias) == shape[1:]:
        return to.emit("MatMulV2", [*node.input[:2], bias], **flags)
    product = to.temporary(output, shape) if bias or alpha != 1.0 else output
    to.emit("MatMulV2", list(node.input[:2]), [product], **flags)
    if alpha != 1.0:
        scaled = to.temporary(output, shape) if bias else output
        to.emit("Muls", [product], [scaled], value=alpha)
        product = scaled
    if not bias:
        return None
    if beta != 1.0:
        scaled = to.temporary(bias, to.shape(bias))
        to.emit("Muls", [bias], [scaled], value=beta)
        bias = scaled
    return to.emit("Add", [product, bias])


# --- images --------------------------------------------------------------------------------


def _pads(
    to: Importer, node: Any, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: Any
) -> tuple[int, ...]:
    """ONNX's pads as ATC's pairs: top, bottom, left, right."""
    rank, mode = len(kernel), attribute(node, "auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        zeros = [0] * 2 * rank
        pads = attribute(node, "pads", zeros) if mode == "NOTSET" else zeros
        return tuple(int(pads[axis + side * rank]) for axis in range(rank) for side in (0, 1))
    extents, made = to.shape(node.input[0])[2:], to.shape(node.output[0])[2:]
    pairs: list[int] = []
    for extent, out, size, stride, dilation in zip(
        extents, made, kernel, strides, dilations, strict=True
    ):
        total = max((out - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        small, large = total // 2, total - total // 2
        pairs += (small, large) if mode == "SAME_UPPER" else (large, small)
    return tuple(pairs)


def _check_image(to: Importer, node: Any) -> None:
    rank = len(to.shape(node.input[0]))
    if rank not in (3, 4):
        raise NotMapped(f"has an input of {rank} dimensions; use 3 or 4")


def _emit_image(to: Importer, node: Any, kind: str, *parameters: str, **given: Any) -> None:
    """Append an operator on the image ``node.input[0]``.

    ATC's parser turns a sequence (N, C, L) into an image of height 1.
    """
    source, shape = node.input[0], to.shape(node.input[0])
    if len(shape) == 4:
        return to.emit(kind, [source, *parameters], **given)
    flat = _reshaped(to, source, (*shape[:2], 1, shape[2]))
    batch, channels, length = to.shape(node.output[0])
    made = to.temporary(node.output[0], (batch, channels, 1, length))
    to.emit(kind, [flat, *parameters], [made], **given)
    _reshaped(to, made, to.shape(node.output[0]), node.output[0])
    return None


def _window(
    to: Importer, node: Any, kernel: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Kernel, strides, pads and dilations of an image."""
    rank = len(kernel)
    strides = tuple(attribute(node, "strides", [1] * rank))
    dilations = tuple(attribute(node, "dilations", [1] * rank))
    pads = _pads(to, node, kernel, strides, dilations)
    if rank == 1:
        return (1, *kernel), (1, *strides), (0, 0, *pads), (1, *dilations)
    return kernel, strides, pads, dilations


@maps("Conv")
def _conv(to: Importer, node: Any) -> None:
    _check_image(to, node)
    weight, filters = node.input[1], to.shape(node.input[1])
    _, strides, pads, dilations = _window(to, node, filters[2:])
    if len(filters) == 3:
        weight = _reshaped(to, weight, (*filters[:2], 1, filters[2]))
    _emit_image(
        to,
        node,
        "Conv2D",
        weight,
        *(name for name in node.input[2:3] if name),
        strides=(1, 1, *strides),
        pads=pads,
        dilations=(1, 1, *dilations),
        groups=int(attribute(node, "group", 1)),
        data_format="NCHW",
    )


@maps("MaxPool", "AveragePool")
def _pool(to: Importer, node: Any) -> None:
    if any(map(to.is_used, node.output[1:])):
        raise NotMapped("returns the indices of maxima, too; only the maxima are converted")
    _check_image(to, node)
    kernel, strides, pads, dilations = _window(to, node, tuple(attribute(node, "kernel_shape", [])))
    if set(dilations) != {1}:
        raise NotMapped(f"has dilations {list(dilations)}; use 1")
    largest = node.op_type == "MaxPool"
    _emit_image(
        to,
        node,
        "MaxPoolV3" if largest else "AvgPoolV2",
        ksize=(1, 1, *kernel),
        strides=(1, 1, *strides),
        padding_mode="CALCULATED",
        pads=pads,
        data_format="NCHW",
        ceil_mode=bool(attribute(node, "ceil_mode", 0)),
        exclusive=None if largest else not attribute(node, "count_include_pad", 0),
    )


@maps("GlobalAveragePool")
def _global_pool(to: Importer, node: Any) -> None:
    _check_image(to, node)
    _emit_image(to, node, "GlobalAveragePool")


# --- normalisation and reduction -------------------------------------------------------------


@maps("BatchNormalization")
def _batch_norm(to: Importer, node: Any) -> None:
    if attribute(node, "training_mode", 0) or any(map(to.is_used, node.output[1:])):
        raise NotMapped("is in training mode; export the model for inference")
    to.emit(
        "BatchNorm",
        list(node.input),
        epsilon=float(attribute(node, "epsilon", 1e-5)),
        data_format="NCHW",
        is_training=False,
    )


@maps("LayerNormalization")
def _layer_norm(to: Importer, node: Any) -> None:
    if any(map(to.is_used, node.output[1:])):
        raise NotMapped("returns mean or deviation, too; only the first output is converted")
    shape = to.shape(node.input[0])
    axis = int(attribute(node, "axis", -1)) % len(shape)
    inner = shape[axis:]
    names = []
    for place, default in ((1, 1.0), (2, 0.0)):
        name = optional_input(node, place)
        value = to.array(name) if name else np.array(default, to.dtype(node.input[0]))
        if value is not None and value.shape != inner:
            name = to.constant(np.broadcast_to(value, inner))
        names.append(name)
    to.emit(
        "LayerNorm",
        [node.input[0], *names],
        begin_norm_axis=axis,
        begin_params_axis=axis,
        epsilon=float(attribute(node, "epsilon", 1e-5)),
    )


@maps("Softmax", "LogSoftmax")
def _softmax(to: Importer, node: Any) -> None:
    rank = len(to.shape(node.input[0]))
    axis = int(attribute(node, "axis", -1 if to.opset >= 13 else 1)) % rank
    # Before opset 13 everything from the axis on is one row.
    axes = (axis,) if to.opset >= 13 else tuple(range(axis, rank))
    to.emit(f"{node.op_type}V2", [node.input[0]], axes=axes)


@maps("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def _reduce(to: Importer, node: Any) -> None:
    rank = len(to.shape(node.input[0]))
    axes = _axes(to, node)
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        return to.same(node.input[0])
    if not rank:
        return to.same(node.input[0])
    kept = bool(attribute(node, "keepdims", 1))
    constants = {1: axes or tuple(range(rank))}
    return to.emit(node.op_type, [node.input[0]], constants=constants, keep_dims=kept)


def _axes(to: Importer, node: Any) -> tuple[int, ...]:
    """The axes, which newer opsets have as input 1 and older ones as an attribute."""
    name = optional_input(node, 1)
    return to.integers(name, "axes") if name else tuple(attribute(node, "axes", ()))


# --- movement --------------------------------------------------------------------------------


@maps("Reshape")
def _reshape(to: Importer, node: Any) -> None:
    _reshaped(to, node.input[0], to.shape(node.output[0]), node.output[0])


@maps("Flatten")
def _flatten(to: Importer, node: Any) -> None:
    to.emit("Flatten", [node.input[0]], axis=int(attribute(node, "axis", 1)))


@maps("Squeeze", "Unsqueeze")
def _squeeze(to: Importer, node: Any) -> None:
    axes = _axes(to, node)
    if to.opset >= 13:
        to.emit(f"{node.op_type}V3", [node.input[0]], constants={1: axes})
    else:
        given: dict[str, Any] = {{"Squeeze": "axis", "Unsqueeze": "axes"}[node.op_type]: axes}
        to.emit(node.op_type, [node.input[0]], **given)


@maps("Transpose")
def _transpose(to: Importer, node: Any) -> None:
    rank = len(to.shape(node.input[0]))
    perm = tuple(attribute(node, "perm", range(rank)[::-1]))
    to.emit("Transpose", [node.input[0]], constants={1: perm})


@maps("Expand")
def _expand(to: Importer, node: Any) -> None:
    to.emit("Expand", [node.input[0]], constants={1: to.shape(node.output[0])})


@maps("Tile")
def _tile(to: Importer, node: Any) -> None:
    to.emit("TileD", [node.input[0]], multiples=to.integers(node.input[1], "repeats"))


@maps("Concat")
def _concat(to: Importer, node: Any) -> None:
    if len(node.input) == 1:
        return to.same(node.input[0])
    rank, axis = len(to.shape(node.output[0])), int(attribute(node, "axis", 1))
    dim, many = axis % rank, len(node.input)
    return to.emit("ConcatD", list(node.input), concat_dim=dim, N=many)


@maps("Split")
def _split(to: Importer, node: Any) -> None:
    rank = len(to.shape(node.input[0]))
    axis = int(attribute(node, "axis", 0)) % rank
    sizes = tuple(to.shape(name)[axis] for name in node.output)
    to.emit(
        "SplitVD",
        [node.input[0]],
        list(node.output),
        size_splits=sizes,
        split_dim=axis,
        num_split=len(sizes),
    )


@maps("Slice")
def _slice(to: Importer, node: Any) -> None:
    source, shape = node.input[0], to.shape(node.input[0])
    if to.opset < 10:
        starts, ends = (tuple(attribute(node, name, ())) for name in ("starts", "ends"))
        axes = tuple(attribute(node, "axes", range(len(starts))))
        steps = (1,) * len(starts)
    else:
        starts, ends = (to.integers(node.input[place], "bounds") for place in (1, 2))
        named, stepped = (optional_input(node, place) for place in (3, 4))
        axes = to.integers(named, "axes") if named else tuple(range(len(starts)))
        steps = to.integers(stepped, "steps") if stepped else (1,) * len(starts)
    axes = tuple(axis % len(shape) for axis in axes)
    begin, end = [], []
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        taken = slice(first, last, step).indices(shape[axis])
        begin.append(taken[0])
        # A negative step can end before the first element, which -1 would not express.
        end.append(taken[1] if taken[1] >= 0 else -shape[axis] - 1)
    constants = {1: tuple(begin), 2: tuple(end), 3: axes, 4: steps}
    to.emit("StridedSliceV2", [source], constants=constants)


@maps("Gather")
def _gather(to: Importer, node: Any) -> None:
    axis = int(attribute(node, "axis", 0)) % len(to.shape(node.input[0]))
    to.emit("GatherV2", list(node.input), constants={2: (axis,)}, batch_dims=0)


@maps("Pad")
def _pad(to: Importer, node: Any) -> None:
    source, rank = node.input[0], len(to.shape(node.input[0]))
    mode = attribute(node, "mode", "constant")
    if mode != "constant":
        raise NotMapped(f"has the mode {mode}; use constant")
    sizes, filler, named = (optional_input(node, place) for place in (1, 2, 3))
    pads = to.integers(sizes, "pads") if sizes else tuple(attribute(node, "pads", ()))
    axes = to.integers(named, "axes") if named else tuple(range(rank))
    pairs = [[0, 0] for _ in range(rank)]
    for place, axis in enumerate(axes):
        pairs[axis % rank] = [pads[place], pads[place + len(axes)]]
    if any(each < 0 for pair in pairs for each in pair):
        raise NotMapped("has negative pads; use Slice to cut")
    if not filler:
        filler = to.constant(np.array(attribute(node, "value", 0), to.dtype(source)))
    if prod(to.shape(filler)) != 1:
        raise NotMapped("has no single value to pad with")
    constants = {1: tuple(value for pair in pairs for value in pair)}
    to.emit("PadV3", [source, filler], constants=constants, mode="constant")
