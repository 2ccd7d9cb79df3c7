"""Which of ATC's operators do the work of ONNX's: the table, one small function a type.

Source: the targets of Huawei's published ONNX parser plugins (facts ``onnx-models`` section 2);
they differ by release, and an ATC fuses and rewrites further.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Protocol

import numpy as np

from pytest_ascendcache.reference.model.graph import Array


class NotMapped(Exception):
    """Why a node cannot become ATC's operators, after "it": "has ...; use ..."."""


class Target(Protocol):
    """What a mapping reads of ONNX's graph and appends to ATC's; see ``importing.Importer``."""

    opset: int

    def array(self, name: str) -> Array | None: ...
    def integers(self, name: str, what: str) -> tuple[int, ...]: ...
    def shape(self, name: str) -> tuple[int, ...]: ...
    def dtype(self, name: str) -> str: ...
    def constant(self, value: Array) -> str: ...
    def temporary(self, like: str, shape: tuple[int, ...], dtype: str = "") -> str: ...
    def same(self, output: str, source: str) -> None: ...
    def is_used(self, name: str) -> bool: ...
    def emit(
        self,
        kind: str,
        inputs: list[str],
        outputs: list[str],
        constants: dict[int, tuple[int, ...]] | None = None,
        **given: Any,
    ) -> None: ...


Mapping = Callable[[Target, Any], None]

MAPPED: dict[str, Mapping] = {}
"""ONNX's types that are converted, each with what converts a node of it."""


def maps(*types: str) -> Callable[[Mapping], Mapping]:
    """Register the conversion of these types."""

    def register(function: Mapping) -> Mapping:
        MAPPED.update(dict.fromkeys(types, function))
        return function

    return register


def attribute(each: Any, name: str, default: Any) -> Any:
    """An attribute of an ONNX node; a text is decoded."""
    import onnx

    for found in each.attribute:
        if found.name == name:
            value = onnx.helper.get_attribute_value(found)
            return value.decode() if isinstance(value, bytes) else value
    return default


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
"""Types whose inputs and outputs are those of one of ATC's, without attributes."""


@maps(*_SAME)
def _renamed(to: Target, each: Any) -> None:
    to.emit(_SAME[each.op_type], list(each.input), list(each.output))


@maps("Identity")
def _identity(to: Target, each: Any) -> None:
    to.same(each.output[0], each.input[0])


@maps("Dropout")
def _dropout(to: Target, each: Any) -> None:
    training = len(each.input) > 2 and each.input[2] and to.integers(each.input[2], "mode") != (0,)
    if training or (len(each.output) > 1 and to.is_used(each.output[1])):
        raise NotMapped("drops elements, as in training; export the model for inference")
    to.same(each.output[0], each.input[0])


_FLOATS = {
    "LeakyRelu": ("LeakyRelu", {"alpha": ("negative_slope", 0.01)}),
    "Elu": ("Elu", {"alpha": ("alpha", 1.0)}),
    "HardSigmoid": ("HardSigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
}


@maps(*_FLOATS)
def _with_floats(to: Target, each: Any) -> None:
    kind, names = _FLOATS[each.op_type]
    given: dict[str, Any] = {
        name: float(attribute(each, own, default)) for own, (name, default) in names.items()
    }
    to.emit(kind, [each.input[0]], [each.output[0]], **given)


@maps("Pow")
def _power(to: Target, each: Any) -> None:
    base, exponent = each.input
    value = to.array(exponent)
    if value is not None:
        exponent = to.constant(value.astype(to.dtype(base)))
    to.emit("Pow", [base, exponent], list(each.output))


@maps("Max", "Min")
def _extreme(to: Target, each: Any) -> None:
    kind = {"Max": "Maximum", "Min": "Minimum"}[each.op_type]
    if len(each.input) == 1:
        return to.same(each.output[0], each.input[0])
    so_far = each.input[0]
    shape = to.shape(so_far)
    for number, other in enumerate(each.input[1:], start=2):
        last = number == len(each.input)
        shape = np.broadcast_shapes(shape, to.shape(other))
        made = each.output[0] if last else to.temporary(each.input[0], shape)
        to.emit(kind, [so_far, other], [made])
        so_far = made
    return None


@maps("Sum")
def _sum(to: Target, each: Any) -> None:
    to.emit("AccumulateNV2", list(each.input), list(each.output), N=len(each.input))


@maps("Clip")
def _clip(to: Target, each: Any) -> None:
    kind = np.dtype(to.dtype(each.input[0]))
    limits: Any = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    names = []
    for place, name in ((1, "min"), (2, "max")):
        given = each.input[place] if len(each.input) > place else ""
        if not given:
            value = attribute(each, name, limits.min if place == 1 else limits.max)
            given = to.constant(np.array(value, kind))
        names.append(given)
    to.emit("ClipByValue", [each.input[0], *names], list(each.output))


_CAST = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "bool": 12}


@maps("Cast")
def _cast(to: Target, each: Any) -> None:
    target = to.dtype(each.output[0])
    if target == to.dtype(each.input[0]):
        return to.same(each.output[0], each.input[0])
    return to.emit("Cast", [each.input[0]], [each.output[0]], dst_type=_CAST[target])


# --- products ------------------------------------------------------------------------------


def _reshaped(to: Target, source: str, shape: tuple[int, ...], target: str = "") -> str:
    """A tensor of the same elements in another shape."""
    made = target or to.temporary(source, shape)
    to.emit("Reshape", [source], [made], {1: shape})
    return made


@maps("MatMul")
def _product(to: Target, each: Any) -> None:
    left, right = each.input
    shapes = [to.shape(left), to.shape(right)]
    vectors = [len(shape) == 1 for shape in shapes]
    if not any(vectors):
        return to.emit(
            "BatchMatMulV2", [left, right], list(each.output), adj_x1=False, adj_x2=False
        )
    if vectors[0]:
        left, shapes[0] = _reshaped(to, left, (1, *shapes[0])), (1, *shapes[0])
    if vectors[1]:
        right, shapes[1] = _reshaped(to, right, (*shapes[1], 1)), (*shapes[1], 1)
    batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    made = to.temporary(each.input[0], (*batch, shapes[0][-2], shapes[1][-1]))
    to.emit("BatchMatMulV2", [left, right], [made], adj_x1=False, adj_x2=False)
    _reshaped(to, made, to.shape(each.output[0]), each.output[0])
    return None


@maps("Gemm")
def _gemm(to: Target, each: Any) -> None:
    alpha, beta = (float(attribute(each, name, 1.0)) for name in ("alpha", "beta"))
    flags: dict[str, Any] = {
        "transpose_x1": bool(attribute(each, "transA", 0)),
        "transpose_x2": bool(attribute(each, "transB", 0)),
    }
    output, shape = each.output[0], to.shape(each.output[0])
    bias = each.input[2] if len(each.input) > 2 else ""
    if alpha == beta == 1.0 and bias and to.shape(bias) == shape[1:]:
        return to.emit("MatMulV2", [*each.input[:2], bias], [output], **flags)
    product = to.temporary(output, shape) if bias or alpha != 1.0 else output
    to.emit("MatMulV2", list(each.input[:2]), [product], **flags)
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
    return to.emit("Add", [product, bias], [output])


# --- images --------------------------------------------------------------------------------


def _pads(
    to: Target, each: Any, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: Any
) -> tuple[int, ...]:
    """ONNX's begins and ends as ATC's pairs: top, bottom, left, right."""
    rank, mode = len(kernel), attribute(each, "auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        given = attribute(each, "pads", [0] * 2 * rank) if mode == "NOTSET" else [0] * 2 * rank
        return tuple(int(given[axis + side * rank]) for axis in range(rank) for side in (0, 1))
    extents, made = to.shape(each.input[0])[2:], to.shape(each.output[0])[2:]
    pairs: list[int] = []
    for extent, out, size, stride, dilation in zip(
        extents, made, kernel, strides, dilations, strict=True
    ):
        total = max((out - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        small, large = total // 2, total - total // 2
        pairs += (small, large) if mode == "SAME_UPPER" else (large, small)
    return tuple(pairs)


def _image(to: Target, each: Any) -> tuple[int, str, str, tuple[int, ...]]:
    """Dimensions slid over; input and output as images; the output's shape as an image.

    A sequence (N, C, L) is an image of height 1, as ATC's parser has it.
    """
    source, shape = each.input[0], to.shape(each.input[0])
    made = to.shape(each.output[0])
    if len(shape) == 4:
        return 2, source, each.output[0], made
    if len(shape) != 3:
        raise NotMapped(f"has an input of {len(shape)} dimensions; use 3 or 4")
    image = (*made[:2], 1, made[2])
    flat = _reshaped(to, source, (*shape[:2], 1, shape[2]))
    return 1, flat, to.temporary(each.output[0], image), image


def _finish(to: Target, each: Any, dimensions: int, made: str) -> None:
    if dimensions == 1:
        _reshaped(to, made, to.shape(each.output[0]), each.output[0])


def _window(
    to: Target, each: Any, kernel: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Kernel, strides, pads and dilations of an image."""
    rank = len(kernel)
    strides = tuple(attribute(each, "strides", [1] * rank))
    dilations = tuple(attribute(each, "dilations", [1] * rank))
    pads = _pads(to, each, kernel, strides, dilations)
    if rank == 1:
        return (1, *kernel), (1, *strides), (0, 0, *pads), (1, *dilations)
    return kernel, strides, pads, dilations


@maps("Conv")
def _conv(to: Target, each: Any) -> None:
    dimensions, source, made, _ = _image(to, each)
    filters = to.shape(each.input[1])
    _, strides, pads, dilations = _window(to, each, filters[2:])
    weight = each.input[1]
    if dimensions == 1:
        weight = _reshaped(to, weight, (*filters[:2], 1, filters[2]))
    to.emit(
        "Conv2D",
        [source, weight, *(name for name in each.input[2:3] if name)],
        [made],
        strides=(1, 1, *strides),
        pads=pads,
        dilations=(1, 1, *dilations),
        groups=int(attribute(each, "group", 1)),
        data_format="NCHW",
    )
    _finish(to, each, dimensions, made)


@maps("MaxPool", "AveragePool")
def _pool(to: Target, each: Any) -> None:
    if len(each.output) > 1 and to.is_used(each.output[1]):
        raise NotMapped("gives the indices of maxima too; only the maxima are converted")
    dimensions, source, made, _ = _image(to, each)
    kernel, strides, pads, dilations = _window(to, each, tuple(attribute(each, "kernel_shape", [])))
    if set(dilations) != {1}:
        raise NotMapped(f"has dilations {list(dilations)}; use 1")
    given: dict[str, Any] = {
        "ksize": (1, 1, *kernel),
        "strides": (1, 1, *strides),
        "padding_mode": "CALCULATED",
        "pads": pads,
        "data_format": "NCHW",
        "ceil_mode": bool(attribute(each, "ceil_mode", 0)),
    }
    if each.op_type == "MaxPool":
        to.emit("MaxPoolV3", [source], [made], **given)
    else:
        given["exclusive"] = not attribute(each, "count_include_pad", 0)
        to.emit("AvgPoolV2", [source], [made], **given)
    _finish(to, each, dimensions, made)


@maps("GlobalAveragePool")
def _global_pool(to: Target, each: Any) -> None:
    dimensions, source, made, _ = _image(to, each)
    to.emit("GlobalAveragePool", [source], [made])
    _finish(to, each, dimensions, made)


# --- normalisation and reduction -------------------------------------------------------------


@maps("BatchNormalization")
def _batch_norm(to: Target, each: Any) -> None:
    if attribute(each, "training_mode", 0) or any(to.is_used(name) for name in each.output[1:]):
        raise NotMapped("is in training mode; export the model for inference")
    to.emit(
        "BatchNorm",
        list(each.input),
        [each.output[0]],
        epsilon=float(attribute(each, "epsilon", 1e-5)),
        data_format="NCHW",
        is_training=False,
    )


@maps("LayerNormalization")
def _layer_norm(to: Target, each: Any) -> None:
    if any(to.is_used(name) for name in each.output[1:]):
        raise NotMapped("gives mean or deviation too; only the first output is converted")
    shape = to.shape(each.input[0])
    axis = int(attribute(each, "axis", -1)) % len(shape)
    inner = shape[axis:]
    names = []
    for place, default in ((1, 1.0), (2, 0.0)):
        given = each.input[place] if len(each.input) > place else ""
        value = np.array(default, to.dtype(each.input[0])) if not given else to.array(given)
        if value is not None and value.shape != inner:
            given = to.constant(np.broadcast_to(value, inner))
        names.append(given)
    to.emit(
        "LayerNorm",
        [each.input[0], *names],
        [each.output[0]],
        begin_norm_axis=axis,
        begin_params_axis=axis,
        epsilon=float(attribute(each, "epsilon", 1e-5)),
    )


@maps("Softmax", "LogSoftmax")
def _softmax(to: Target, each: Any) -> None:
    rank = len(to.shape(each.input[0]))
    axis = int(attribute(each, "axis", -1 if to.opset >= 13 else 1)) % rank
    # Before opset 13 everything from the axis on is one row.
    axes = (axis,) if to.opset >= 13 else tuple(range(axis, rank))
    to.emit(f"{each.op_type}V2", [each.input[0]], [each.output[0]], axes=axes)


@maps("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def _reduce(to: Target, each: Any) -> None:
    rank = len(to.shape(each.input[0]))
    if len(each.input) > 1 and each.input[1]:
        axes = to.integers(each.input[1], "axes")
    else:
        axes = tuple(attribute(each, "axes", ()))
    if not axes and attribute(each, "noop_with_empty_axes", 0):
        return to.same(each.output[0], each.input[0])
    kept = bool(attribute(each, "keepdims", 1))
    axes = axes or tuple(range(rank))
    if not rank:
        return to.same(each.output[0], each.input[0])
    return to.emit(each.op_type, [each.input[0]], [each.output[0]], {1: axes}, keep_dims=kept)


# --- movement --------------------------------------------------------------------------------


@maps("Reshape")
def _reshape(to: Target, each: Any) -> None:
    _reshaped(to, each.input[0], to.shape(each.output[0]), each.output[0])


@maps("Flatten")
def _flatten(to: Target, each: Any) -> None:
    axis = int(attribute(each, "axis", 1))
    to.emit("Flatten", [each.input[0]], [each.output[0]], axis=axis)


@maps("Squeeze", "Unsqueeze")
def _squeeze(to: Target, each: Any) -> None:
    axes = tuple(attribute(each, "axes", ()))
    if len(each.input) > 1 and each.input[1]:
        axes = to.integers(each.input[1], "axes")
    if to.opset >= 13:
        to.emit(f"{each.op_type}V3", [each.input[0]], [each.output[0]], {1: axes})
    else:
        given: dict[str, Any] = {{"Squeeze": "axis", "Unsqueeze": "axes"}[each.op_type]: axes}
        to.emit(each.op_type, [each.input[0]], [each.output[0]], **given)


@maps("Transpose")
def _transpose(to: Target, each: Any) -> None:
    rank = len(to.shape(each.input[0]))
    perm = tuple(attribute(each, "perm", range(rank)[::-1]))
    to.emit("Transpose", [each.input[0]], [each.output[0]], {1: perm})


@maps("Expand")
def _expand(to: Target, each: Any) -> None:
    to.emit("Expand", [each.input[0]], [each.output[0]], {1: to.shape(each.output[0])})


@maps("Tile")
def _tile(to: Target, each: Any) -> None:
    multiples = to.integers(each.input[1], "repeats")
    to.emit("TileD", [each.input[0]], [each.output[0]], multiples=multiples)


@maps("Concat")
def _concat(to: Target, each: Any) -> None:
    if len(each.input) == 1:
        return to.same(each.output[0], each.input[0])
    rank, axis = len(to.shape(each.output[0])), int(attribute(each, "axis", 1))
    dim, many = axis % rank, len(each.input)
    return to.emit("ConcatD", list(each.input), list(each.output), concat_dim=dim, N=many)


@maps("Split")
def _split(to: Target, each: Any) -> None:
    rank = len(to.shape(each.input[0]))
    axis = int(attribute(each, "axis", 0)) % rank
    sizes = tuple(to.shape(name)[axis] for name in each.output)
    to.emit(
        "SplitVD",
        [each.input[0]],
        list(each.output),
        size_splits=sizes,
        split_dim=axis,
        num_split=len(sizes),
    )


@maps("Slice")
def _slice(to: Target, each: Any) -> None:
    source, shape = each.input[0], to.shape(each.input[0])
    if to.opset < 10:
        starts, ends = (tuple(attribute(each, name, ())) for name in ("starts", "ends"))
        axes = tuple(attribute(each, "axes", range(len(starts))))
        steps = (1,) * len(starts)
    else:
        starts, ends = (to.integers(each.input[place], "bounds") for place in (1, 2))
        names = [*each.input, "", ""]
        axes = to.integers(names[3], "axes") if names[3] else tuple(range(len(starts)))
        steps = to.integers(names[4], "steps") if names[4] else (1,) * len(starts)
    axes = tuple(axis % len(shape) for axis in axes)
    begin, end = [], []
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        taken = slice(first, last, step).indices(shape[axis])
        begin.append(taken[0])
        # Before the first element: what a negative step runs to, which -1 does not say.
        end.append(taken[1] if taken[1] >= 0 else -shape[axis] - 1)
    constants = {1: tuple(begin), 2: tuple(end), 3: axes, 4: steps}
    to.emit("StridedSliceV2", [source], [each.output[0]], constants)


@maps("Gather")
def _gather(to: Target, each: Any) -> None:
    axis = int(attribute(each, "axis", 0)) % len(to.shape(each.input[0]))
    to.emit("GatherV2", list(each.input), list(each.output), {2: (axis,)}, batch_dims=0)


@maps("Pad")
def _pad(to: Target, each: Any) -> None:
    source, rank = each.input[0], len(to.shape(each.input[0]))
    mode = attribute(each, "mode", "constant")
    if mode != "constant":
        raise NotMapped(f"has the mode {mode}; use constant")
    names = [*each.input, "", "", ""]
    given = to.integers(names[1], "pads") if names[1] else tuple(attribute(each, "pads", ()))
    axes = to.integers(names[3], "axes") if names[3] else tuple(range(rank))
    pairs = [[0, 0] for _ in range(rank)]
    for place, axis in enumerate(axes):
        pairs[axis % rank] = [given[place], given[place + len(axes)]]
    if any(each < 0 for pair in pairs for each in pair):
        raise NotMapped("has negative pads; use Slice to cut")
    filler = names[2]
    if not filler:
        filler = to.constant(np.array(attribute(each, "value", 0), to.dtype(source)))
    if prod(to.shape(filler)) != 1:
        raise NotMapped("has no single value to pad with")
    constants = {1: tuple(value for pair in pairs for value in pair)}
    to.emit("PadV3", [source, filler], [each.output[0]], constants, mode="constant")
