"""What an operator computes: reference semantics in numpy float64.

A kernel from a cache is judged by running it: its output is compared with :func:`evaluate` in
units in the last place (:func:`ulp_error`), on inputs that do not amplify rounding errors of
their own (:func:`sample_inputs`). Layout is NCHW wherever an operator knows about layouts.

This module imports numpy; the package ``operators`` therefore does not import it.

Source: CANN's operator prototypes (``REG_OP``), names, attributes and defaults as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_ascendcache.operators.spec import OperatorSpec, TensorDesc

Array = npt.NDArray[np.float64]


class UnknownOperator(LookupError):
    """An operator this module has no semantics for; the text says which part is unknown."""


def has_semantics(spec: OperatorSpec) -> bool:
    """Whether :func:`evaluate` and :func:`sample_inputs` know ``spec``."""
    return _unknown(spec) is None


def evaluate(spec: OperatorSpec, inputs: Sequence[npt.NDArray[Any]]) -> list[Array]:
    """Compute the outputs of ``spec``, without rounding to the types of its outputs.

    ``inputs`` holds one array per connected input, in the order of ``spec.inputs``; the
    unconnected ones (``TensorDesc.is_absent``) are left out. Every element is converted to
    float64 exactly. Float attributes take the float32 value that ATC stores. One float64 array is
    returned per declared output, as far as the operator has them. Infinities, NaN and division
    by zero follow IEEE 754 silently; integers do not wrap around.

    Raises:
        UnknownOperator: no semantics for the type, or for this layout or variant of it.
        ValueError: inputs or attributes that do not fit the operator, or an integer that float64
            cannot hold.
    """
    operator = _known(spec)
    slots = _slots(spec, inputs)
    connected = [each is not None for each in slots]
    if len(slots) < operator.least or not all(connected[: operator.least]):
        raise ValueError(
            f"{spec}: {sum(connected)} inputs are connected; connect the first {operator.least}."
        )
    try:
        with np.errstate(all="ignore"):
            results = operator.compute(spec, *slots[: operator.most])
    except (ValueError, IndexError) as error:
        raise ValueError(f"{spec}: {error}") from error
    outputs = results if isinstance(results, list) else [results]
    return [np.asarray(each, np.float64) for each in outputs[: max(len(spec.outputs), 1)]]


def ulp_error(measured: npt.NDArray[Any], exact: npt.NDArray[np.float64]) -> Array:
    """Distance of ``measured`` from ``exact``, per element, in ulp of the type of ``measured``.

    One ulp is the spacing of that type at ``exact``: ``2 ** (floor(log2(|exact|)) - 10)`` for
    float16, ``- 23`` for float32, and never less than the smallest subnormal, so an exact zero or
    a subnormal is measured in that unit. A correctly rounded result is at most 0.5 away.

    * NaN for NaN and infinity for the same infinity are 0; any other pair with an infinite or
      undefined ``exact``, and NaN for a number, is ``inf``.
    * A measured infinity stands for the first power of two that overflows (65536 in float16), and
      is 0 for anything at or beyond it: rounding to infinity is correct there.
    * The sign of a zero does not count.

    Raises:
        TypeError: ``measured`` is neither float16 nor float32.
        ValueError: the shapes differ.
    """
    if measured.dtype not in (np.float16, np.float32):
        raise TypeError(f"ulp_error: measured is {measured.dtype}; give float16 or float32.")
    if measured.shape != np.shape(exact):
        raise ValueError(
            f"ulp_error: measured has shape {list(measured.shape)}, exact {list(np.shape(exact))}."
        )
    limits = np.finfo(measured.dtype)
    value, target = measured.astype(np.float64), np.asarray(exact, np.float64)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.where(target == 0, float(limits.tiny), target))
        exponent = np.clip(exponent - 1, int(limits.minexp), int(limits.maxexp) - 1)
        unit = np.ldexp(1.0, exponent - int(limits.nmant))
        overflow = math.ldexp(1.0, int(limits.maxexp))
        reached = np.isinf(value) & (np.sign(value) == np.sign(target)) & (abs(target) >= overflow)
        value = np.where(np.isinf(value), np.copysign(overflow, value), value)
        error = abs(value - target) / unit
    error = np.where(reached, 0.0, error)
    error = np.where(np.isnan(value) | np.isnan(target), np.inf, error)
    return np.asarray(np.where(np.isnan(value) & np.isnan(target), 0.0, error))


def sample_inputs(spec: OperatorSpec, seed: int) -> list[npt.NDArray[Any]]:
    """Inputs for :func:`evaluate`, one per connected input, each in the type of its tensor.

    The same spec and seed (0 or more) give the same arrays. Values keep the operator well
    conditioned: positive for roots and logarithms, away from zero for divisors, of one sign where
    many are summed, so that a few ulp of error mean a wrong kernel and not an unlucky input. A
    constant input is its constant. bfloat16, which numpy lacks, comes as float32 that holds only
    bfloat16 values.

    Raises:
        UnknownOperator: as :func:`evaluate`.
        ValueError: a shape known only at run time, or an input that must be constant and is not.
    """
    operator = _known(spec)
    samples: list[npt.NDArray[Any]] = []
    for index, tensor in enumerate(spec.inputs):
        if tensor.is_absent:
            continue
        where = f"{spec}: input {index}"
        if not tensor.is_static:
            raise ValueError(f"{where} has shape {list(tensor.shape)}; sample a static shape.")
        if tensor.const_value:
            samples.append(_constant(tensor, where))
            continue
        if operator.index_input == index:
            raise ValueError(f"{where} selects axes or extents; make it a constant.")
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))
        domain = operator.domain(spec, index) if callable(operator.domain) else operator.domain
        samples.append(_sample(tensor, generator, domain))
    return samples


@dataclass(frozen=True)
class _Domain:
    """Values to sample: magnitudes from ``low`` to ``high``, and whether signs are mixed."""

    low: float
    high: float
    signed: bool = False


_MOST_TENSORS = 64
"""Tensors that one operator adds up or joins: CANN's limit."""

_ANY = _Domain(0.0, 2.0, signed=True)
_POSITIVE = _Domain(0.25, 4.0)
_SUMMED = _Domain(0.25, 1.0)


@dataclass(frozen=True)
class _Operator:
    """Semantics of one type: ``compute(spec, *inputs)``, ``None`` for an unconnected input.

    ``least`` to ``most`` inputs may be connected; ``index_input`` is the one, if any, that is no
    data but selects axes or extents.
    """

    compute: Callable[..., Array | list[Array]]
    least: int = 1
    most: int = 1
    domain: _Domain | Callable[[OperatorSpec, int], _Domain] = _ANY
    index_input: int | None = None
    layout: bool = False


def _known(spec: OperatorSpec) -> _Operator:
    reason = _unknown(spec)
    if reason is not None:
        raise UnknownOperator(f"{spec}: {reason}.")
    return _OPERATORS[spec.type]


def _unknown(spec: OperatorSpec) -> str | None:
    operator = _OPERATORS.get(spec.type)
    if operator is None:
        return f"no reference semantics; known are {', '.join(sorted(_OPERATORS))}"
    for index, tensor in enumerate(spec.inputs):
        if tensor.is_absent:
            continue
        if index >= operator.most:
            return f"input {index} has no reference semantics; connect at most {operator.most}"
        if tensor.dtype.name != "bfloat16" and _real_type(tensor) is None:
            return f"input {index} of type {tensor.dtype} has no numpy counterpart"
    if operator.layout:
        order = spec.attribute("data_format") or "NCHW"
        formats = {each.format for each in spec.inputs[:2] if not each.is_absent}
        if order != "NCHW" or not formats <= {"NCHW", "ND"}:
            return f"the layout {order} of {', '.join(sorted(formats))} is not NCHW"
    if spec.type == "Reshape" and not _plain_reshape(spec):
        return "the attributes axis and num_axes have no reference semantics"
    if spec.attribute("offset_x"):
        return "quantised by offset_x, which has no reference semantics"
    return None


def _real_type(tensor: TensorDesc) -> np.dtype[Any] | None:
    dtype = np.dtype(tensor.dtype.numpy) if tensor.dtype.numpy else None
    return None if dtype is None or dtype.kind == "c" else dtype


def _slots(spec: OperatorSpec, inputs: Sequence[npt.NDArray[Any]]) -> list[Array | None]:
    """Inputs by their position in the spec, ``None`` where unconnected, exact in float64."""
    connected = sum(not tensor.is_absent for tensor in spec.inputs)
    if len(inputs) != connected:
        raise ValueError(f"{spec}: {len(inputs)} arrays for {connected} connected inputs.")
    arrays = iter(inputs)
    slots: list[Array | None] = []
    for index, tensor in enumerate(spec.inputs):
        if tensor.is_absent:
            slots.append(None)
            continue
        array = np.asarray(next(arrays))
        if tensor.is_static and array.shape != tensor.shape:
            raise ValueError(
                f"{spec}: input {index} has shape {list(array.shape)}, not {list(tensor.shape)}."
            )
        slots.append(_exact(array, f"{spec}: input {index}"))
    return slots


def _exact(array: npt.NDArray[Any], where: str) -> Array:
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise ValueError(f"{where} is {array.dtype}; give real numbers of at most 64 bits.")
    converted = array.astype(np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        exact = all(int(a) == int(b) for a, b in zip(array.flat, converted.flat, strict=True))
        if not exact:
            raise ValueError(f"{where} holds an integer that float64 cannot hold.")
    return converted


def _constant(tensor: TensorDesc, where: str) -> npt.NDArray[Any]:
    if len(tensor.const_value) != tensor.elements:
        raise ValueError(
            f"{where} has {len(tensor.const_value)} constants for shape {list(tensor.shape)}."
        )
    dtype = _real_type(tensor) or np.dtype(np.float32)
    return np.array(tensor.const_value, dtype).reshape(tensor.shape)


def _sample(
    tensor: TensorDesc, generator: np.random.Generator, domain: _Domain
) -> npt.NDArray[Any]:
    # random() alone: numpy keeps the stream of doubles, not the derived distributions.
    values = domain.low + (domain.high - domain.low) * generator.random(tensor.shape)
    dtype = _real_type(tensor)
    if dtype is not None and dtype.kind == "b":
        return np.asarray(generator.random(tensor.shape) < 0.5)
    if domain.signed and (dtype is None or dtype.kind != "u"):
        values = np.where(generator.random(tensor.shape) < 0.5, -values, values)
    if dtype is None:
        bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return np.asarray(bits.view(np.float32))
    if dtype.kind in "iu":
        values = np.rint(values * 4)
    return np.asarray(values, dtype)


def _float(spec: OperatorSpec, name: str, default: float) -> float:
    value = spec.attribute(name)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"the attribute {name} is {value!r}; write a number")
    return float(np.float32(value))


def _int(spec: OperatorSpec, name: str, default: int) -> int:
    value = spec.attribute(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"the attribute {name} is {value!r}; write an integer")
    return value


def _flag(spec: OperatorSpec, name: str) -> bool:
    value = spec.attribute(name) or False
    if not isinstance(value, bool):
        raise ValueError(f"the attribute {name} is {value!r}; write true or false")
    return value


def _ints(spec: OperatorSpec, name: str, length: int | None = None) -> tuple[int, ...] | None:
    value = spec.attribute(name)
    if value is None:
        return None
    if not isinstance(value, tuple) or not all(isinstance(each, int) for each in value):
        raise ValueError(f"the attribute {name} is {value!r}; write a list of integers")
    numbers = tuple(int(each) for each in value if isinstance(each, int))
    if length is not None and len(numbers) != length:
        raise ValueError(f"the attribute {name} has {len(numbers)} elements; write {length}")
    return numbers


def _floats(spec: OperatorSpec, name: str) -> Array:
    value = spec.attribute(name)
    if not isinstance(value, tuple):
        raise ValueError(f"the attribute {name} is {value!r}; write a list of numbers")
    return np.array(value, np.float32).astype(np.float64)


def _required(spec: OperatorSpec, name: str, length: int | None = None) -> tuple[int, ...]:
    numbers = _ints(spec, name, length)
    if numbers is None:
        raise ValueError(f"the attribute {name} is missing; add it")
    return numbers


def _chosen(spec: OperatorSpec, name: str, tensor: Array | None) -> tuple[int, ...]:
    """Axes or extents: an input of the operator, an attribute of its variant that ends in D."""
    return _required(spec, name) if tensor is None else tuple(int(each) for each in tensor.flat)


# Element-wise.


def _elementwise(function: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda _spec, x: function(x)


def _broadcast(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda _spec, x1, x2: function(x1, x2)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    """The tanh form, as CANN's Gelu: ``x/2 (1 + tanh(u))``, written as ``x sigmoid(2u)``.

    The two are equal; the second keeps its digits where ``tanh(u)`` approaches -1.
    """
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _fast_gelu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-1.702 * abs(x))) * np.exp(0.851 * (x - abs(x))))


def _mish(x: Array) -> Array:
    """``x tanh(ln(1 + e^x))``, by ``tanh(ln(1 + e)) = e (e + 2) / (e (e + 2) + 2)``."""
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
    """To an integer: truncated towards zero and clipped to its range. To bool: not zero."""
    target = _real_type(spec.outputs[0])
    if target is None or target.kind == "f":
        return x
    if target.kind == "b":
        return np.asarray(x != 0, np.float64)
    limits = np.iinfo(target)
    return np.clip(np.trunc(x), float(limits.min), float(limits.max))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _gelu_v2(spec: OperatorSpec, x: Array) -> Array:
    """By the error function, or with ``approximate`` "tanh" as Gelu. ``erfc`` keeps the digits of
    the tail."""
    kind = spec.attribute("approximate") or "none"
    if kind not in ("none", "tanh"):
        raise ValueError(f"the attribute approximate is {kind!r}; write none or tanh")
    if kind == "tanh":
        return _gelu(x)
    return np.asarray(x / 2 * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)))


def _select(_spec: OperatorSpec, condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition != 0, yes, no)


def _bucketize(spec: OperatorSpec, x: Array) -> Array:
    boundaries = _floats(spec, "boundaries")
    right = spec.attribute("right") is None or _flag(spec, "right")
    reached = x[..., None] >= boundaries if right else x[..., None] > boundaries
    return np.asarray(np.sum(reached, axis=-1, dtype=np.float64))


def _accumulate(_spec: OperatorSpec, *given: Array | None) -> Array:
    total, *others = (each for each in given if each is not None)
    for each in others:
        total = total + each
    return total


# Reductions along axes.


def _reduce(function: Callable[..., Any]) -> Callable[..., Array]:
    def compute(spec: OperatorSpec, x: Array, axes: Array | None = None) -> Array:
        chosen = _chosen(spec, "axes", axes)
        if not chosen:
            raise ValueError(
                "no axes are given, which releases of CANN read differently; name them"
            )
        return np.asarray(function(x, axis=chosen, keepdims=_flag(spec, "keep_dims")))

    return compute


def _softmax(spec: OperatorSpec, x: Array) -> Array:
    axes = _ints(spec, "axes") or (-1,)
    power = np.exp(x - x.max(axis=axes, keepdims=True))
    return np.asarray(power / power.sum(axis=axes, keepdims=True))


def _layer_norm(spec: OperatorSpec, x: Array, gamma: Array, beta: Array) -> list[Array]:
    """Outputs y, mean and variance; the last two keep the normalised axes with extent 1."""
    first = _axis(_int(spec, "begin_norm_axis", 0), x.ndim)
    weighed = _axis(_int(spec, "begin_params_axis", 0), x.ndim)
    if gamma.shape != x.shape[weighed:] or beta.shape != x.shape[weighed:]:
        raise ValueError(
            f"gamma {list(gamma.shape)} and beta {list(beta.shape)} do not have the shape of x "
            f"from axis {weighed} on, {list(x.shape[weighed:])}"
        )
    axes = tuple(range(first, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + _float(spec, "epsilon", 1e-7)) * gamma + beta
    return [y, mean, variance]


def _layer_norm_v4(
    spec: OperatorSpec, x: Array, extents: Array, gamma: Array | None, beta: Array | None
) -> list[Array]:
    """Over the last dimensions, which input 1 names; outputs y, mean, 1 / sqrt(variance)."""
    axes = tuple(range(x.ndim - extents.size, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    root = 1 / np.sqrt(variance + _float(spec, "epsilon", 1e-5))
    y = (x - mean) * root
    y = y if gamma is None else y * gamma
    return [y if beta is None else y + beta, mean, root]


def _batch_norm(
    spec: OperatorSpec, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> Array:
    """Of inference: statistics come in, one of each for a channel (dimension 1)."""
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


def _conv2d(spec: OperatorSpec, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x [N, C, H, W] and weight [O, C / groups, h, w] to [N, O, H', W']; bias [O].

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
    """The H and W entries of an NCHW list."""
    if numbers[:2] != (1, 1) or min(numbers[2:]) < 1:
        raise ValueError(f"{name} is {list(numbers)}; write [1, 1, h, w] with h and w of 1 or more")
    return numbers[2], numbers[3]


def _windows(x: Array, extent: Sequence[int], strides: tuple[int, int]) -> Array:
    """View [N, C, H', W', h, w] of every window over x [N, C, H, W]."""
    view = np.lib.stride_tricks.sliding_window_view(x, tuple(extent), axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1]]


def _max_pool(spec: OperatorSpec, x: Array) -> Array:
    """MaxPool: padding SAME or VALID, as TensorFlow."""
    return _pooled(spec, x, str(spec.attribute("padding")))


def _max_pool_v3(spec: OperatorSpec, x: Array) -> Array:
    """MaxPoolV3: as MaxPool, with explicit pads (top, bottom, left, right) by default."""
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
    """AvgPoolV2: explicit pads by default, which ``exclusive`` (the default) does not count."""
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
    """To the extents of the input or attribute ``shape``, else to the declared output."""
    if shape is None and _ints(spec, "shape") is None:
        return x.reshape(spec.outputs[0].shape)
    return x.reshape(_chosen(spec, "shape", shape))


def _plain_reshape(spec: OperatorSpec) -> bool:
    return spec.attribute("axis") in (None, 0) and spec.attribute("num_axes") in (None, -1)


def _flatten(spec: OperatorSpec, x: Array) -> Array:
    axis = _axis(_int(spec, "axis", 1), x.ndim, last=0)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _unsqueeze(_spec: OperatorSpec, x: Array, axes: Array) -> Array:
    return np.expand_dims(x, tuple(int(each) for each in axes.flat))


def _broadcast_to(_spec: OperatorSpec, x: Array, shape: Array) -> Array:
    made = np.broadcast_shapes(x.shape, tuple(int(each) for each in shape.flat))
    return np.broadcast_to(x, made)


def _concat(spec: OperatorSpec, *given: Array | None) -> Array:
    parts = [each for each in given if each is not None]
    return np.concatenate(parts, axis=_axis(_int(spec, "concat_dim", 0), parts[0].ndim))


def _split(spec: OperatorSpec, x: Array) -> list[Array]:
    """An output for each of ``size_splits``."""
    axis = _axis(_int(spec, "split_dim", 0), x.ndim)
    ends = np.cumsum(_required(spec, "size_splits"))[:-1]
    return np.split(x, ends, axis=axis)


def _gather(spec: OperatorSpec, x: Array, places: Array, axis: Array) -> Array:
    """Slices of x at ``places`` along an axis."""
    if _int(spec, "batch_dims", 0):
        raise ValueError("the attribute batch_dims is not 0, which has no reference semantics")
    return np.take(x, places.astype(np.int64), axis=int(axis.flat[0]))


def _slice(
    _spec: OperatorSpec, x: Array, begin: Array, end: Array, axes: Array, strides: Array
) -> Array:
    """As Python slices, along each of the axes."""
    chosen = [slice(None)] * x.ndim
    for first, last, axis, step in zip(begin, end, axes, strides, strict=True):
        chosen[_axis(int(axis), x.ndim)] = slice(int(first), int(last), int(step))
    return x[tuple(chosen)]


# Where each operator is well conditioned.


def _divisor(_spec: OperatorSpec, index: int) -> _Domain:
    return _Domain(0.5, 2.0, signed=True) if index == 1 else _ANY


def _normalised(_spec: OperatorSpec, index: int) -> _Domain:
    """x has a mean away from zero, and beta lifts y away from zero: neither cancels."""
    return (_Domain(1.0, 3.0), _Domain(0.5, 1.5), _Domain(4.0, 5.0))[index]


def _normalised_v4(spec: OperatorSpec, index: int) -> _Domain:
    return _normalised(spec, max(index - 1, 0))


def _castable(spec: OperatorSpec, _index: int) -> _Domain:
    target = _real_type(spec.outputs[0]) if spec.outputs else None
    whole = target is not None and target.kind in "iu"
    return _Domain(0.0, 100.0, signed=target is None or target.kind != "u") if whole else _ANY


def _power(_spec: OperatorSpec, index: int) -> _Domain:
    return _Domain(-2.0, 2.0) if index == 1 else _Domain(0.5, 2.0)


def _standardised(_spec: OperatorSpec, index: int) -> _Domain:
    """As for LayerNorm; the mean stays away from x, and the variance from 0."""
    high, scale, offset = _Domain(3.0, 4.0), _Domain(0.5, 1.5), _Domain(4.0, 5.0)
    return (high, scale, offset, _Domain(0.5, 1.5), _Domain(0.5, 1.5))[index]


def _place(_spec: OperatorSpec, index: int) -> _Domain:
    """Places that a table of at least two slices has; whole numbers are sampled in quarters."""
    return _Domain(0.0, 0.25) if index == 1 else _ANY


_OPERATORS: dict[str, _Operator] = {
    "Abs": _Operator(_elementwise(np.abs)),
    "Neg": _Operator(_elementwise(np.negative)),
    "Square": _Operator(_elementwise(np.square)),
    "Sqrt": _Operator(_elementwise(np.sqrt), domain=_POSITIVE),
    "Rsqrt": _Operator(_elementwise(lambda x: 1 / np.sqrt(x)), domain=_POSITIVE),
    "Reciprocal": _Operator(_elementwise(lambda x: 1 / x), domain=_Domain(0.5, 2.0, signed=True)),
    "Exp": _Operator(_exp, domain=_Domain(0.0, 4.0, signed=True)),
    # Near 1 the logarithm magnifies the last place of its input without bound.
    "Log": _Operator(_log, domain=_Domain(2.0, 16.0)),
    "Relu": _Operator(_elementwise(lambda x: np.maximum(x, 0))),
    "LeakyRelu": _Operator(_leaky_relu),
    "Sigmoid": _Operator(_elementwise(_sigmoid)),
    "Tanh": _Operator(_elementwise(np.tanh)),
    "Gelu": _Operator(_elementwise(_gelu)),
    "FastGelu": _Operator(_elementwise(_fast_gelu)),
    "Mish": _Operator(_elementwise(_mish)),
    "Swish": _Operator(_swish),
    "Add": _Operator(_broadcast(np.add), 2, 2),
    "Sub": _Operator(_broadcast(np.subtract), 2, 2),
    "Mul": _Operator(_broadcast(np.multiply), 2, 2),
    "RealDiv": _Operator(_broadcast(np.divide), 2, 2, domain=_divisor),
    "Maximum": _Operator(_broadcast(np.maximum), 2, 2),
    "Minimum": _Operator(_broadcast(np.minimum), 2, 2),
    "BiasAdd": _Operator(_bias_add, 2, 2),
    "Cast": _Operator(_cast, domain=_castable),
    "ReduceSum": _Operator(_reduce(np.sum), 2, 2, domain=_SUMMED, index_input=1),
    "ReduceMean": _Operator(_reduce(np.mean), 2, 2, domain=_SUMMED, index_input=1),
    "ReduceMax": _Operator(_reduce(np.max), 2, 2, index_input=1),
    "ReduceSumD": _Operator(_reduce(np.sum), domain=_SUMMED),
    "ReduceMeanD": _Operator(_reduce(np.mean), domain=_SUMMED),
    "ReduceMaxD": _Operator(_reduce(np.max)),
    "SoftmaxV2": _Operator(_softmax),
    "LayerNorm": _Operator(_layer_norm, 3, 3, domain=_normalised),
    "MatMul": _Operator(_matmul("transpose_x1", "transpose_x2"), 2, 3, domain=_SUMMED),
    "MatMulV2": _Operator(_matmul("transpose_x1", "transpose_x2"), 2, 3, domain=_SUMMED),
    "BatchMatMul": _Operator(_matmul("adj_x1", "adj_x2"), 2, 2, domain=_SUMMED),
    "BatchMatMulV2": _Operator(_matmul("adj_x1", "adj_x2"), 2, 3, domain=_SUMMED),
    "Transpose": _Operator(_transpose, 2, 2, index_input=1),
    "TransposeD": _Operator(_transpose),
    "Reshape": _Operator(_reshape, 1, 2, index_input=1),
    "Flatten": _Operator(_flatten),
    "Conv2D": _Operator(_conv2d, 2, 3, domain=_SUMMED, layout=True),
    "MaxPool": _Operator(_max_pool, layout=True),
    "MaxPoolV3": _Operator(_max_pool_v3, layout=True),
    "AvgPoolV2": _Operator(_average_pool, domain=_SUMMED, layout=True),
    "GlobalAveragePool": _Operator(_global_average, domain=_SUMMED, layout=True),
    # What models in ONNX consist of beside those.
    "Erf": _Operator(_elementwise(_erf)),
    "GeluV2": _Operator(_gelu_v2),
    "Pow": _Operator(_broadcast(np.power), 2, 2, domain=_power),
    "Equal": _Operator(_broadcast(np.equal), 2, 2),
    "Less": _Operator(_broadcast(np.less), 2, 2),
    "Greater": _Operator(_broadcast(np.greater), 2, 2),
    "SelectV2": _Operator(_select, 3, 3),
    "AccumulateNV2": _Operator(_accumulate, 1, _MOST_TENSORS, domain=_SUMMED),
    "BatchNorm": _Operator(_batch_norm, 5, 5, domain=_standardised),
    "ReduceMin": _Operator(_reduce(np.min), 2, 2, index_input=1),
    "ReduceMinD": _Operator(_reduce(np.min)),
    "UnsqueezeV3": _Operator(_unsqueeze, 2, 2, index_input=1),
    "BroadcastTo": _Operator(_broadcast_to, 2, 2, index_input=1),
    "ConcatD": _Operator(_concat, 1, _MOST_TENSORS),
    "SplitVD": _Operator(_split),
    "GatherV2": _Operator(_gather, 3, 3, domain=_place, index_input=2),
    "StridedSliceV2": _Operator(_slice, 5, 5),
    # What has lists as long as anybody likes, or two inputs that may be left out.
    "Bucketize": _Operator(_bucketize),
    "LayerNormV4": _Operator(_layer_norm_v4, 2, 4, domain=_normalised_v4, index_input=1),
}

OPERATOR_TYPES = frozenset(_OPERATORS)
"""Every operator type with semantics, by CANN's name."""
