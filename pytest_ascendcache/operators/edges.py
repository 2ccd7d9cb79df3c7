"""Inputs at the edges of a type: zero, subnormal, largest, infinite, NaN.

Ordinary samples keep an operator well conditioned. These inputs reveal what goes wrong at the edge
of a type, in an odd tail or in a long reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_ascendcache.operators.semantics import sample_inputs
from pytest_ascendcache.operators.spec import OperatorSpec

SUMMING = frozenset(
    {
        *("ReduceSum", "ReduceSumD", "ReduceMean", "ReduceMeanD", "SoftmaxV2", "LayerNorm"),
        "LayerNormV4",
        *("MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2", "Conv2D"),
        *("AccumulateNV2", "AvgPoolV2", "GlobalAveragePool"),
    }
)
"""Types that add up elements. One infinite element would hide all others of its sum."""

_WITHOUT = frozenset({"LayerNorm", "LayerNormV4", "BatchNorm", "Pow"})
"""Types without edge values: a zero in beta cancels, and no document of CANN defines infinite or
undefined powers."""

EXTREMES = {"ReduceMax": -1.0, "ReduceMaxD": -1.0, "ReduceMin": 1.0, "ReduceMinD": 1.0}
"""Types that look for an extreme, and the sign of elements that reveals a wrong initial value."""


def edge_inputs(spec: OperatorSpec, seed: int) -> list[npt.NDArray[Any]]:
    """Samples (see :func:`sample_inputs`) with edge values between them.

    The last element stays a sample, so that an element that was not written is noticed. Operators
    that add up elements get only zeros and subnormal numbers.

    Raises:
        UnknownOperator, ValueError: as :func:`sample_inputs`.
    """
    if spec.type in _WITHOUT or spec.attribute("scale") not in (None, 1.0):
        # A scaled edge value is rounded, or overflows.
        return sample_inputs(spec, seed)
    connected = [each for each in spec.inputs if not each.is_absent]
    inputs = [np.array(each) for each in sample_inputs(spec, seed)]
    for index, (tensor, values) in enumerate(zip(connected, inputs, strict=True)):
        edges = _edges(values.dtype, spec.type in SUMMING)
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
