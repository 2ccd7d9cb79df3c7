"""Operators that compute each output element from the input elements at the same position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan, pi, sqrt
from math import log as logarithm
from typing import Any

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.operator import NUMBERS, STORABLE, WIDE, KernelContext
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Type, Value, select

Formula = Callable[..., Value]

FORMULAS: dict[str, Formula] = {}
"""The formula of each operator with one input, by type."""


def elementwise(
    type_name: str, *, operands: int = 1, **fields: Any
) -> Callable[[Formula], Formula]:
    """Define an operator by its formula for one element: ``formula(context, *elements)``.

    ``fields`` are further ones of :class:`~.operator.OperatorDefinition`.
    """

    def decorate(formula: Formula) -> Formula:
        define = register(type_name, inputs=(operands, operands), **fields)
        define(lambda op: op.elementwise(partial(formula, op)))
        if operands == 1:
            FORMULAS[type_name] = formula
        return formula

    return decorate


for _name, _formula in (
    ("Neg", lambda _, x: -x),
    ("Square", lambda _, x: x * x),
):
    elementwise(_name, dtypes=(*NUMBERS, *WIDE))(_formula)
for _name, _formula in (
    ("Floor", lambda _, x: f.floor(x)),
    ("Ceil", lambda _, x: -f.floor(-x)),
    ("Rsqrt", lambda _, x: 1.0 / x.square_root()),
    ("Reciprocal", lambda _, x: 1.0 / x),
    ("Cos", lambda _, x: f.cos(x)),
    ("Sin", lambda _, x: f.sin(x)),
    ("Erf", lambda _, x: f.erf(x)),
    ("Sign", lambda _, x: select(x > 0.0, 1.0, select(x < 0.0, -1.0, x))),
    ("HardSwish", lambda _, x: _gate(x, f.clamp(x + 3.0, 0.0, 6.0) * (1.0 / 6.0))),
):
    elementwise(_name)(_formula)
for _name, _formula in (
    ("Sigmoid", lambda op, x: f.sigmoid(x) if op.precise else f.rough_sigmoid(x)),
    ("Tanh", lambda op, x: f.tanh(x) if op.precise else f.rough_tanh(x)),
):
    elementwise(_name, two_implementations=True)(_formula)
elementwise("Relu", dtypes=NUMBERS)(lambda _, x: select(x < 0, 0, x))


@elementwise("Abs", dtypes=(*NUMBERS, *WIDE))
def absolute(_: KernelContext, x: Value) -> Value:
    return x.absolute() if x.type is Type.FLOAT else select(x < 0, -x, x)


@elementwise("Sqrt", two_implementations=True)
def square_root(op: KernelContext, x: Value) -> Value:
    # The estimate starts from the exponent's bits, which are meaningless for infinity.
    return x.square_root() if op.precise else select(x < inf, x * f.rough_rsqrt(x), x)


@elementwise("Exp", attributes=("base", "scale", "shift"), two_implementations=True)
def exponential(op: KernelContext, x: Value) -> Value:
    """base**(scale * x + shift); the default base, -1, is e."""
    x = _affine(op, x) * _log_of_base(op)
    return f.exp(x) if op.precise else f.rough_exp(x)


@elementwise("Log", attributes=("base", "scale", "shift"))
def natural_logarithm(op: KernelContext, x: Value) -> Value:
    """log(scale * x + shift) to the base; the default base, -1, is e."""
    return f.log(_affine(op, x)) / _log_of_base(op)


def _affine(op: KernelContext, x: Value) -> Value:
    scale, shift = op.number("scale", 1.0), op.number("shift", 0.0)
    # Adding a shift of 0.0 anyway would turn -0.0 into 0.0.
    x = x if scale == 1.0 else x * scale
    return x if shift == 0.0 else x + shift


def _log_of_base(op: KernelContext) -> float:
    base = op.number("base", -1.0)
    if base == -1.0:
        return 1.0
    if base <= 0.0 or base == 1.0:
        op.fail(f"has {base} for the attribute base; use -1 for e or a positive base other than 1")
    return logarithm(base)


@elementwise("LeakyRelu", attributes=("negative_slope",))
def leaky_relu(op: KernelContext, x: Value) -> Value:
    return select(x > 0.0, x, x * op.number("negative_slope", 0.0))


@elementwise("Elu", attributes=("alpha", "scale", "input_scale"))
def elu(op: KernelContext, x: Value) -> Value:
    """scale * x for positive x, else scale * alpha * (e**(input_scale * x) - 1)."""
    scale = op.number("scale", 1.0)
    below = f.expm1(x * op.number("input_scale", 1.0)) * (op.number("alpha", 1.0) * scale)
    return select(x > 0.0, x * scale, below)


@elementwise("Softplus")
def softplus(_: KernelContext, x: Value) -> Value:
    """log(1 + e**x)."""
    positive = select(x < 0.0, 0.0, x)
    return positive + f.log1p(f.exp(-x.absolute()))


@elementwise("Swish", attributes=("scale",))
def swish(op: KernelContext, x: Value) -> Value:
    """x * sigmoid(scale * x)."""
    return _gate(x, f.sigmoid(x * op.number("scale", 1.0)))


@elementwise("Gelu", two_implementations=True)
def gelu(op: KernelContext, x: Value) -> Value:
    """x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2, computed by a sigmoid."""
    slope = 2.0 * sqrt(2.0 / pi)
    inner = x * (x * x * (0.044715 * slope) + slope)
    return _gate(x, f.sigmoid(inner) if op.precise else f.rough_sigmoid(inner))


@elementwise("GeluV2", attributes=("approximate",), two_implementations=True)
def gelu_v2(op: KernelContext, x: Value) -> Value:
    """x times the normal distribution's cumulative function, or ``approximate`` "tanh" as Gelu."""
    kind = op.text("approximate", "none", ("none", "tanh"))
    if kind == "tanh" or not op.precise:
        return gelu(op, x)
    return _gate(x, f.erfc(x * -sqrt(0.5)) * 0.5)


def _fast_gelu(op: KernelContext, x: Value) -> Value:
    """x * sigmoid(1.702 * x)."""
    inner = x * 1.702
    return _gate(x, f.sigmoid(inner) if op.precise else f.rough_sigmoid(inner))


elementwise("FastGelu", two_implementations=True)(_fast_gelu)
elementwise("FastGeluV2", two_implementations=True)(_fast_gelu)


@elementwise("Mish", two_implementations=True)
def mish(op: KernelContext, x: Value) -> Value:
    """x * tanh(log(1 + e**x)), as a quotient of polynomials in e**x, which does not cancel."""
    limited = select(x > 20.0, 20.0, x)
    if op.precise:
        power = f.exp(limited)
        inner = power * (power + 2.0)
        return _gate(x, inner / (inner + 2.0))
    power = f.rough_exp(limited)
    inner = power * (power + 2.0)
    return x * (inner * f.rough_reciprocal(inner + 2.0))


def _gate(x: Value, share: Value) -> Value:
    """x * share, which is zero instead of NaN if x is infinite and its share is zero."""
    nothing = f.copy_sign(x.trace.floating(0.0), x)
    return select(share.equals(0.0), nothing, x * share)


@elementwise("HardSigmoid", attributes=("alpha", "beta"))
def hard_sigmoid(op: KernelContext, x: Value) -> Value:
    """alpha * x + beta, clamped to 0 and 1."""
    line = x * op.number("alpha", 0.16666666) + op.number("beta", 0.5)
    return f.clamp(line, 0.0, 1.0)


@elementwise("Pow", operands=2)
def power(_: KernelContext, x: Value, y: Value) -> Value:
    """x**y; a negative x has only integral powers.

    The powers 0, 1/2, 1, 2 and 3 are computed directly, so they are correctly rounded or nearly so.
    """
    magnitude = f.exp(y * f.log(x.absolute()))
    odd = select((f.floor(y * 0.5) * 2.0).equals(y), magnitude, -magnitude)
    signed = select(f.floor(y).equals(y), odd, nan)
    result = select(x < 0.0, signed, magnitude)
    result = select(y.equals(0.5), x.square_root(), result)
    result = select(y.equals(3.0), x * x * x, result)
    result = select(y.equals(2.0), x * x, result)
    result = select(y.equals(1.0), x, result)
    return select(x.equals(1.0), 1.0, select(y.equals(0.0), 1.0, result))


for _name, _arithmetic in (
    ("Add", lambda _, x1, x2: x1 + x2),
    ("Sub", lambda _, x1, x2: x1 - x2),
    ("Mul", lambda _, x1, x2: x1 * x2),
    ("Maximum", lambda _, x, y: f.maximum(x, y) if x.type is Type.FLOAT else select(x > y, x, y)),
    ("Minimum", lambda _, x, y: f.minimum(x, y) if x.type is Type.FLOAT else select(x < y, x, y)),
):
    elementwise(_name, operands=2, dtypes=(*NUMBERS, *WIDE))(_arithmetic)


@elementwise("RealDiv", operands=2, two_implementations=True)
def real_divide(op: KernelContext, x1: Value, x2: Value) -> Value:
    if op.precise:
        return x1 / x2
    return select(x2.absolute() < inf, x1 * f.rough_reciprocal(x2), x1 / x2)


@register("BiasAdd", dtypes=NUMBERS, attributes=("data_format",), inputs=(2, 2))
def bias_add(op: KernelContext) -> None:
    """Add a vector along the channels: dimension 1 of NCHW, the last one of NHWC."""
    x, bias = op.input(0), op.input(1)
    op.expect_dtype_of_first(bias)
    formats = ("NHWC", "NCHW", "NDHWC", "NCDHW")
    default = x.desc.format if x.desc.format in formats else "NHWC"
    rank = len(x.shape)
    if rank < 2:
        op.fail(f"has the shape {list(x.shape)} for input 0; give it at least 2 dimensions")
    channel = 1 if op.text("data_format", default, formats).startswith("NC") else rank - 1
    op.expect_shape(bias, (x.shape[channel],))
    op.expect_shape(op.output(), x.shape, x.dtype)
    along = tuple(int(dimension == channel) for dimension in range(rank))
    op.walk(x.shape, [x.strides, along], lambda x, bias: x + bias)


_TYPES: dict[str | int, str] = {
    **dict.fromkeys(("DT_FLOAT", 0), "float32"),
    **dict.fromkeys(("DT_FLOAT16", 1), "float16"),
    **dict.fromkeys(("DT_INT8", 2), "int8"),
    **dict.fromkeys(("DT_INT32", 3), "int32"),
    **dict.fromkeys(("DT_UINT8", 4), "uint8"),
    **dict.fromkeys(("DT_INT64", 9), "int64"),
    **dict.fromkeys(("DT_BOOL", 12), "bool"),
}
"""Element types by GE's names and numbers, which are the values of Cast's ``dst_type``."""
_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}


@register("Cast", dtypes=(*STORABLE, *WIDE), attributes=("dst_type", "truncate"))
def cast(op: KernelContext) -> None:
    """Convert to the output's type.

    Integers are truncated towards zero and clipped to their range; NaN becomes 0.
    """
    target = op.output()
    type_ = op.spec.attribute("dst_type")
    name = None
    if type_ is not None:
        name = _TYPES.get(type_) if isinstance(type_, (str, int)) else None
        if name is None or isinstance(type_, bool):
            known = ", ".join(map(str, _TYPES))
            op.fail(f"has {type_!r} for the attribute dst_type; use one of {known}")
    op.expect_shape(target, op.input(0).shape, name)
    op.walk(target.shape, [target.strides], partial(_convert, op))


def _convert(op: KernelContext, x: Value) -> Value:
    target = op.output()
    if target.is_float:
        return x if x.type is Type.FLOAT else x.to_float()
    if target.dtype == "bool":
        false, true = op.trace.word(0), op.trace.word(1)
        return select(x.equals(0), false, true)
    if target.dtype == "int64":
        return _widened(op, x)
    if x.type is Type.INDEX:
        return f.clamp(x, *_RANGES[target.dtype]).to_word()
    if x.type is Type.FLOAT:
        fits = select(x.absolute() < 2.0**31, x, 0.0).to_word()
        word = select(x >= 2.0**31, 0x7FFFFFFF, fits)
        x = select(x <= -(2.0**31), 0x80000000, word)
    return x if target.dtype == "int32" else f.clamp(x, *_RANGES[target.dtype])


def _widened(op: KernelContext, x: Value) -> Value:
    if x.type is not Type.FLOAT:
        return x if x.type is Type.INDEX else x.to_index()
    fits = select(x.absolute() < 2.0**63, x, 0.0).to_index()
    number = select(x >= 2.0**63, op.trace.index(2**63 - 1), fits)
    return select(x <= -(2.0**63), op.trace.index(-(2**63)), number)
