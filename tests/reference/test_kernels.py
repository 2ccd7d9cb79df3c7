"""The reference toolchain's kernel compiler: numbers, bytes and messages.

Kernels are compiled here and run in child processes, so that no kernel can end the test run.
"""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import erf, erfc, pi
from pathlib import Path

import numpy as np
import pytest

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.reference.kernels import (
    SOCS,
    Implementation,
    KernelError,
    KernelOptions,
    UnsupportedOperator,
    UnsupportedSoc,
    build,
    compiler_version,
    fused_type,
    implementations,
    operator_types,
)
from pytest_ascendcache.reference.kernels.operator import MOVABLE
from pytest_ascendcache.reference.kernels.registry import definition

PRECISE, FAST = Implementation.HIGH_PRECISION, Implementation.HIGH_PERFORMANCE
SOC = "Ascend910B1"
Array = np.ndarray


def tensor(dtype: str, *shape: int, format: str = "ND") -> TensorDesc:
    return TensorDesc.of(dtype, *shape, format=format)


def constant(*values: int) -> TensorDesc:
    of = TensorDesc.of("int64", len(values))
    return TensorDesc(of.shape, of.dtype, is_const=True, const_value=values)


def operator(
    type: str, inputs: Sequence[TensorDesc], *outputs: TensorDesc, **attributes: object
) -> OperatorSpec:
    return OperatorSpec(
        type,
        tuple(inputs),
        outputs,
        tuple(Attribute(name, "", value) for name, value in attributes.items()),
    )


def unary(type: str, dtype: str, *shape: int, **attributes: object) -> OperatorSpec:
    return operator(type, [tensor(dtype, *shape)], tensor(dtype, *shape), **attributes)


# --- running ---------------------------------------------------------------------------------

CHILD = """
import ctypes, pickle, sys
import numpy as np
from pytest_ascendcache.reference.kernels.execute import LoadedKernel
jobs = pickle.load(sys.stdin.buffer)
results = []
for kind, code, symbol, inputs, outputs in jobs:
    if kind == "object":
        results.append(LoadedKernel(code, symbol).run(inputs, outputs))
    elif kind == "library":
        arrays = [*inputs, *(np.zeros(each.shape, each.dtype.numpy) for each in outputs)]
        pointers = (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))
        assert getattr(ctypes.CDLL(code), symbol)(pointers) == 0
        results.append(arrays[len(inputs):])
    else:
        results.append(LoadedKernel(code, symbol).call(inputs))
sys.stdout.buffer.write(pickle.dumps(results))
"""


def run(jobs: list[tuple]) -> list:
    child = subprocess.run(
        [sys.executable, "-c", CHILD], input=pickle.dumps(jobs), capture_output=True, timeout=60
    )
    assert child.returncode == 0, child.stderr.decode()
    return pickle.loads(child.stdout)


def job(spec: OperatorSpec, inputs: Sequence[Array], **options: object) -> tuple:
    kernel = build(spec, "k", KernelOptions(SOC, **options))
    return ("object", kernel.object, "k", list(inputs), list(spec.outputs))


def random_inputs(spec: OperatorSpec, seed: int = 0) -> list[Array]:
    generator = np.random.default_rng(seed)
    arrays = []
    for desc in spec.inputs:
        if desc.is_absent:
            continue
        if desc.is_const:
            arrays.append(np.array(desc.const_value, desc.dtype.numpy))
        elif desc.dtype.name.startswith("float"):
            arrays.append(generator.standard_normal(desc.shape).astype(desc.dtype.numpy))
        else:
            arrays.append(generator.integers(0, 2, desc.shape).astype(desc.dtype.numpy))
    return arrays


def same_bits(left: Sequence[Array], right: Sequence[Array]) -> bool:
    return [each.tobytes() for each in left] == [each.tobytes() for each in right]


# --- accuracy of element-wise functions --------------------------------------------------------


def sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


def gate(x: Array, share: Array) -> Array:
    """Return ``x * share``, and 0 where ``share`` is 0 even if ``x`` is infinite."""
    return np.where(share == 0, 0, x * share)


def mish(x: Array) -> Array:
    power = np.exp(np.minimum(x, 30))
    inner = power * (power + 2)
    return gate(x, inner / (inner + 2))


def gelu(x: Array) -> Array:
    return gate(x, sigmoid(2 * np.sqrt(2 / pi) * (x + 0.044715 * x**3)))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Sign": np.sign,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Square": np.square,
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Reciprocal": lambda x: 1 / x,
    "Exp": np.exp,
    "Log": np.log,
    "Relu": lambda x: np.maximum(x, 0),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0 * x),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Erf": np.vectorize(erf),
    "Cos": np.cos,
    "Sin": np.sin,
    "Softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "Swish": lambda x: gate(x, sigmoid(x)),
    "Gelu": gelu,
    "GeluV2": lambda x: gate(x, np.vectorize(erfc)(-x / np.sqrt(2)) / 2),
    "FastGelu": lambda x: gate(x, sigmoid(1.702 * x)),
    "FastGeluV2": lambda x: gate(x, sigmoid(1.702 * x)),
    "Mish": mish,
}
TWO_MODES = (
    *("Exp", "FastGelu", "FastGeluV2", "Gelu", "GeluV2"),
    *("Mish", "Sigmoid", "Sqrt", "Tanh"),
)
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)
FLOATS = (np.linspace(-9, 9, 50001)).astype(np.float32)


@dataclass(frozen=True)
class Measurement:
    """The results of a kernel for the inputs ``x``, and the exact values."""

    x: Array
    got: Array
    exact: Array

    @property
    def wrong_special_values(self) -> Array:
        """The inputs whose result wrongly is, or wrongly is not, NaN or an infinity."""
        with np.errstate(all="ignore"):
            rounded = self.exact.astype(self.got.dtype)
        both_nan = np.isnan(rounded) & np.isnan(self.got)
        special = ~np.isfinite(rounded) | ~np.isfinite(self.got)
        return self.x[special & ~both_nan & (rounded != self.got)]

    def ulp(self, within: float = np.inf) -> float:
        """Largest error in units in the last place, over finite results of |x| <= within."""
        format = np.finfo(self.got.dtype)
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(self.exact), float(format.tiny))
            unit = 2.0 ** (np.floor(np.log2(size)) - format.nmant)
            error = np.abs(self.got.astype(np.float64) - self.exact) / unit
            usable = np.isfinite(self.got) & np.isfinite(self.exact.astype(self.got.dtype))
            return float(error[usable & (np.abs(self.x) <= within)].max())


@pytest.fixture(scope="module")
def measurements() -> dict[tuple[str, str], Measurement]:
    """Measurements by operator type and one of "float16", "float32" and "fast".

    "fast" is float16 in high_performance mode.
    """
    keys, jobs, inputs = [], [], []
    for type in FUNCTIONS:
        for label, dtype, x, mode in (
            ("float16", "float16", HALVES, PRECISE),
            ("float32", "float32", FLOATS, PRECISE),
            ("fast", "float16", HALVES, FAST),
        ):
            if mode is FAST and type not in TWO_MODES:
                continue
            keys.append((type, label))
            inputs.append(x)
            jobs.append(job(unary(type, dtype, x.size), [x], implementation=mode))
    with np.errstate(all="ignore"):
        return {
            key: Measurement(x, got, FUNCTIONS[key[0]](x.astype(np.float64)))
            for key, x, (got,) in zip(keys, inputs, run(jobs), strict=True)
        }


class TestAccuracy:
    @pytest.mark.parametrize("type", FUNCTIONS)
    def test_every_half_within_half_a_unit(
        self, type: str, measurements: dict[tuple[str, str], Measurement]
    ) -> None:
        measured = measurements[type, "float16"]
        assert measured.ulp() <= 0.501
        assert measured.wrong_special_values.size == 0

    @pytest.mark.parametrize("type", FUNCTIONS)
    def test_float32_within_a_few_units(
        self, type: str, measurements: dict[tuple[str, str], Measurement]
    ) -> None:
        # The gates take the relative error of e**x, which grows with the argument.
        limit = 400 if type == "GeluV2" else 200 if "Gelu" in type else 8
        assert measurements[type, "float32"].ulp() <= limit

    @pytest.mark.parametrize("type", TWO_MODES)
    def test_high_performance_is_visibly_approximate(
        self, type: str, measurements: dict[tuple[str, str], Measurement]
    ) -> None:
        assert 1.5 < measurements[type, "fast"].ulp(within=2.0) < 40


def test_binary_operators_round_correctly_and_broadcast() -> None:
    generator = np.random.default_rng(7)
    words = generator.integers(0, 65536, (2, 300, 40), dtype=np.uint16).view(np.float16)
    cases = {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "RealDiv": np.divide,
        "Maximum": np.maximum,
        "Minimum": np.minimum,
    }
    shapes = [((300, 40), (300, 40)), ((300, 40), (1, 40)), ((300, 1), (40,)), ((40,), ())]
    jobs, expected = [], []
    with np.errstate(all="ignore"):
        for type, function in cases.items():
            for first, second in shapes:
                one = words[0].ravel()[: int(np.prod(first))].reshape(first)
                two = words[1].ravel()[: int(np.prod(second))].reshape(second)
                exact = function(one.astype(np.float64), two.astype(np.float64))
                spec = operator(
                    type,
                    [tensor("float16", *first), tensor("float16", *second)],
                    tensor("float16", *exact.shape),
                )
                jobs.append(job(spec, [one, two]))
                expected.append(exact.astype(np.float16))
    for (got,), want in zip(run(jobs), expected, strict=True):
        np.testing.assert_array_equal(got, want)


# --- one example of every operator type --------------------------------------------------------


def layer_norm(x: Array, gamma: Array, beta: Array) -> tuple[Array, Array, Array]:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-7) * gamma + beta, mean, variance


def later_layer_norm(x: Array, *weights: Array) -> tuple[Array, Array, Array]:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    root = 1 / np.sqrt(variance + 1e-5)
    gamma, beta = [each for each in weights if each.size == x.shape[-1]] or (1.0, 0.0)
    return (x - mean) * root * gamma + beta, mean, root


def rms_norm(x: Array, gamma: Array) -> tuple[Array, Array]:
    root = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    return x * root * gamma, root


def rotary(x: Array, cosine: Array, sine: Array) -> Array:
    low, high = np.split(x, 2, -1)
    return x * cosine + np.concatenate([-high, low], -1) * sine


def attention(layout: str, heads: int, scale: float) -> Callable[..., tuple[Array, ...]]:
    """Return an attention function for ``layout``, a value of the attribute ``input_layout``.

    It multiplies the softmax of the scaled products with the values.
    """
    order = [layout.replace("H", "ND").index(each) for each in "BNSD"]

    def split(x: Array, number: int) -> Array:
        if layout[-1] == "H":
            x = x.reshape(*x.shape[:-1], number, -1)
        return x.transpose(order)

    def function(q: Array, k: Array, v: Array, mask: Array | None = None) -> tuple[Array, ...]:
        query = split(q, heads)
        own = k.shape[-1] // query.shape[-1]
        key, value = (np.repeat(a, heads // a.shape[1], 1) for a in (split(k, own), split(v, own)))
        scores = query @ key.swapaxes(-1, -2) * scale
        if mask is not None:
            scores = np.where(mask != 0, -np.inf, scores)
        most = scores.max(-1, keepdims=True)
        powers = np.exp(scores - most)
        total = powers.sum(-1, keepdims=True)
        mixed = (powers / total @ value).transpose(np.argsort(order)).reshape(q.shape)
        return most.repeat(8, -1), total.repeat(8, -1), np.zeros(0), mixed

    return function


def gather(axis: int) -> Callable[..., Array]:
    return lambda x, places, _: np.take(x, places.astype(int), axis)


def swish_gated(x: Array) -> Array:
    first, second = np.split(x, 2, -1)
    return first * sigmoid(first) * second


def softmax(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def windows(x: Array, kernel: int, stride: int, pad: int, fill: float) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    return views[:, :, ::stride, ::stride]


def grouped_convolution(x: Array, filters: Array, bias: Array) -> Array:
    views = windows(x, 3, 2, 1, 0.0)
    halves = [
        np.einsum("nchwij,ocij->nohw", part, weight)
        for part, weight in zip(np.split(views, 2, 1), np.split(filters, 2, 0), strict=True)
    ]
    return np.concatenate(halves, 1) + bias[:, None, None]


Reference = Callable[..., object]


def examples(dtype: str) -> list[tuple[OperatorSpec, Reference]]:
    """Return specs, each with its reference function in float64."""

    def of(*shape: int, format: str = "ND") -> TensorDesc:
        return tensor(dtype, *shape, format=format)

    absent = TensorDesc.of("UNDEFINED", format="RESERVED")
    pair = [of(6, 10), of(10)]
    image = of(2, 3, 7, 7, format="NCHW")
    slide = {"ksize": (1, 1, 3, 3), "strides": (1, 1, 2, 2)}
    norm = [of(5, 24), of(24), of(24)]
    normed = [of(5, 24), of(5, 1), of(5, 1)]
    cases: list[tuple[OperatorSpec, Reference]] = [
        (operator("Add", pair, of(6, 10)), np.add),
        (operator("Sub", pair, of(6, 10)), np.subtract),
        (operator("Mul", pair, of(6, 10)), np.multiply),
        (operator("RealDiv", pair, of(6, 10)), np.divide),
        (operator("Maximum", pair, of(6, 10)), np.maximum),
        (operator("Minimum", pair, of(6, 10)), np.minimum),
        (
            operator("BiasAdd", [of(2, 3, 4, format="NCHW"), of(3)], of(2, 3, 4)),
            lambda x, bias: x + bias[:, None],
        ),
        (operator("BiasAdd", [of(2, 3, 4), of(4)], of(2, 3, 4)), np.add),
        (operator("Cast", [of(33)], tensor("float32", 33), dst_type=0), lambda x: x),
        (operator("ReduceSum", [of(4, 5, 6), constant(0, -1)], of(5)), lambda x, _: x.sum((0, 2))),
        (operator("ReduceSumD", [of(4, 5, 6)], of(4, 1, 6), axes=(1,), keep_dims=True),
         lambda x: x.sum(1, keepdims=True)),
        (operator("ReduceMean", [of(4, 5, 6)], of(4, 5), axes=(2,)), lambda x: x.mean(2)),
        (operator("ReduceMeanD", [of(4, 5, 6)], of()), np.mean),
        (operator("ReduceMax", [of(4, 50)], of(4), axes=(1,)), lambda x: x.max(1)),
        (operator("ReduceMaxD", [of(4, 50)], of(50), axes=(0,)), lambda x: x.max(0)),
        (operator("ReduceMin", [of(4, 50)], of(4), axes=(1,)), lambda x: x.min(1)),
        (operator("ReduceMinD", [of(4, 50)], of(50), axes=(0,)), lambda x: x.min(0)),
        (unary("SoftmaxV2", dtype, 4, 60), softmax),
        (unary("SoftmaxV2", dtype, 4, 5, 6, axes=(0, 2)), lambda x: softmax(x, (0, 2))),
        (unary("LogSoftmaxV2", dtype, 4, 60), lambda x: np.log(softmax(x))),
        (operator("LayerNorm", norm, *normed, begin_norm_axis=1, begin_params_axis=1), layer_norm),
        (operator("MatMul", [of(5, 16), of(16, 7)], of(5, 7)), np.matmul),
        (
            operator("MatMulV2", [of(16, 5), of(7, 16), of(7)], of(5, 7),
                     transpose_x1=True, transpose_x2=True),
            lambda x, y, bias: x.T @ y.T + bias,
        ),
        (operator("BatchMatMul", [of(3, 5, 16), of(16, 7)], of(3, 5, 7)), np.matmul),
        (
            operator("GEMM", [of(16, 5), of(7, 16), of(5, 7), of(1), of(1)], of(5, 7),
                     transpose_a=True, transpose_b=True),
            lambda a, b, c, alpha, beta: alpha * (a.T @ b.T) + beta * c,
        ),
        (
            operator("BatchMatMulV2", [of(1, 4, 5, 8), of(3, 1, 6, 8)], of(3, 4, 5, 6),
                     adj_x2=True),
            lambda x, y: x @ y.swapaxes(-1, -2),
        ),
        (
            operator(
                "Conv2D", [of(2, 4, 7, 7, format="NCHW"), of(6, 2, 3, 3), of(6)], of(2, 6, 4, 4),
                strides=(1, 1, 2, 2), pads=(1, 1, 1, 1), groups=2,
            ),
            grouped_convolution,
        ),
        (
            operator(
                "Conv2D", [of(1, 6, 6, 2, format="NHWC"), of(3, 3, 2, 5, format="HWCN"), absent],
                of(1, 2, 2, 5), strides=(1, 1, 1, 1), pads=(0, 0, 0, 0), dilations=(1, 2, 2, 1),
            ),
            lambda x, w: np.einsum(
                "nhwcij,ijco->nhwo",
                np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(1, 2))[..., ::2, ::2],
                w,
            ),
        ),
        (operator("MaxPool", [image], of(2, 3, 4, 4), padding="SAME", **slide),
         lambda x: windows(x, 3, 2, 1, -np.inf).max((-1, -2))),
        (operator("MaxPoolV3", [image], of(2, 3, 4, 4), pads=(1, 1, 1, 1), **slide),
         lambda x: windows(x, 3, 2, 1, -np.inf).max((-1, -2))),
        (operator("AvgPool", [image], of(2, 3, 3, 3), padding="VALID", **slide),
         lambda x: windows(x, 3, 2, 0, 0).mean((-1, -2))),
        (operator("AvgPoolV2", [image], of(2, 3, 4, 4), pads=(1, 1, 1, 1), **slide),
         lambda x: np.nanmean(windows(x, 3, 2, 1, np.nan), (-1, -2))),
        (operator("AvgPoolV2", [image], of(2, 3, 4, 4), pads=(1, 1, 1, 1), exclusive=False,
                  **slide), lambda x: windows(x, 3, 2, 1, 0).mean((-1, -2))),
        (operator("GlobalAveragePool", [image], of(2, 3, 1, 1)),
         lambda x: x.mean((2, 3), keepdims=True)),
        (operator("Transpose", [of(2, 3, 4), constant(2, 0, 1)], of(4, 2, 3)),
         lambda x, _: x.transpose(2, 0, 1)),
        (operator("TransposeD", [of(2, 3, 4)], of(3, 2, 4), perm=(1, 0, 2)),
         lambda x: x.transpose(1, 0, 2)),
        (operator("Reshape", [of(2, 6)], of(3, 4)), lambda x: x.reshape(3, 4)),
        (operator("Flatten", [of(2, 3, 4)], of(2, 12)), lambda x: x.reshape(2, 12)),
    ]  # fmt: skip

    def weights(*rows: int) -> list[TensorDesc]:
        return [tensor("float32", *rows, 8), tensor("float32", *rows, 8), of(0)]

    heads, one_head = of(2, 3, 5, 8), of(2, 1, 5, 8)
    cases += [
        (operator("MatMulV3", [of(5, 16), of(7, 16), of(7), absent], of(5, 7), transpose_x2=True),
         lambda x, y, bias: x @ y.T + bias),
        (operator("BatchMatMulV3", [of(2, 5, 16), of(2, 16, 7)], of(2, 5, 7)), np.matmul),
        (operator("Muls", [of(6, 10)], of(6, 10), value=0.25), lambda x: x * 0.25),
        (operator("Adds", [of(6, 10)], of(6, 10), value=1.5), lambda x: x + 1.5),
        (operator("SwiGlu", [of(3, 14)], of(3, 7)), swish_gated),
        (operator("RmsNorm", [of(5, 24), of(24)], of(5, 24), tensor("float32", 5, 1)), rms_norm),
        (operator("RotaryMul", [heads, one_head, one_head], heads), rotary),
        (operator("GatherV2", [of(2, 6), tensor("int64", 3, 5), constant(0)], of(3, 5, 6)),
         gather(0)),
        (operator("GatherV2", [of(4, 2, 3), tensor("int32", 7), constant(-2)], of(4, 7, 3),
                  batch_dims=0), gather(1)),
        (operator("ConcatD", [of(2, 3, 4), of(2, 1, 4), of(2, 5, 4)], of(2, 9, 4),
                  concat_dim=-2, N=3), lambda *x: np.concatenate(x, 1)),
        (operator("ConcatD", [of(7), of(2)], of(9), concat_dim=0), lambda *x: np.concatenate(x)),
        (operator("SelectV2", [tensor("bool", 5, 5), of(2, 3, 5, 5), of()], of(2, 3, 5, 5)),
         lambda chosen, x, y: np.where(chosen, x, y)),
        (operator("MaskedFill", [of(2, 3, 5), tensor("bool", 3, 1), of()], of(2, 3, 5)),
         lambda x, mask, value: np.where(mask, value, x)),
        (operator("Triu", [of(2, 5, 4)], of(2, 5, 4), diagonal=1), lambda x: np.triu(x, 1)),
        (operator("Triu", [of(3, 6)], of(3, 6)), np.triu),
        (operator("Tril", [of(5, 4)], of(5, 4), diagonal=-1), lambda x: np.tril(x, -1)),
        (operator("Range", [of(), of(), of(1)], of(9)),
         lambda start, _, delta: start + np.arange(9) * delta),
        (operator("FlashAttentionScore", [of(2, 3, 5, 8), of(2, 3, 7, 8), of(2, 3, 7, 8)],
                  *weights(2, 3, 5), of(2, 3, 5, 8), head_num=3, input_layout="BNSD",
                  scale_value=0.35), attention("BNSD", 3, 0.35)),
        (operator("FlashAttentionScore",
                  [of(2, 5, 32), of(2, 7, 16), of(2, 7, 16), absent, absent, absent,
                   tensor("bool", 2, 1, 5, 7)],
                  *weights(2, 4, 5), of(2, 5, 32), head_num=4, input_layout="BSH"),
         attention("BSH", 4, 1.0)),
        (operator("LayerNormV3", norm, *normed, begin_norm_axis=1, begin_params_axis=1),
         later_layer_norm),
        (operator("LayerNormV4", [of(5, 24), constant(24), of(24), of(24)], *normed),
         later_layer_norm),
        (operator("LayerNormV4", [of(5, 24), constant(24)], *normed), later_layer_norm),
        *of_models(dtype),
    ]  # fmt: skip
    unaries = [(unary(type, dtype, 7, 9), function) for type, function in FUNCTIONS.items()]
    return cases + unaries


def of_models(dtype: str) -> list[tuple[OperatorSpec, Callable[..., object]]]:
    """Return the operators that nodes of ONNX models become, each with its reference function."""

    def of(*shape: int) -> TensorDesc:
        return tensor(dtype, *shape)

    truth, pair = tensor("bool", 3, 5), [of(3, 5), of(5)]
    cases: list[tuple[OperatorSpec, Callable[..., object]]] = [
        (operator(kind, pair, truth), function)
        for kind, function in (
            ("Equal", np.equal), ("Less", np.less), ("LessEqual", np.less_equal),
            ("Greater", np.greater), ("GreaterEqual", np.greater_equal),
        )
    ]  # fmt: skip
    reshaped = (lambda x, *_: x.reshape(3, 1, 5)), (lambda x, *_: x.reshape(3, 5))
    return [
        *cases,
        (operator("LogicalAnd", [truth, tensor("bool", 5)], truth), np.logical_and),
        (operator("LogicalOr", [truth, tensor("bool", 5)], truth), np.logical_or),
        (operator("LogicalNot", [truth], truth), np.logical_not),
        (operator("IsNan", [of(3, 5)], truth), np.isnan),
        (operator("SelectV2", [tensor("bool", 3, 1), *pair], of(3, 5)), np.where),
        (operator("ClipByValue", [of(3, 5), of(), of(5)], of(3, 5)),
         lambda x, low, high: np.where(np.maximum(x, low) > high, high, np.maximum(x, low))),
        (operator("AccumulateNV2", [*pair, of(3, 5)], of(3, 5), N=3), lambda a, b, c: a + b + c),
        (operator("Pow", pair, of(3, 5)), np.power),
        (operator("HardSigmoid", [of(3, 5)], of(3, 5), alpha=0.25, beta=0.5),
         lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
        (operator("HardSwish", [of(3, 5)], of(3, 5)), lambda x: x * np.clip(x + 3, 0, 6) / 6),
        (operator("BatchNorm", [of(2, 3, 5), *[of(3)] * 4], of(2, 3, 5), epsilon=2.0),
         lambda x, g, b, m, v: (x - m[:, None]) / np.sqrt(v[:, None] + 2) * g[:, None]
         + b[:, None]),
        (operator("Identity", [of(3, 5)], of(3, 5)), lambda x: x),
        (operator("Unsqueeze", [of(3, 5)], of(3, 1, 5), axes=(1,)), reshaped[0]),
        (operator("UnsqueezeV3", [of(3, 5), constant(1)], of(3, 1, 5)), reshaped[0]),
        (operator("Squeeze", [of(3, 1, 5)], of(3, 5), axis=(1,)), reshaped[1]),
        (operator("SqueezeV3", [of(3, 1, 5), constant(1)], of(3, 5)), reshaped[1]),
        *((operator(kind, [of(3, 1), constant(2, 3, 5)], of(2, 3, 5)),
           lambda x, _: np.broadcast_to(x, (2, 3, 5))) for kind in ("BroadcastTo", "Expand")),
        (operator("ConcatD", [of(3, 2), of(3, 5)], of(3, 7), concat_dim=1, N=2),
         lambda a, b: np.concatenate([a, b], 1)),
        (operator("SplitVD", [of(3, 7)], of(3, 2), of(3, 5), size_splits=(2, 5), split_dim=-1,
                  num_split=2), lambda x: (x[:, :2], x[:, 2:])),
        (operator("StridedSliceV2", [of(4, 7), constant(1, 6), constant(4, -8), constant(0, 1),
                                     constant(2, -3)], of(2, 3)), lambda x, *_: x[1:4:2, 6::-3]),
        (operator("TileD", [of(3, 2)], of(6, 6), multiples=(2, 3)), lambda x: np.tile(x, (2, 3))),
        (operator("PadV3", [of(2, 3), constant(1, 0, 2, 1), of(1)], of(3, 6)),
         lambda x, _, value: np.pad(x, ((1, 0), (2, 1)), constant_values=value[0])),
        (operator("Bucketize", [of(3, 5)], tensor("int32", 3, 5), boundaries=(-0.5, 0.0, 1.0)),
         lambda x: np.searchsorted((-0.5, 0.0, 1.0), x, side="right")),
    ]  # fmt: skip


EXAMPLES = [spec for dtype in ("float16", "float32") for spec, _ in examples(dtype)]


def test_every_operator_type_has_an_example() -> None:
    assert {spec.type for spec in EXAMPLES} == set(operator_types())


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_results_match_numpy(dtype: str) -> None:
    cases = [
        (spec, function, random_inputs(spec))
        for spec, function in examples(dtype)
        if spec.type not in FUNCTIONS
    ]
    results = run([job(spec, inputs) for spec, _, inputs in cases])
    relative = 2.0**-11 * 1.01 if dtype == "float16" else 3e-6
    with np.errstate(all="ignore"):
        for (spec, function, inputs), got in zip(cases, results, strict=True):
            want = function(*(each.astype(np.float64) for each in inputs))
            wants = want if isinstance(want, tuple) else (want,)
            for each, exact in zip(got, wants, strict=True):
                np.testing.assert_allclose(each, exact, relative, 1e-6, err_msg=str(spec))


def test_whatever_is_moved_is_moved_with_all_its_bits() -> None:
    """This includes 64-bit elements, such as the positions in a transformer's mask."""
    moving = {kind for kind in operator_types() if definition(kind).dtypes == MOVABLE} - {"Cast"}
    assert {"ConcatD", "Transpose", "PadV3", "Triu", "GatherV2"} <= moving
    generator = np.random.default_rng(2)
    cases = []
    for spec, function in examples("int64"):
        if spec.type in moving:
            inputs = random_inputs(spec)
            for place, each in enumerate(spec.inputs):
                if each.dtype.name == "int64" and not each.is_const and spec.type != "GatherV2":
                    inputs[place] = generator.integers(-(2**63), 2**63 - 1, each.shape, np.int64)
            cases.append((spec, function, inputs))
    assert {spec.type for spec, *_ in cases} == moving
    results = run([job(spec, inputs) for spec, _, inputs in cases])
    for (spec, function, inputs), got in zip(cases, results, strict=True):
        want = function(*inputs)
        for each, exact in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_array_equal(each, exact, err_msg=str(spec))


def test_optimisation_tuning_and_checks_never_change_results() -> None:
    tuned = {"tuning": {"tile": 3}, "optimise": False}
    checked = {"tuning": {"tile": 4}, "debug_info": True, "check_arguments": True}
    jobs, plain = [], []
    for number, spec in enumerate(EXAMPLES[: len(EXAMPLES) // 2]):
        inputs = random_inputs(spec, seed=1)
        for mode in implementations(spec):
            first = len(jobs)
            variants = [{}, {"optimise": False}]
            variants += [tuned] if number % 2 else [checked] if number % 8 == 0 else []
            jobs += [job(spec, inputs, implementation=mode, **each) for each in variants]
            plain += [first] * len(variants)
    results = run(jobs)
    for expected, result in zip(plain, results, strict=True):
        assert same_bits(results[expected], result)


def test_high_performance_reductions_are_visibly_and_boundedly_off() -> None:
    cases = [
        (operator("ReduceMean", [tensor("float16", 8, extent)], tensor("float16", 8), axes=(1,)),
         lambda x: x.mean(1))
        for extent in (64, 2048, 16381)
    ] + [
        (unary("SoftmaxV2", "float16", 8, 512), softmax),
        (operator("MatMul", [tensor("float16", 8, 512), tensor("float16", 512, 8)],
                  tensor("float16", 8, 8)), np.matmul),
    ]  # fmt: skip
    for spec, function in cases:
        inputs = [np.abs(each) for each in random_inputs(spec)]
        exact = function(*(each.astype(np.float64) for each in inputs))
        precise, fast = run([job(spec, inputs, implementation=each) for each in (PRECISE, FAST)])
        assert np.max(np.abs(precise[0] - exact) / exact) < 2.0**-11 * 1.01
        assert 2.0**-10 < np.max(np.abs(fast[0] - exact) / exact) < 32 * 2.0**-10


def test_a_long_sum_of_high_performance_does_not_stop_growing() -> None:
    zeros = np.zeros((1, 8192), np.float16)
    spec = unary("SoftmaxV2", "float16", 1, 8192)
    (((shares,),)) = run([job(spec, [zeros], implementation=FAST)])
    assert abs(shares.astype(float).sum() - 1) < 2.0**-5


def test_cast_between_types() -> None:
    halves = np.array([0.0, -0.0, 1.9, -1.9, np.inf, -np.inf, np.nan, 65504], np.float16)
    floats = np.array([3e9, -3e9, 2147483520, -2147483648, 0.4, np.nan, 70000, 1e-8], np.float32)
    words = np.array([0, 1, -1, 2049, 65519, 65520, -(2**31), 2**31 - 1], np.int32)
    longs = np.array([0, -1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2049, 7], np.int64)
    wide = np.array([2.0**62, -np.inf, 1e30, -(2.0**63), 0.4, np.nan, 70000, 1.9], np.float32)
    low, high = -(2**31), 2**31 - 1
    cases = [
        (halves, "int32", [0, 0, 1, -1, high, low, 0, 65504]),
        (floats, "int32", [high, low, 2147483520, low, 0, 0, 70000, 0]),
        (words, "float16", [0, 1, -1, 2048, 65504, np.inf, -np.inf, np.inf]),
        (words, "float32", words.astype(np.float32)),
        (floats, "float16", [np.inf, -np.inf, np.inf, -np.inf, 0.4, np.nan, np.inf, 0]),
        (halves, "bool", [False, False, True, True, True, True, True, True]),
        (halves, "uint8", [0, 0, 1, 0, 255, 0, 0, 255]),
        (words, "int8", [0, 1, -1, 127, 127, 127, -128, 127]),
        (words.astype(np.int8), "int32", words.astype(np.int8)),
        (words.astype(np.uint8), "float16", words.astype(np.uint8)),
        (longs, "float32", longs.astype(np.float32)),
        (longs, "int32", [0, -1, high, low, high, low, 2049, 7]),
        (longs, "uint8", [0, 0, 255, 0, 255, 0, 255, 7]),
        (longs, "bool", longs != 0),
        (words, "int64", words),
        (words.astype(np.int8), "int64", words.astype(np.int8)),
        (wide, "int64", [2**62, -(2**63), 2**63 - 1, -(2**63), 0, 0, 70000, 1]),
    ]
    jobs = [
        job(operator("Cast", [tensor(str(x.dtype), 8)], tensor(dtype, 8)), [x])
        for x, dtype, _ in cases
    ]
    for (got,), (_, dtype, want) in zip(run(jobs), cases, strict=True):
        np.testing.assert_array_equal(got, np.array(want).astype(dtype))


@pytest.mark.parametrize(("dtype", "bits"), [("int32", 32), ("int64", 64)])
def test_integer_arithmetic(dtype: str, bits: int) -> None:
    x = np.array([[5, -7, 2 ** (bits - 1) - 1], [0, -(2 ** (bits - 1)), 3]], dtype)
    y = np.array([3, -9, 1], dtype)
    words = tensor(dtype, 2, 3)
    cases = [
        ("Add", np.add),
        ("Sub", np.subtract),
        ("Mul", np.multiply),
        ("Maximum", np.maximum),
        ("Minimum", np.minimum),
    ]
    jobs = [job(operator(type, [words, tensor(dtype, 3)], words), [x, y]) for type, _ in cases]
    jobs += [job(unary(type, dtype, 2, 3), [x]) for type in ("Abs", "Neg", "Square")]
    jobs += [
        job(operator(type, [words, tensor(dtype, 3)], tensor("bool", 2, 3)), [x, y])
        for type in ("Equal", "Less", "LessEqual")
    ]
    with np.errstate(over="ignore"):
        expected = [function(x, y) for _, function in cases] + [np.abs(x), -x, x * x]
        expected += [x == y, x < y, x <= y]
        if dtype == "int32":
            reduced = tensor(dtype, 2)
            jobs += [
                job(operator(type, [words], reduced, axes=(1,)), [x])
                for type in ("ReduceMax", "ReduceMin", "ReduceSum")
            ]
            expected += [x.max(1), x.min(1), x.sum(1, dtype=np.int32)]
    for (got,), want in zip(run(jobs), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_empty_and_scalar_tensors() -> None:
    empty = job(unary("Square", "float16", 0, 4), [np.zeros((0, 4), np.float16)])
    scalar = job(unary("Square", "float32"), [np.array(3, np.float32)])
    nothing = operator("ReduceSumD", [tensor("float16", 3, 0)], tensor("float16", 3), axes=(1,))
    results = run([empty, scalar, job(nothing, [np.zeros((3, 0), np.float16)])])
    assert [each[0].tolist() for each in results] == [[], 9.0, [0.0, 0.0, 0.0]]


def test_attributes_are_folded() -> None:
    x = np.array([-2.0, -0.5, 0.5, 2.0], np.float32)
    cases = [
        (unary("LeakyRelu", "float32", 4, negative_slope=0.5), np.where(x > 0, x, x / 2)),
        (unary("Exp", "float32", 4, base=2.0, shift=1.0), 2 ** (x + 1)),
        (unary("Log", "float32", 4, base=10.0, scale=2.0, shift=5.0), np.log10(2 * x + 5)),
        (unary("Swish", "float32", 4, scale=2.0), x * sigmoid(2 * x)),
        (unary("GeluV2", "float32", 4, approximate="tanh"), gelu(x)),
    ]
    for (got,), (_, want) in zip(run([job(spec, [x]) for spec, _ in cases]), cases, strict=True):
        np.testing.assert_allclose(got, want, 2e-6)


# --- bytes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Elf:
    """The parts of an ELF64 object that the tests check."""

    machine: int
    sections: dict[str, bytes]
    symbols: dict[str, int]
    """The section index of each symbol by its name; 0 means undefined."""

    @classmethod
    def parse(cls, data: bytes) -> Elf:
        assert data[:6] == b"\x7fELF\x02\x01"
        machine = struct.unpack_from("<H", data, 18)[0]
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count, names_at = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * n) for n in range(count)]
        bodies = [b"" if each[1] == 8 else data[each[4] : each[4] + each[5]] for each in headers]
        sections = {
            cls._text(bodies[names_at], header[0]): body
            for header, body in zip(headers, bodies, strict=True)
        }
        symbols = {}
        for header, body in zip(headers, bodies, strict=True):
            if header[1] == 2:
                for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", body):
                    symbols[cls._text(bodies[header[6]], name)] = section
        return cls(machine, sections, symbols)

    @staticmethod
    def _text(table: bytes, start: int) -> str:
        return table[start : table.index(b"\0", start)].decode()


@pytest.mark.parametrize(("architecture", "machine"), [("x86_64", 62), ("aarch64", 183)])
@pytest.mark.parametrize("optimise", [False, True])
def test_objects_need_no_other_symbol(architecture: str, machine: int, optimise: bool) -> None:
    halves = [spec for spec, _ in examples("float16")]
    for spec in halves[::4] if optimise else EXAMPLES:
        for mode in implementations(spec):
            options = KernelOptions(SOC, architecture, mode, optimise)
            elf = Elf.parse(build(spec, "te_kernel", options).object)
            assert elf.machine == machine
            assert elf.symbols["te_kernel"] != 0
            assert [name for name, section in elf.symbols.items() if name and not section] == []


GELU = unary("Gelu", "float16", 8, 128)


def object_of(spec: OperatorSpec = GELU, **options: object) -> bytes:
    return build(spec, "k", KernelOptions(**{"soc": SOC, **options})).object


def test_every_option_changes_the_bytes() -> None:
    variants = [
        {},
        {"soc": "Ascend910B2"},
        {"soc": "Ascend310P3"},
        {"architecture": "aarch64" if object_of()[18] == 62 else "x86_64"},
        {"implementation": FAST},
        {"optimise": False},
        {"debug_info": True},
        {"check_arguments": True},
        {"tuning": {"tile": 16}},
        {"tuning": {"tile": 32}},
    ]
    assert len({object_of(**each) for each in variants}) == len(variants)


def test_the_soc_is_recorded() -> None:
    for soc in SOCS:
        comment = Elf.parse(object_of(soc=soc, optimise=False)).sections[".comment"]
        assert f"{soc}\0".encode() in comment


def test_the_name_of_a_node_does_not_matter() -> None:
    assert object_of(GELU.named("here")) == object_of(GELU.named("there"))


def test_debug_information_points_at_the_dump() -> None:
    kernel = build(GELU, "te_gelu", KernelOptions(SOC, debug_info=True))
    elf = Elf.parse(kernel.object)
    strings = b"".join(elf.sections.values())
    assert b"te_gelu.cce\0" in strings
    assert elf.sections[".debug_line"]
    assert os.fsencode(Path.cwd()) not in kernel.object
    assert ".debug_line" not in Elf.parse(object_of()).sections


FRESH = """
import hashlib, pickle, sys
from pytest_ascendcache.reference.kernels import KernelOptions, build
digests = {}
for name, spec, options in pickle.load(sys.stdin.buffer):
    kernel = build(spec, "k", options)
    digests[name] = hashlib.sha256(kernel.object + kernel.source.encode()).hexdigest()
assert "numpy" not in sys.modules
print(sorted(digests.items()))
"""


def test_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    requests = [
        (f"{number} {optimise} {debug}", spec, KernelOptions(SOC, "", FAST, optimise, debug))
        for number, spec in enumerate(EXAMPLES[::6])
        for optimise, debug in ((False, True), (True, False))
    ]
    answers = set()
    for seed, order, directory in (("0", 1, tmp_path), ("1", -1, Path.cwd()), ("77", 1, Path("/"))):
        child = subprocess.run(
            [sys.executable, "-c", FRESH],
            input=pickle.dumps(requests[::order]),
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=directory,
            timeout=60,
        )
        assert child.returncode == 0, child.stderr.decode()
        answers.add(child.stdout)
    assert len(answers) == 1


def test_compiler_version_names_both_parts() -> None:
    llvm, llvmlite = compiler_version().split(", ")
    assert llvm.startswith("LLVM ")
    assert llvmlite.startswith("llvmlite ")


# --- source ------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc, the second compiler, is missing")
def test_the_dump_is_c_that_computes_the_same(tmp_path: Path) -> None:
    chosen = ("Exp", "Log", "Tanh", "GeluV2", "Mish", "Floor", "SoftmaxV2", "LayerNorm", "MaxPool")
    files, jobs = [], []
    for number, spec in enumerate(EXAMPLES):
        if spec.type not in chosen or (spec.inputs[0].dtype.name == "float32" and number % 2):
            continue
        mode = implementations(spec)[-1 if number % 2 else 0]
        kernel = build(spec, f"k{number}", KernelOptions(SOC, "", mode, check_arguments=True))
        (tmp_path / f"{number}.c").write_text(kernel.source, encoding="utf-8")
        files.append(f"{number}.c")
        inputs = random_inputs(spec, seed=2)
        common = (f"k{number}", inputs, list(spec.outputs))
        jobs.append(("object", kernel.object, *common))
        jobs.append(("library", str(tmp_path / "kernels.so"), *common))
    subprocess.run(
        [
            *("gcc", "-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unused"),
            *("-shared", "-fPIC", "-o", "kernels.so", *files, "-lm"),
        ],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    results = run(jobs)
    assert len(results) == 2 * len(files)
    for number in range(0, len(results), 2):
        assert same_bits(results[number], results[number + 1]), jobs[number][2:]


def test_locations_lead_to_the_definition() -> None:
    kernel = build(unary("Square", "float32", 4), "k", KernelOptions(SOC))
    lines = kernel.source.splitlines()
    (product,) = [each for each in kernel.locations if " * f" in lines[each.line - 1]]
    assert product.file == "reference/kernels/elementwise.py"
    package = Path(sys.modules["pytest_ascendcache"].__file__ or "").parent
    definition = (package / product.file).read_text(encoding="utf-8").splitlines()
    assert definition[product.python_line - 1].strip() == '("Square", lambda _, x: x * x),'


def test_unusable_pointers_are_refused_before_anything_is_touched() -> None:
    kernel = build(unary("Square", "float32", 4), "k", KernelOptions(SOC, check_arguments=True))
    addresses = [[0, 4096], [4096, 0], [4097, 4096], [4096, 4098]]
    assert run([("call", kernel.object, "k", each, []) for each in addresses]) == [1, 1, 1, 1]


# --- refused operators -------------------------------------------------------------------------

HALF = tensor("float16", 4)

REFUSED = [
    (unary("Exp", "float32", 10**12, 10**12), "which no card's memory holds; give 68719476736"),
    (unary("Sqr", "float16", 4), "operator type 'Sqr' has no kernel here; use Sqrt"),
    (unary("Exp", "int8", 4), "has no kernel for int8 (input 0); use float16 or float32"),
    (unary("Exp", "float16", -1, 4), "has the dynamic shape [-1, 4] for input 0"),
    (operator("Add", [HALF], HALF), "has 1 input(s); give it 2"),
    (operator("Add", [HALF, tensor("float16", 3)], HALF), "cannot broadcast the shapes [4] and"),
    (operator("Add", [HALF, tensor("float32", 4)], HALF), "use one type for both"),
    (operator("Exp", [HALF], tensor("float16", 5)), "declares shape [5] for output 0"),
    (operator("Exp", [HALF], tensor("float32", 4)), "declares float32 for output 0"),
    (unary("Relu", "float16", 4, slope=1.0), "does not know the attribute 'slope'"),
    (unary("LeakyRelu", "float16", 4, negative_slope="1"), "has '1' for the attribute"),
    (unary("Exp", "float16", 4, base=0.0), "has 0.0 for the attribute base"),
    (unary("GeluV2", "float16", 4, approximate="x"), "use one of none, tanh"),
    (unary("SoftmaxV2", "float16", 4, axes=(3,)), "has axes [3], but input 0 has 1 dimensions"),
    (operator("TransposeD", [HALF], HALF), "lacks perm"),
    (operator("TransposeD", [HALF], HALF, perm=(1,)), "use a permutation"),
    (operator("Transpose", [HALF, tensor("int64", 1)], HALF), "input 1 is not constant"),
    (operator("Reshape", [HALF], tensor("float16", 5)), "cannot turn [4] into [5]"),
    (operator("MatMul", [tensor("float16", 2, 3)] * 2, tensor("float16", 2, 2)),
     "cannot multiply [2, 3] and [2, 3]"),
    (operator("Conv2D", [tensor("float16", 1, 2, 4, 4)] * 2, HALF), "lacks the required attribute"),
    (operator("MaxPool", [tensor("float16", 1, 2, 4, 4)], HALF, ksize=(1, 1, 9, 9),
              strides=(1, 1, 1, 1), padding="VALID"), "has a window of 9 over H=4"),
    (operator("Cast", [HALF], HALF, dst_type=77), "has 77 for the attribute dst_type"),
    (operator("Cast", [HALF], HALF, dst_type="DT_FLOAT"), "declare float32"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), REFUSED, ids=lambda each: str(each)[:40])
def test_unsupported_operators_are_named_in_one_sentence(spec: OperatorSpec, message: str) -> None:
    with pytest.raises(UnsupportedOperator) as error:
        build(spec, "k", KernelOptions(SOC))
    text = str(error.value)
    assert message in text
    assert text.endswith(".")
    assert "\n" not in text


def test_unknown_targets_and_symbols_are_refused() -> None:
    with pytest.raises(UnsupportedSoc, match=r"SoC 'Ascend9' .* use one of Ascend310"):
        build(GELU, "k", KernelOptions("Ascend9"))
    with pytest.raises(UnsupportedSoc, match="architecture 'riscv64'"):
        build(GELU, "k", KernelOptions(SOC, "riscv64"))
    with pytest.raises(KernelError, match="symbol 'a b' is not a C identifier"):
        build(GELU, "a b", KernelOptions(SOC))


# --- implementations --------------------------------------------------------


def test_two_implementations_only_for_listed_types_with_float16() -> None:
    assert implementations(unary("Sqrt", "float16", 4)) == (PRECISE, FAST)
    assert implementations(unary("Sqrt", "float32", 4)) == (PRECISE,)
    assert implementations(unary("Relu", "float16", 4)) == (PRECISE,)
    with pytest.raises(UnsupportedOperator):
        implementations(unary("Nonesuch", "float16", 4))


def test_a_single_implementation_ignores_the_mode() -> None:
    for spec in (unary("Relu", "float16", 8), unary("Exp", "float32", 8)):
        assert object_of(spec, implementation=FAST) == object_of(spec)


# --- fused operators -----------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "error"), [("float32", 3e-6), ("float16", 2.0**-10)])
def test_a_fused_kernel_does_what_its_parts_do(dtype: str, error: float) -> None:
    x, bias = tensor(dtype, 4, 8), tensor(dtype, 5)
    product = operator(
        fused_type("MatMulV2", "Relu"), [x, tensor(dtype, 8, 5), bias], tensor(dtype, 4, 5)
    )
    normed = operator(
        fused_type("Add", "LayerNorm"), [x, x, tensor(dtype, 8), tensor(dtype, 8)], x, x,
        begin_norm_axis=1, epsilon=1e-5,
    )  # fmt: skip
    inputs = [random_inputs(each) for each in (product, normed)]
    (made,), (y, total) = run([job(*each) for each in zip((product, normed), inputs, strict=True)])
    a, b, c = (each.astype(np.float64) for each in inputs[0])
    np.testing.assert_allclose(made, np.maximum(a @ b + c, 0), error, error)
    one, two, gamma, beta = (each.astype(np.float64) for each in inputs[1])
    exact = one + two
    np.testing.assert_allclose(total, exact, error, error)
    spread = np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    exact = (exact - exact.mean(1, keepdims=True)) / spread * gamma + beta
    np.testing.assert_allclose(y, exact, error, error)
