"""Seeded operators of every type, each with neighbours that differ in one field.

A base takes random values for its family's parameters, and each neighbour has one of them changed:
a key that leaves out a field gives two different operators one key.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from typing import Any

from pytest_ascendcache.combinations import builders
from pytest_ascendcache.combinations.family import STEP, Build, Family, Values, family, shapes
from pytest_ascendcache.operators import OperatorSpec


def generate(
    passes: int = 1, seed: int = 0, families: Sequence[Family] | None = None, near: bool = True
) -> tuple[OperatorSpec, ...]:
    """Different operators named ``generated_<n>``, neighbours next to each other: in each pass
    about 340 of all types, or about 130 without neighbours (``near``)."""
    rng = random.Random(seed)
    operators: dict[OperatorSpec, None] = {}
    for each in (*(FAMILIES if families is None else families),) * passes:
        values, base = each.base(rng)
        around = each.neighbours(values, rng) if near else ()
        operators.update(dict.fromkeys(chain((base,), around, each.in_corners(values))))
    return tuple(each.named(f"generated_{number}") for number, each in enumerate(operators))


def groups(operators: Sequence[OperatorSpec], count: int) -> list[list[OperatorSpec]]:
    """Operators in ``count`` groups that separate each from its neighbours."""
    return [list(operators[first::count]) for first in range(count)]


# --- parameters -----------------------------------------------------------------------------

_FLOATS = ("float16", "float32")
_NUMBERS = (*_FLOATS, "int32")
_STORABLE = (*_NUMBERS, "int8", "uint8", "bool")
_INDEX = ("int32", "int64")
_FLAG = (False, True)
_OPTIONAL_FLAG = (None, False, True)
_FORMAT = ("ND", "NCHW", "NHWC")

_LONG_ROWS = (3, 4099)
"""Rows longer than a sum in float16 or a counter of 12 bits can handle."""
_LONG_ROW = {"dtype": "float16", "shape": _LONG_ROWS, "axes": (-1,)}
_LONG = {"dtype": "float16", "shape": (3, 5, 275)}
"""4125 elements: an odd tail after many full vectors."""
_WITH_A_SCALAR = tuple(
    {"shape": (4, 8), "narrow": (), "lower": None, "swapped": each} for each in _FLAG
)


def _order(rng: random.Random) -> tuple[int, ...]:
    """An order of eight places. Some orders keep the first places, so that they differ late."""
    kept = rng.choice((0, 0, 2, 4))
    return (*range(kept), *rng.sample(range(kept, 8), 8 - kept))


def _steps(count: int, *moved: int) -> tuple[float, ...]:
    """``count`` equidistant numbers around 0; those at ``moved`` go half a step up, down, up ..."""
    numbers = [(place - count // 2) * STEP for place in range(count)]
    for number, place in enumerate(moved):
        numbers[place] += STEP / 2 if number % 2 == 0 else -STEP / 2
    return tuple(numbers)


_LISTS = (
    *(_steps(12, *moved) for moved in ((), (0,), (8,), (11,), (3, 10))),
    *(_steps(40, *moved) for moved in ((), (0,), (17,), (39,), (19, 38))),
)
"""Long lists that differ in one number early, in the middle or late, or in two with the same sum.

There are five of each length, so that :func:`groups` puts them into different groups."""


def _moved(count: int, place: int | None) -> tuple[int, ...]:
    """``count`` ones, of which the one at ``place`` goes one place on."""
    moved = {} if place is None else {place: 2, place + 1: 0}
    return tuple(moved.get(at, 1) for at in range(count))


# --- families -------------------------------------------------------------------------------


def _unary(
    type_name: str,
    dtypes: Sequence[str] = _FLOATS,
    corners: tuple[Values, ...] = (),
    **attributes: Sequence[float | None],
) -> Family:
    return family(
        type_name,
        builders.unary(*attributes),
        (_LONG, *corners),
        dtype=dtypes,
        shape=shapes(),
        format=_FORMAT,
        **attributes,
    )


def _binary(
    type_name: str,
    dtypes: Sequence[str] = _NUMBERS,
    corners: tuple[Values, ...] = (),
    build: Build = builders.binary,
) -> Family:
    long = tuple({**_LONG, "narrow": (1,), "lower": 0, "swapped": each} for each in _FLAG)
    return family(
        type_name,
        build,
        (*long, *corners),
        dtype=dtypes,
        shape=shapes(),
        narrow=((), (), (0,), (1,), (-1,), (-2,), (0, 2), (1, 3)),
        lower=(0, 0, 1, 2),
        swapped=_FLAG,
        format=_FORMAT,
    )


def _reduction(type_name: str, dtypes: Sequence[str]) -> Family:
    return family(
        type_name,
        builders.reduce,
        (_LONG_ROW,),
        dtype=dtypes,
        shape=shapes(),
        axes=((0,), (1,), (-1,), (2,), (0, 1), (1, 2), (-1, 0), (0, 2), (0, 1, 2, 3), (4,)),
        keep_dims=_OPTIONAL_FLAG,
        **({} if type_name.endswith("D") else {"index": _INDEX}),
    )


def _matmul(type_name: str, left: str, right: str, **parameters: Sequence[object]) -> Family:
    return family(
        type_name,
        builders.matmul(left, right, "batch" in parameters),
        ({"dtype": "float16", "extents": (2, 2053, 3)},),
        dtype=_FLOATS,
        extents=((4, 4, 4), (3, 3, 3), (7, 5, 1), (1, 17, 2), (2, 2053, 3), (5, 1, 8)),
        **{left: _OPTIONAL_FLAG, right: _OPTIONAL_FLAG},
        **parameters,
    )


_IMAGES: dict[str, Any] = {
    "dtype": _FLOATS,
    "image": ((5, 5), (7, 4), (8, 8), (1, 9)),
    "kernel": ((1, 1), (2, 2), (3, 3), (2, 3), (1, 3)),
    "strides": ((1, 1), (2, 2), (1, 2), (2, 1)),
}

FAMILIES = (
    _unary("Abs", _NUMBERS, corners=({"shape": ()},)),
    *(_unary(name, _NUMBERS) for name in ("Neg", "Square", "Relu")),
    *(_unary(name) for name in ("Sqrt", "Rsqrt", "Reciprocal", "Sigmoid", "Tanh")),
    *(_unary(name) for name in ("Gelu", "FastGelu", "Mish")),
    _unary(
        "LeakyRelu",
        corners=tuple({"shape": (4, 8), "negative_slope": each} for each in (0.0, -0.0)),
        negative_slope=(None, 0.0, 0.25, -0.5, 0.1, 0.1000001),
    ),
    _unary("Swish", scale=(None, 0.0, 0.5, -1.0, 1.0)),
    *(
        _unary(name, base=(None, -1.0, 2.0, 0.5), scale=(None, 1.0, 2.0), shift=(None, 0.0, 0.25))
        for name in ("Exp", "Log")
    ),
    _binary("Add", corners=_WITH_A_SCALAR),
    *(_binary(name) for name in ("Sub", "Mul", "Maximum", "Minimum")),
    _binary("RealDiv", _FLOATS),
    family(
        "BiasAdd",
        builders.bias_add,
        dtype=_NUMBERS,
        shape=((2, 3, 3), (4, 5, 5), (2, 7, 1, 7), (3, 2), (1, 4099)),
        data_format=(None, "NHWC", "NCHW"),
    ),
    family(
        "Cast",
        builders.cast,
        # Types of one width, which only the output tells apart.
        tuple({"dtype": "float32", "to": to, "named": False} for to in ("bool", "int8", "uint8")),
        dtype=_STORABLE,
        to=_STORABLE,
        shape=shapes(),
        named=_FLAG,
    ),
    *(
        _reduction(f"{name}{suffix}", _NUMBERS if name != "ReduceMean" else _FLOATS)
        for name in ("ReduceSum", "ReduceMean", "ReduceMax")
        for suffix in ("", "D")
    ),
    family(
        "SoftmaxV2",
        builders.softmax,
        (
            _LONG_ROW,
            # The same axes for shapes that differ in a 1.
            *({"shape": shape, "axes": (1,)} for shape in ((5, 1, 7), (5, 7), (5, 7, 1))),
        ),
        dtype=_FLOATS,
        shape=shapes(),
        axes=(None, (-1,), (0,), (1,), (-2,), (0, 1)),
    ),
    family(
        "LayerNorm",
        builders.layer_norm,
        dtype=_FLOATS,
        shape=((4, 1, 8), (3, 7), (2, 1, 1, 13), (2, 2053)),
        begin_norm_axis=(0, 1, 2, -1),
        begin_params_axis=(0, 1, 2, -1),
        epsilon=(None, 0.0, 1e-3),
    ),
    *(_matmul(name, "transpose_x1", "transpose_x2", bias=_FLAG) for name in ("MatMul", "MatMulV2")),
    family(
        "GEMM",
        builders.gemm,
        dtype=_FLOATS,
        extents=((4, 4, 4), (7, 5, 1), (1, 17, 2), (5, 1, 8)),
        transpose_a=_OPTIONAL_FLAG,
        transpose_b=_OPTIONAL_FLAG,
    ),
    *(
        _matmul(name, "adj_x1", "adj_x2", batch=((), (2,), (1,), (2, 3), (3, 1, 2)), narrow=_FLAG)
        for name in ("BatchMatMul", "BatchMatMulV2")
    ),
    *(
        family(
            name,
            builders.transpose,
            # Long lists that differ only at their end.
            tuple(
                {"shape": (2,) * 8, "perm": (1, 0, 2, 3, 4, 5, *last)} for last in ((6, 7), (7, 6))
            ),
            dtype=_STORABLE,
            shape=((2,) * 8, (2, 3, 2), (1, 2, 1, 3, 2, 2, 1, 2), (31, 17), (3,) * 6, (4,) * 4),
            perm=_order,
            **({} if name.endswith("D") else {"index": _INDEX}),
        )
        for name in ("Transpose", "TransposeD")
    ),
    family(
        "Reshape",
        builders.reshape,
        dtype=_STORABLE,
        shape=((4, 6), (24,), (2, 3, 4, 1), (1, 5, 12)),
        split=(1, 2, 4, 6, 12),
        index=_INDEX,
    ),
    family("Flatten", builders.flatten, dtype=_STORABLE, shape=shapes(), axis=(None, 0, 1, 2, -1)),
    family(
        "Conv2D",
        builders.conv,
        **_IMAGES,
        pads=((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 0, 0)),
        dilation=(1, 2),
        groups=(1, 2, 3),
        channels=(1, 3),
        bias=_FLAG,
    ),
    *(
        family(name, builders.pool, **_IMAGES, padding=("SAME", "VALID"))
        for name in ("MaxPool", "MaxPoolV3", "AvgPoolV2")
    ),
    family(
        "GlobalAveragePool",
        builders.global_pool,
        ({"dtype": "float16", "image": (3, 2053)},),
        dtype=_FLOATS,
        image=_IMAGES["image"],
    ),
    _unary("Erf"),
    family(
        "GeluV2",
        builders.unary("approximate"),
        dtype=_FLOATS,
        shape=shapes(),
        approximate=(None, "none", "tanh"),
    ),
    _binary("Pow", _FLOATS),
    *(_binary(name, build=builders.comparison) for name in ("Equal", "Less", "Greater")),
    _binary("SelectV2", build=builders.select),
    family("AccumulateNV2", builders.accumulate, dtype=_FLOATS, shape=shapes(), count=(1, 2, 3, 9)),
    family(
        "BatchNorm",
        builders.batch_norm,
        dtype=_FLOATS,
        shape=((2, 3, 5, 5), (1, 7, 1, 4), (3, 1, 8, 2), (1, 2, 1, 2053)),
        epsilon=(None, 1e-5, 1e-3),
    ),
    *(_reduction(name, _NUMBERS) for name in ("ReduceMin", "ReduceMinD")),
    *(
        family(
            name,
            build,
            # Many parts, of which only late ones differ.
            tuple(
                {"shape": (2, 3), "axis": 1, "extents": (*(1,) * 9, *last, 1, 1)}
                for last in ((1, 2), (2, 1))
            ),
            dtype=_STORABLE,
            shape=((2, 3, 4), (5,), (1, 2, 1, 3), (4, 4), (3, 1, 2, 2, 2)),
            axis=(0, 1, -1, -2),
            extents=((1, 2), (2, 1), (3,), (1, 1, 1), (5, 3)),
        )
        for name, build in (("ConcatD", builders.concat), ("SplitVD", builders.split))
    ),
    family(
        "GatherV2",
        builders.gather,
        dtype=_STORABLE,
        shape=((2, 3, 4), (5, 7), (3, 2, 1, 2), (31, 3)),
        axis=(0, 1, -1),
        places=((3,), (2, 2), (1,), (1, 3), (3, 1)),
        index=_INDEX,
    ),
    family(
        "UnsqueezeV3",
        builders.unsqueeze,
        dtype=_STORABLE,
        shape=((2, 3), (6,), (1, 2, 3), (2, 1, 2, 2)),
        axes=((0,), (1,), (-1,), (0, 2), (0, -1)),
    ),
    family(
        "BroadcastTo",
        builders.broadcast_to,
        dtype=_STORABLE,
        shape=((2, 3), (4, 1, 5), (2, 2, 2, 2), (3, 7)),
        narrow=((), (0,), (-1,), (0, 1)),
        lower=(0, 1, 2),
        index=_INDEX,
    ),
    family(
        "StridedSliceV2",
        builders.slice_,
        # Several constants, of which only the third or the fourth differs.
        tuple(
            {"shape": (4, 4), "axis": axis, "range": each}
            for axis, each in ((0, (3, -5, -1)), (1, (3, -5, -1)), (0, (0, 4, 2)), (0, (0, 4, 3)))
        ),
        dtype=_STORABLE,
        shape=((7, 5), (3, 8, 2), (13,), (2, 1, 9, 4)),
        axis=(0, 1, -1),
        range=((0, 2, 1), (1, 8, 2), (-2, 99, 1), (5, 0, -2), (0, 99, 3)),
        index=_INDEX,
    ),
    family(
        "Bucketize",
        builders.bucketize,
        tuple({"shape": (4, 31), "boundaries": each} for each in _LISTS),
        dtype=_FLOATS,
        shape=shapes(long=False),
        boundaries=((0.5,), (-0.5, 0.25, 1.0), _steps(20)),
        right=_FLAG,
    ),
    family(
        "LayerNormV4",
        builders.optional_layer_norm,
        # Either gamma or beta is left out, and the other one looks the same.
        tuple(
            {"shape": (3, 8), "dims": 1, "gamma": gamma, "beta": not gamma, "epsilon": None}
            for gamma in (True, False)
        ),
        dtype=("float16",),
        shape=((4, 1, 8), (3, 7), (2, 13)),
        dims=(1, 2),
        gamma=_FLAG,
        beta=_FLAG,
        epsilon=(None, 0.0, 1e-3),
    ),
    family(
        "PadV3",
        builders.pad,
        # Long constants that differ early, in the middle or late, and in no sum.
        tuple(
            {"dtype": "float16", "shape": shape, "paddings": _moved(2 * len(shape), place)}
            for shape, place in (
                *(((1, 2, 2, 1, 3), each) for each in (None, 0, 4, 8)),
                *(((1,) * 8, each) for each in (0, 14)),
            )
        ),
        dtype=_STORABLE,
        shape=((2, 3), (5,), (1, 2, 2), (2, 1, 3, 1)),
        paddings=((1, 1), (2, 0), (0, 2, 1, 1), (0, 0, 0, 1)),
        index=_INDEX,
    ),
)
"""One family for each type that has reference semantics."""
