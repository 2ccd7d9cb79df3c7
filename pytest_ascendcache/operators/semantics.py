"""Reference semantics of operators in numpy float64: the oracle for kernels.

A kernel from a cache is judged by running it on inputs that do not amplify rounding errors
(:func:`sample_inputs`). Its output is compared with that of :func:`evaluate` in units in the last
place (:func:`ulp_error`). The formulas of each operator type are in ``formulas``.

The package ``operators`` does not import this module, because it imports numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_ascendcache.operators.formulas import (
    OPERATORS,
    SUMMED,
    Array,
    Domain,
    Operator,
    plain_reshape,
    real_type,
)
from pytest_ascendcache.operators.spec import OperatorSpec, TensorDesc

OPERATOR_TYPES = frozenset(OPERATORS)
"""Every operator type with semantics, by CANN's name."""


class UnknownOperator(LookupError):
    """An operator without reference semantics; the text says which part is unknown."""


def has_semantics(spec: OperatorSpec) -> bool:
    """Whether :func:`evaluate` and :func:`sample_inputs` support ``spec``."""
    return _unknown(spec) is None


def evaluate(spec: OperatorSpec, inputs: Sequence[npt.NDArray[Any]]) -> list[Array]:
    """Compute the outputs of ``spec`` without rounding them to their types.

    ``inputs`` holds one array per connected input, in the order of ``spec.inputs``, without the
    unconnected ones (``TensorDesc.is_absent``). Every element is converted to float64 exactly, and
    float attributes take the float32 value that ATC stores. Returns one float64 array for each
    declared output that the operator has. Infinities, NaN and division by zero follow IEEE 754
    without warnings; integers do not wrap around. Raises ``UnknownOperator`` if the type, or this
    layout or variant of it, has no semantics, and ``ValueError`` if inputs or attributes do not fit
    the operator, or float64 cannot hold an integer.
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
    """The distance of ``measured`` from ``exact`` per element, in ulp of the type of ``measured``.

    One ulp is the spacing of that type at ``exact``: ``2 ** (floor(log2(|exact|)) - 10)`` for
    float16, ``- 23`` for float32, but at least the smallest subnormal, which is the unit for an
    exact zero or a subnormal. A correctly rounded result has a distance of at most 0.5.

    * NaN for NaN and infinity for the same infinity have the distance 0; any other pair with an
      infinite or undefined ``exact``, and NaN for a number, has the distance ``inf``.
    * A measured infinity counts as the first power of two that overflows (65536 in float16). For
      an ``exact`` at or beyond that, its distance is 0, because rounding to infinity is correct.
    * The sign of a zero does not count.

    Raises ``TypeError`` if ``measured`` is neither float16 nor float32, and ``ValueError`` if the
    shapes differ.
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
    conditioned, so that a few ulp of error mean a wrong kernel and not an unlucky input: they are
    positive for roots and logarithms, not near zero for divisors, and of one sign for sums. A
    constant input has its constant. bfloat16, which numpy lacks, becomes float32 with values that
    bfloat16 can hold. Raises ``UnknownOperator`` like :func:`evaluate`, and ``ValueError`` if a
    shape is known only at run time, or an input must be constant and is not.
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
        if index in operator.index_inputs:
            raise ValueError(f"{where} selects axes or extents; make it a constant.")
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))
        domain = operator.domain(spec) if callable(operator.domain) else operator.domain
        one = domain[index] if isinstance(domain, tuple) else domain
        samples.append(_sample(tensor, generator, one))
    return samples


def _known(spec: OperatorSpec) -> Operator:
    reason = _unknown(spec)
    if reason is not None:
        raise UnknownOperator(f"{spec}: {reason}.")
    return OPERATORS[spec.type]


def _unknown(spec: OperatorSpec) -> str | None:
    operator = OPERATORS.get(spec.type)
    if operator is None:
        return f"no reference semantics; known are {', '.join(sorted(OPERATORS))}"
    for index, tensor in enumerate(spec.inputs):
        if tensor.is_absent:
            continue
        if index >= operator.most:
            return f"input {index} has no reference semantics; connect at most {operator.most}"
        if tensor.dtype.name != "bfloat16" and real_type(tensor) is None:
            return f"input {index} of type {tensor.dtype} has no numpy counterpart"
    if operator.layout:
        order = spec.attribute("data_format") or "NCHW"
        formats = {each.format for each in spec.inputs[:2] if not each.is_absent}
        if order != "NCHW" or not formats <= {"NCHW", "ND"}:
            return f"the layout {order} of {', '.join(sorted(formats))} is not NCHW"
    if spec.type == "Reshape" and not plain_reshape(spec):
        return "the attributes axis and num_axes have no reference semantics"
    if spec.attribute("offset_x"):
        return "quantised by offset_x, which has no reference semantics"
    return None


def _slots(spec: OperatorSpec, inputs: Sequence[npt.NDArray[Any]]) -> list[Array | None]:
    """Exact float64 inputs by their position in the spec; ``None`` if an input is unconnected."""
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
    dtype = real_type(tensor) or np.dtype(np.float32)
    return np.array(tensor.const_value, dtype).reshape(tensor.shape)


def _sample(tensor: TensorDesc, generator: np.random.Generator, domain: Domain) -> npt.NDArray[Any]:
    # By random() only: numpy guarantees the stream of doubles, but not derived distributions.
    values = domain.low + (domain.high - domain.low) * generator.random(tensor.shape)
    dtype = real_type(tensor)
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


# Inputs at the edges of a type: zero, subnormal, largest, infinite, NaN. They reveal what goes
# wrong there, in an odd tail or in a long reduction. Samples keep an operator well conditioned.

_SUMMING = {
    *(name for name, operator in OPERATORS.items() if operator.domain is SUMMED),
    *("SoftmaxV2", "LayerNorm", "LayerNormV4"),
}
"""Types that add up elements. One infinite element would hide all others of its sum."""

_WITHOUT = frozenset({"LayerNorm", "LayerNormV4", "BatchNorm", "Pow"})
"""Types without edge values: a zero in beta cancels, and no document of CANN defines infinite or
undefined powers."""

EXTREMES = {"ReduceMax": -1.0, "ReduceMaxD": -1.0, "ReduceMin": 1.0, "ReduceMinD": 1.0}
"""Types that look for an extreme, and the sign of elements that reveals a wrong initial value."""


def edge_inputs(spec: OperatorSpec, seed: int) -> list[npt.NDArray[Any]]:
    """Samples (see :func:`sample_inputs`) with edge values between them.

    The last element stays a sample, so that an element that was not written is noticed. Operators
    that add up elements get only zeros and subnormal numbers. Raises ``UnknownOperator`` or
    ``ValueError`` like :func:`sample_inputs`.
    """
    if spec.type in _WITHOUT or spec.attribute("scale") not in (None, 1.0):
        # A scaled edge value is rounded, or overflows.
        return sample_inputs(spec, seed)
    connected = [each for each in spec.inputs if not each.is_absent]
    inputs = [np.array(each) for each in sample_inputs(spec, seed)]
    for index, (tensor, values) in enumerate(zip(connected, inputs, strict=True)):
        edges = _edges(values.dtype, spec.type in _SUMMING)
        if tensor.is_const or not values.size or not edges:
            continue
        # The steps differ by input, so that edge values of one meet samples of the other.
        places = range(values.size - 2, -1, -(2 + index))
        for place, edge in zip(places, edges, strict=False):
            values.flat[place] = edge
        if (sign := EXTREMES.get(spec.type)) and values.dtype.kind == "f":
            values[...] = np.copysign(values, sign)
    return inputs


def _edges(dtype: np.dtype[Any], summing: bool) -> Sequence[Any]:
    if dtype.kind == "b":
        return ()
    if dtype.kind in "iu":
        return () if summing else (0, 1)
    limits = np.finfo(dtype)
    small = (0.0, -0.0, float(limits.smallest_subnormal), float(limits.smallest_subnormal) * 3)
    if summing:
        return small
    largest, tiny = float(limits.max), float(limits.tiny)
    return (*small, -small[2], tiny, -tiny, largest, -largest, np.inf, -np.inf, np.nan, 1.0, -1.0)


def judged_elements(
    spec: OperatorSpec, inputs: Sequence[npt.NDArray[Any]], exact: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Where the exact first output is certain: numbers, infinities, and NaN that was an input.

    Any other NaN only means that the formula is undefined, e.g. ``inf * 0`` at the limit of a gate.
    """
    known = ~np.isnan(exact)
    if spec.outputs[0].dtype.name not in ("float16", "float32"):
        return np.asarray(known)  # no document defines NaN as an integer
    for tensor, values in zip((t for t in spec.inputs if not t.is_absent), inputs, strict=True):
        if values.dtype.kind == "f" and not tensor.is_const and values.shape == exact.shape:
            known |= np.isnan(values)
    return known
