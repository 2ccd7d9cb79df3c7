"""Inputs at the edges of a type: zero, subnormal, largest, infinite, NaN.

Ordinary samples keep an operator well conditioned; what goes wrong in a corner of a type, in an
odd tail or in a long reduction shows on these.
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
"""Types that add elements up: one infinite element would hide all others of its sum."""

_WITHOUT = frozenset({"LayerNorm", "LayerNormV4", "BatchNorm", "Pow"})
"""Types that are given samples alone: a zero among beta cancels, and what infinite or undefined
powers are, no document of CANN says."""

EXTREMES = {"ReduceMax": -1.0, "ReduceMaxD": -1.0, "ReduceMin": 1.0, "ReduceMinD": 1.0}
"""Types that look for an extreme, and the sign on whose side a wrong start is found."""


def edge_inputs(spec: OperatorSpec, seed: int) -> list[npt.NDArray[Any]]:
    """Samples (see :func:`sample_inputs`) with edge values between them.

    The last element stays a sample, which an unwritten zero is not mistaken for.

    Operators that add elements up are given zeros and subnormal numbers only.

    Raises:
        UnknownOperator, ValueError: as :func:`sample_inputs`.
    """
    if spec.type in _WITHOUT or spec.attribute("scale") not in (None, 1.0):
        # A scaled edge is rounded, or overflows, on its way.
        return sample_inputs(spec, seed)
    connected = [each for each in spec.inputs if not each.is_absent]
    inputs = [np.array(each) for each in sample_inputs(spec, seed)]
    for index, (tensor, values) in enumerate(zip(connected, inputs, strict=True)):
        edges = _edges(values.dtype, spec.type in SUMMING)
        if tensor.is_const or not values.size or not edges:
            continue
        # Steps that differ by input, so that edge values of one meet samples of the other.
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
    """Where the first output is known: numbers, infinities, and NaN that came in as NaN.

    Elsewhere NaN only says that the formula does not, as in ``inf * 0`` for a gate's limit.
    """
    known = ~np.isnan(exact)
    if spec.outputs[0].dtype.name not in ("float16", "float32"):
        return np.asarray(known)  # what NaN is as an integer, no document says
    for tensor, values in zip((t for t in spec.inputs if not t.is_absent), inputs, strict=True):
        if values.dtype.kind == "f" and not tensor.is_const and values.shape == exact.shape:
            known |= np.isnan(values)
    return known
