"""What each operator type computes, as formulas in numpy float64, and inputs that suit it.

Layout is NCHW for operators that have a layout. ``OPERATORS`` has the semantics of every type, by
CANN's name; ``semantics`` evaluates and samples them.

Source: CANN's operator prototypes (``REG_OP``), with their names, attributes and defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_ascendcache.operators.spec import OperatorSpec, TensorDesc

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Domain:
    """The values to sample: magnitudes from ``low`` to ``high``, and whether signs are mixed."""

    low: float
    high: float
    signed: bool = False


_MOST_TENSORS = 64
"""The most tensors that one operator adds up or joins: CANN's limit."""

_ANY = Domain(0.0, 2.0, signed=True)
_POSITIVE = Domain(0.25, 4.0)
SUMMED = Domain(0.25, 1.0)
"""Of one sign, so that a sum does not cancel."""
_DIVISOR = Domain(0.5, 2.0, signed=True)
_SCALE = Domain(0.5, 1.5)
_OFFSET = Domain(4.0, 5.0)
"""Keeps the result of a normalisation from zero, so that the sum does not cancel."""
_NORMALISED = Domain(1.0, 3.0)
"""Elements whose mean is not near zero."""
_STANDARDISED = (Domain(3.0, 4.0), _SCALE, _OFFSET, _SCALE, _SCALE)
"""x, scale, offset, mean and variance: the mean is not near x, and the variance not near 0."""
_PLACE = Domain(0.0, 0.25)
"""Indices 0 and 1: an integer is sampled as four times a value; every table has two slices."""


@dataclass(frozen=True)
class Operator:
    """The semantics of one type.

    ``compute(spec, *inputs)`` returns the outputs; an unconnected input is ``None``. From ``least``
    to ``most`` inputs may be connected. The operator is well conditioned in ``domain``, which all
    inputs share or each has for itself. ``index_inputs`` are those that are no data but select
    axes or extents. ``layout``: the operator depends on the layout of images.
    """

    compute: Callable[..., Array | list[Array]]
    least: int = 1
    most: int = 1
    domain: Domain | tuple[Domain, ...] | Callable[[OperatorSpec], Domain] = _ANY
    index_inputs: tuple[int, ...] = ()
    layout: bool = False


def real_type(tensor: TensorDesc) -> np.dtype[Any] | None:
    """The numpy type of a tensor of real numbers, or ``None`` if numpy has none."""
    dtype = np.dtype(tensor.dtype.numpy) if tensor.dtype.numpy else None
    return None if dtype is None or dtype.kind == "c" else dtype


def _attribute(spec: OperatorSpec, name: str, default: Any, kind: Any, noun: str) -> Any:
    """The attribute ``name``, which must be of this kind, or ``default`` if the spec lacks it."""
    value = spec.attribute(name)
    if value is None:
        value = default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"the attribute {name} is {value!r}; write {noun}")
    return value


def _float(spec: OperatorSpec, name: str, default: float) -> float:
    return float(np.float32(_attribute(spec, name, default, (int, float), "a number")))


def _int(spec: OperatorSpec, name: str, default: int) -> int:
    return int(_attribute(spec, name, default, int, "an integer"))


def _flag(spec: OperatorSpec, name: str, default: bool = False) -> bool:
    return bool(_attribute(spec, name, default, bool, "true or false"))


def _ints(spec: OperatorSpec, name: str, length: int | None = None) -> tuple[int, ...] | None:
    if spec.attribute(name) is None:
        return None
    numbers: tuple[int, ...] = _attribute(spec, name, None, tuple, "a list of integers")
    if any(type(each) is not int for each in numbers):
        raise ValueError(f"the attribute {name} is {numbers!r}; write a list of integers")
    if length is not None and len(numbers) != length:
        raise ValueError(f"the attribute {name} has {len(numbers)} elements; write {length}")
    return numbers


def _required(spec: OperatorSpec, name: str, length: int | None = None) -> tuple[int, ...]:
    numbers = _ints(spec, name, length)
    if numbers is None:
        raise ValueError(f"the attribute {name} is missing; add it")
    return numbers


def _chosen(spec: OperatorSpec, name: str, tensor: Array | None) -> tuple[int, ...]:
    """Axes or extents: an input of the operator, or an attribute of the variant that ends in D."""
    return _required(spec, name) if tensor is None else tuple(int(each) for each in tensor.flat)


# Element-wise.


def _elementwise(function: Callable[..., Array]) -> Callable[..., Array]:
    """A formula of the inputs alone, which broadcast."""
    return lambda _spec, *inputs: function(*inputs)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    """The tanh form of CANN's Gelu: ``x/2 (1 + tanh(u))``, computed as ``x sigmoid(2u)``.

    They are equal, but the second one keeps its digits if ``tanh(u)`` approaches -1.
    """
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _fast_gelu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-1.702 * abs(x))) * np.exp(0.851 * (x - abs(x))))


def _mish(x: Array) -> Array:
    """``x tanh(ln(1 + e^x))``, as ``tanh(ln(1 + p)) = p (p + 2) / (p (p + 2) + 2)``."""
    power = np.exp(np.minimum(x, 40.0))
    product = power * (power + 2)
    return np.asarray(x * product / (product + 2))


def _swish(spec: OperatorSpec, x: Array) -> Array:
    return x * _sigmoid(_float(spec, "scale", 1.0) * x)


def _leaky_relu(spec: OperatorSpec, x: Array) -> Array:
    return np.where(x > 0, x, _float(spec, "negative_slope", 0.0) * x)


def _exp(spec: OperatorSpec, x: Array) -> Array:
    """``base ** (scale x + shift)``; a base of -1 is e."""
    return np.exp(_log_of_base(spec) * _scaled(spec, x))


def _log(spec: OperatorSpec, x: Array) -> Array:
    """Logarithm of ``scale x + shift`` to ``base``; a base of -1 is e."""
    return np.log(_scaled(spec, x)) / _log_of_base(spec)


def _scaled(spec: OperatorSpec, x: Array) -> Array:
    return _float(spec, "scale", 1.0) * x + _float(spec, "shift", 0.0)


def _log_of_base(spec: OperatorSpec) -> float:
    base = _float(spec, "base", -1.0)
    if base != -1.0 and base <= 0:
        raise ValueError(f"the attribute base is {base}; write -1 for e, or a positive number")
    return 1.0 if base == -1.0 else math.log(base)


def _bias_add(spec: OperatorSpec, x: Array, bias: Array) -> Array:
    order = spec.inputs[0].format
    if order == "ND":
        order = str(spec.attribute("data_format") or "NHWC")
    behind = x.ndim - 2 if order.startswith("NC") else 0
    return x + bias.reshape(bias.shape + (1,) * behind)


def _cast(spec: OperatorSpec, x: Array) -> Array:
    """Integers are truncated towards zero and clipped to their range; bool means not zero."""
    target = real_type(spec.outputs[0])
    if target is None or target.kind == "f":
        return x
    if target.kind == "b":
        return np.asarray(x != 0, np.float64)
    limits = np.iinfo(target)
    return np.clip(np.trunc(x), float(limits.min), float(limits.max))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _gelu_v2(spec: OperatorSpec, x: Array) -> Array:
    """Gelu by the error function, or the tanh form if ``approximate`` is "tanh".

    ``erfc`` keeps the digits of the tail.
    """
    kind = spec.attribute("approximate") or "none"
    if kind not in ("none", "tanh"):
        raise ValueError(f"the attribute approximate is {kind!r}; write none or tanh")
    if kind == "tanh":
        return _gelu(x)
    return np.asarray(x / 2 * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)))


def _bucketize(spec: OperatorSpec, x: Array) -> Array:
    numbers = _attribute(spec, "boundaries", None, tuple, "a list of numbers")
    boundaries = np.array(numbers, np.float32).astype(np.float64)
    right = _flag(spec, "right", default=True)
    reached = x[..., None] >= boundaries if right else x[..., None] > boundaries
    return np.asarray(np.sum(reached, axis=-1, dtype=np.float64))


def _accumulate(_spec: OperatorSpec, *tensors: Array | None) -> Array:
    return reduce(np.add, (each for each in tensors if each is not None))


# Reductions along axes.


def _reduction(function: Callable[..., Any]) -> Callable[..., Array]:
    def compute(spec: OperatorSpec, x: Array, axes: Array | None = None) -> Array:
        chosen = _chosen(spec, "axes", axes)
        if not chosen:
            raise ValueError("it has no axes, which releases of CANN read differently; name them")
        return np.asarray(function(x, axis=chosen, keepdims=_flag(spec, "keep_dims")))

    return compute


def _softmax(spec: OperatorSpec, x: Array) -> Array:
    axes = _ints(spec, "axes") or (-1,)
    power = np.exp(x - x.max(axis=axes, keepdims=True))
    return np.asarray(power / power.sum(axis=axes, keepdims=True))


def _layer_norm(spec: OperatorSpec, x: Array, gamma: Array, beta: Array) -> list[Array]:
    """Returns y, mean and variance; the last two keep the normalised axes with extent 1."""
    first = _axis(_int(spec, "begin_norm_axis", 0), x.ndim)
    weighed = _axis(_int(spec, "begin_params_axis", 0), x.ndim)
    if gamma.shape != x.shape[weighed:] or beta.shape != x.shape[weighed:]:
        raise ValueError(
            f"gamma {list(gamma.shape)} and beta {list(beta.shape)} do not have the shape of x "
            f"from axis {weighed} on, {list(x.shape[weighed:])}"
        )
    mean, variance = _moments(x, x.ndim - first)
    y = (x - mean) / np.sqrt(variance + _float(spec, "epsilon", 1e-7)) * gamma + beta
    return [y, mean, variance]


def _moments(x: Array, count: int) -> tuple[Array, Array]:
    """Mean and variance over the last ``count`` axes, which keep extent 1."""
    axes = tuple(range(x.ndim - count, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    return mean, ((x - mean) ** 2).mean(axis=axes, keepdims=True)


def _layer_norm_v4(
    spec: OperatorSpec, x: Array, extents: Array, gamma: Array | None, beta: Array | None
) -> list[Array]:
    """LayerNorm over the last dimensions, those of ``extents``.

    Returns y, mean and 1 / sqrt(variance + epsilon).
    """
    mean, variance = _moments(x, extents.size)
    root = 1 / np.sqrt(variance + _float(spec, "epsilon", 1e-5))
    y = (x - mean) * root
    y = y if gamma is None else y * gamma
    return [y if beta is None else y + beta, mean, root]


def _batch_norm(
    spec: OperatorSpec, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> Array:
    """BatchNorm for inference: mean and variance are inputs, one each per channel (dimension 1)."""
    along = (-1, *(1,) * (x.ndim - 2))
    root = np.sqrt(variance + _float(spec, "epsilon", 1e-4)).reshape(along)
    return (x - mean.reshape(along)) / root * scale.reshape(along) + offset.reshape(along)


def _axis(axis: int, rank: int, last: int = -1) -> int:
    if not -rank <= axis <= rank + last:
        raise ValueError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank if axis < 0 else axis


# Products of matrices and convolution.


def _matmul(left: str, right: str) -> Callable[..., Array]:
    def compute(spec: OperatorSpec, x1: Array, x2: Array, bias: Array | None = None) -> Array:
        first = x1.swapaxes(-1, -2) if _flag(spec, left) else x1
        second = x2.swapaxes(-1, -2) if _flag(spec, right) else x2
        product = np.matmul(first, second)
        return np.asarray(product if bias is None else product + bias)

    return compute


def _gemm(spec: OperatorSpec, *inputs: Array) -> Array:
    a, b, c, alpha, beta = inputs
    product = _matmul("transpose_a", "transpose_b")(spec, a, b)
    return np.asarray(alpha * product + beta * c)


def _conv2d(spec: OperatorSpec, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Convolve x [N, C, H, W] with weight [O, C / groups, h, w] to [N, O, H', W']; bias [O].

    ``strides`` and ``dilations`` follow NCHW, ``pads`` is top, bottom, left, right.
    """
    strides = _window(_required(spec, "strides", 4), "strides")
    dilations = _window(_ints(spec, "dilations", 4) or (1, 1, 1, 1), "dilations")
    groups = _int(spec, "groups", 1)
    outputs, channels, *kernel = weight.shape
    if groups < 1 or outputs % groups or channels * groups != x.shape[1]:
        raise ValueError(
            f"{x.shape[1]} channels in {groups} groups do not fit filters {list(weight.shape)}"
        )
    top, bottom, left, right = _required(spec, "pads", 4)
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    extent = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    windows = _windows(padded, extent, strides)[..., :: dilations[0], :: dilations[1]]
    parts = [
        np.tensordot(each, filters, axes=((1, 4, 5), (1, 2, 3)))
        for each, filters in zip(
            np.split(windows, groups, axis=1), np.split(weight, groups), strict=True
        )
    ]
    y = np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
    return y if bias is None else y + bias.reshape(-1, 1, 1)


def _window(numbers: tuple[int, ...], name: str) -> tuple[int, int]:
    """The H and W elements of an NCHW list."""
    if numbers[:2] != (1, 1) or min(numbers[2:]) < 1:
        raise ValueError(f"{name} is {list(numbers)}; write [1, 1, h, w] with h and w of 1 or more")
    return numbers[2], numbers[3]


def _windows(x: Array, extent: Sequence[int], strides: tuple[int, int]) -> Array:
    """A view [N, C, H', W', h, w] of every window over x [N, C, H, W]."""
    view = np.lib.stride_tricks.sliding_window_view(x, tuple(extent), axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1]]


def _max_pool(spec: OperatorSpec, x: Array) -> Array:
    """MaxPool with TensorFlow's padding SAME or VALID."""
    return _pooled(spec, x, str(spec.attribute("padding")))


def _max_pool_v3(spec: OperatorSpec, x: Array) -> Array:
    """MaxPoolV3: by default with explicit pads (top, bottom, left, right)."""
    if _flag(spec, "global_pooling"):
        return np.asarray(x.max(axis=(2, 3), keepdims=True))
    return _pooled(spec, x, str(spec.attribute("padding_mode") or "CALCULATED"))


def _pooled(
    spec: OperatorSpec,
    x: Array,
    mode: str,
    around: float = -np.inf,
    reduce: Callable[..., Any] = np.max,
) -> Array:
    kernel = _window(_required(spec, "ksize", 4), "ksize")
    strides = _window(_required(spec, "strides", 4), "strides")
    pads = _ints(spec, "pads", 4) or (0, 0, 0, 0)
    borders = []
    for axis in (0, 1):
        extent, size, step = x.shape[2 + axis], kernel[axis], strides[axis]
        before, after = pads[2 * axis : 2 * axis + 2]
        if mode == "SAME":
            total = max((math.ceil(extent / step) - 1) * step + size - extent, 0)
            before, after = total // 2, total - total // 2
        elif mode == "VALID":
            before = after = 0
        elif mode != "CALCULATED":
            raise ValueError(f"the padding is {mode!r}; write SAME, VALID or CALCULATED")
        elif _flag(spec, "ceil_mode"):
            count = math.ceil((extent + before + after - size) / step) + 1
            if (count - 1) * step >= extent + before:
                count -= 1
            after = max((count - 1) * step + size - extent - before, after)
        borders.append((before, after))
    padded = np.pad(x, ((0, 0), (0, 0), *borders), constant_values=around)
    return np.asarray(reduce(_windows(padded, kernel, strides), axis=(4, 5)))


def _average_pool(spec: OperatorSpec, x: Array) -> Array:
    """AvgPoolV2: by default with explicit pads; ``exclusive``, the default, does not count pads."""
    if _flag(spec, "global_pooling"):
        return _global_average(spec, x)
    mode = str(spec.attribute("padding_mode") or "CALCULATED")
    total = _pooled(spec, x, mode, 0.0, np.sum)
    if spec.attribute("exclusive") is False:
        kernel = _window(_required(spec, "ksize", 4), "ksize")
        return total / math.prod(kernel)
    return total / _pooled(spec, np.ones_like(x), mode, 0.0, np.sum)


def _global_average(_spec: OperatorSpec, x: Array) -> Array:
    return np.asarray(x.mean(axis=(2, 3), keepdims=True))


# Shape alone.


def _transpose(spec: OperatorSpec, x: Array, perm: Array | None = None) -> Array:
    return x.transpose(_chosen(spec, "perm", perm))


def _reshape(spec: OperatorSpec, x: Array, shape: Array | None = None) -> Array:
    """Reshape to the input or attribute ``shape``, else to the declared output."""
    if shape is None and _ints(spec, "shape") is None:
        return x.reshape(spec.outputs[0].shape)
    return x.reshape(_chosen(spec, "shape", shape))


def plain_reshape(spec: OperatorSpec) -> bool:
    """Whether a Reshape changes all dimensions, not only some from ``axis`` on."""
    return spec.attribute("axis") in (None, 0) and spec.attribute("num_axes") in (None, -1)


def _flatten(spec: OperatorSpec, x: Array) -> Array:
    axis = _axis(_int(spec, "axis", 1), x.ndim, last=0)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _unsqueeze(_spec: OperatorSpec, x: Array, axes: Array) -> Array:
    return np.expand_dims(x, tuple(int(each) for each in axes.flat))


def _broadcast_to(_spec: OperatorSpec, x: Array, shape: Array) -> Array:
    made = np.broadcast_shapes(x.shape, tuple(int(each) for each in shape.flat))
    return np.broadcast_to(x, made)


def _concat(spec: OperatorSpec, *tensors: Array | None) -> Array:
    parts = [each for each in tensors if each is not None]
    return np.concatenate(parts, axis=_axis(_int(spec, "concat_dim", 0), parts[0].ndim))


def _split(spec: OperatorSpec, x: Array) -> list[Array]:
    """Cut x into an output for each of ``size_splits``."""
    axis = _axis(_int(spec, "split_dim", 0), x.ndim)
    ends = np.cumsum(_required(spec, "size_splits"))[:-1]
    return np.split(x, ends, axis=axis)


def _gather(spec: OperatorSpec, x: Array, places: Array, axis: Array) -> Array:
    """The slices of x at ``places`` along an axis."""
    if _int(spec, "batch_dims", 0):
        raise ValueError("the attribute batch_dims is not 0, which has no reference semantics")
    return np.take(x, places.astype(np.int64), axis=int(axis.flat[0]))


def _slice(
    _spec: OperatorSpec, x: Array, begin: Array, end: Array, axes: Array, strides: Array
) -> Array:
    """Python's slice along each of the axes."""
    chosen = [slice(None)] * x.ndim
    for first, last, axis, step in zip(begin, end, axes, strides, strict=True):
        chosen[_axis(int(axis), x.ndim)] = slice(int(first), int(last), int(step))
    return x[tuple(chosen)]


def _pad(_spec: OperatorSpec, x: Array, paddings: Array) -> Array:
    """Zeros before and after x, two numbers for each dimension."""
    return np.pad(x, [(int(first), int(last)) for first, last in paddings.reshape(-1, 2)])


def _castable(spec: OperatorSpec) -> Domain:
    target = real_type(spec.outputs[0]) if spec.outputs else None
    whole = target is not None and target.kind in "iu"
    return Domain(0.0, 100.0, signed=target is None or target.kind != "u") if whole else _ANY


OPERATORS: dict[str, Operator] = {
    "Abs": Operator(_elementwise(np.abs)),
    "Neg": Operator(_elementwise(np.negative)),
    "Square": Operator(_elementwise(np.square)),
    "Sqrt": Operator(_elementwise(np.sqrt), domain=_POSITIVE),
    "Rsqrt": Operator(_elementwise(lambda x: 1 / np.sqrt(x)), domain=_POSITIVE),
    "Reciprocal": Operator(_elementwise(lambda x: 1 / x), domain=_DIVISOR),
    "Exp": Operator(_exp, domain=Domain(0.0, 4.0, signed=True)),
    # Near 1 the logarithm amplifies an error in the last place of its input without bound.
    "Log": Operator(_log, domain=Domain(2.0, 16.0)),
    "Relu": Operator(_elementwise(lambda x: np.maximum(x, 0))),
    "LeakyRelu": Operator(_leaky_relu),
    "Sigmoid": Operator(_elementwise(_sigmoid)),
    "Tanh": Operator(_elementwise(np.tanh)),
    "Gelu": Operator(_elementwise(_gelu)),
    "FastGelu": Operator(_elementwise(_fast_gelu)),
    "Mish": Operator(_elementwise(_mish)),
    "Swish": Operator(_swish),
    "Add": Operator(_elementwise(np.add), 2, 2),
    "Sub": Operator(_elementwise(np.subtract), 2, 2),
    "Mul": Operator(_elementwise(np.multiply), 2, 2),
    "RealDiv": Operator(_elementwise(np.divide), 2, 2, domain=(_ANY, _DIVISOR)),
    "Maximum": Operator(_elementwise(np.maximum), 2, 2),
    "Minimum": Operator(_elementwise(np.minimum), 2, 2),
    "BiasAdd": Operator(_bias_add, 2, 2),
    "Cast": Operator(_cast, domain=_castable),
    "ReduceSum": Operator(_reduction(np.sum), 2, 2, domain=SUMMED, index_inputs=(1,)),
    "ReduceMean": Operator(_reduction(np.mean), 2, 2, domain=SUMMED, index_inputs=(1,)),
    "ReduceMax": Operator(_reduction(np.max), 2, 2, index_inputs=(1,)),
    "ReduceSumD": Operator(_reduction(np.sum), domain=SUMMED),
    "ReduceMeanD": Operator(_reduction(np.mean), domain=SUMMED),
    "ReduceMaxD": Operator(_reduction(np.max)),
    "SoftmaxV2": Operator(_softmax),
    "LayerNorm": Operator(_layer_norm, 3, 3, domain=(_NORMALISED, _SCALE, _OFFSET)),
    "GEMM": Operator(_gemm, 5, 5, domain=SUMMED),
    "MatMul": Operator(_matmul("transpose_x1", "transpose_x2"), 2, 3, domain=SUMMED),
    "MatMulV2": Operator(_matmul("transpose_x1", "transpose_x2"), 2, 3, domain=SUMMED),
    "BatchMatMul": Operator(_matmul("adj_x1", "adj_x2"), 2, 2, domain=SUMMED),
    "BatchMatMulV2": Operator(_matmul("adj_x1", "adj_x2"), 2, 3, domain=SUMMED),
    "Transpose": Operator(_transpose, 2, 2, index_inputs=(1,)),
    "TransposeD": Operator(_transpose),
    "Reshape": Operator(_reshape, 1, 2, index_inputs=(1,)),
    "Flatten": Operator(_flatten),
    "Conv2D": Operator(_conv2d, 2, 3, domain=SUMMED, layout=True),
    "MaxPool": Operator(_max_pool, layout=True),
    "MaxPoolV3": Operator(_max_pool_v3, layout=True),
    "AvgPoolV2": Operator(_average_pool, domain=SUMMED, layout=True),
    "GlobalAveragePool": Operator(_global_average, domain=SUMMED, layout=True),
    # Further types that models in ONNX consist of.
    "Erf": Operator(_elementwise(_erf)),
    "GeluV2": Operator(_gelu_v2),
    "Pow": Operator(_elementwise(np.power), 2, 2, domain=(Domain(0.5, 2.0), Domain(-2.0, 2.0))),
    "Equal": Operator(_elementwise(np.equal), 2, 2),
    "Less": Operator(_elementwise(np.less), 2, 2),
    "Greater": Operator(_elementwise(np.greater), 2, 2),
    "SelectV2": Operator(_elementwise(np.where), 3, 3),
    "AccumulateNV2": Operator(_accumulate, 1, _MOST_TENSORS, domain=SUMMED),
    "BatchNorm": Operator(_batch_norm, 5, 5, domain=_STANDARDISED),
    "ReduceMin": Operator(_reduction(np.min), 2, 2, index_inputs=(1,)),
    "ReduceMinD": Operator(_reduction(np.min)),
    "UnsqueezeV3": Operator(_unsqueeze, 2, 2, index_inputs=(1,)),
    "BroadcastTo": Operator(_broadcast_to, 2, 2, index_inputs=(1,)),
    "ConcatD": Operator(_concat, 1, _MOST_TENSORS),
    "SplitVD": Operator(_split),
    "GatherV2": Operator(_gather, 3, 3, domain=(_ANY, _PLACE, _ANY), index_inputs=(2,)),
    "StridedSliceV2": Operator(_slice, 5, 5, index_inputs=(1, 2, 3, 4)),
    "PadV3": Operator(_pad, 2, 2, index_inputs=(1,)),
    "Bucketize": Operator(_bucketize),
    "LayerNormV4": Operator(
        _layer_norm_v4, 2, 4, domain=(_NORMALISED, _ANY, _SCALE, _OFFSET), index_inputs=(1,)
    ),
}
