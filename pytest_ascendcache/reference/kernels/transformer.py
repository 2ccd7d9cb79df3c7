"""Further operators of a transformer on an NPU, as ``aclnn`` calls dump them.

They are later versions of matrix products and LayerNorm, operators with a scalar attribute, gated
units, RMS normalisation, positions, and rotation by positions.
"""

from __future__ import annotations

from math import prod

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.elementwise import elementwise
from pytest_ascendcache.reference.kernels.layout import broadcast_strides, row_major
from pytest_ascendcache.reference.kernels.matrix import product
from pytest_ascendcache.reference.kernels.normalisation import average, moments
from pytest_ascendcache.reference.kernels.operator import NUMBERS, KernelContext
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value

for _name, _flags in (
    ("MatMulV3", ("transpose_x1", "transpose_x2")),
    ("BatchMatMulV3", ("adj_x1", "adj_x2")),
):
    register(_name, attributes=(*_flags, "offset_x", "enable_hf32", "opImplMode"), inputs=(2, 4))(
        product(*_flags)
    )


elementwise("Muls", attributes=("value",))(lambda op, x: x * op.number("value"))
elementwise("Adds", attributes=("value",))(lambda op, x: x + op.number("value"))


@register("Range", dtypes=NUMBERS, inputs=(3, 3))
def numbers_in_steps(op: KernelContext) -> None:
    """start + i * delta for each element of the declared output. Ignores input 1, the limit."""
    start, delta, y = op.input(0), op.input(2), op.output()
    for position in range(3):
        each = op.input(position)
        op.expect_dtype_of_first(each)
        if prod(each.shape) != 1:
            op.fail(f"has the shape {list(each.shape)} for {each.role}; give it one element")
    if len(y.shape) != 1:
        op.fail(f"declares the shape {list(y.shape)} for its output; declare one dimension")
    op.expect_shape(y, y.shape, start.dtype)
    trace = op.trace
    first, step = start.load(trace.index(0)), delta.load(trace.index(0))
    count = trace.variable(trace.word(0))
    with trace.nest(y.shape) as (place,):
        number = count.get()
        y.store(place, first + (number.to_float() if y.is_float else number) * step)
        count.set(number + 1)


@register("SwiGlu", attributes=("dim",))
def swish_gated(op: KernelContext) -> None:
    """a / (1 + e**-a) * b for the halves a and b of x along ``dim``, by default the last axis."""
    x, y = op.input(0), op.output()
    if not x.shape:
        op.fail("has a scalar input; give it at least 1 dimension")
    axis = op.axis("dim", len(x.shape), -1)
    half, odd = divmod(x.shape[axis], 2)
    if odd:
        op.fail(f"cannot halve the shape {list(x.shape)} along dim {axis}; make it even")
    made = (*x.shape[:axis], half, *x.shape[axis + 1 :])
    op.expect_shape(y, made, x.dtype)
    with op.trace.nest(made) as indices:
        first = op.offset(indices, x.strides)
        gate = x.load(first)
        other = x.load(first + half * x.strides[axis])
        y.store(op.offset(indices, row_major(made)), gate * f.sigmoid(gate) * other)


@register("RmsNorm", attributes=("epsilon",), inputs=(2, 2), outputs=(1, 2))
def rms_norm(op: KernelContext) -> None:
    """x / sqrt(mean of x**2 + epsilon) * gamma, over the dimensions of gamma.

    Outputs: y, then 1 / sqrt(...) for each row if declared.
    """
    x, gamma = op.input(0), op.input(1)
    rank, inner = len(x.shape), gamma.shape
    outer = x.shape[: rank - len(inner)]
    op.expect_shape(gamma, x.shape[len(outer) :], x.dtype)
    op.expect_shape(op.output(), x.shape, x.dtype)
    for each in op.outputs[1:]:
        op.expect_shape(each, outer + (1,) * len(inner))
    if not prod(inner):
        op.fail(f"has nothing to normalise in {list(x.shape)}; use positive extents")
    epsilon = op.number("epsilon", 1e-6)
    trace = op.trace
    with trace.nest(outer) as indices:
        first = op.offset(indices, x.strides[: len(outer)])

        def squared(place: Value) -> Value:
            value = x.load(first + place)
            return value * value

        mean = average(op, prod(inner), squared)
        root = 1.0 / (mean + epsilon).square_root()
        with trace.nest((prod(inner),)) as (place,):
            op.output().store(first + place, x.load(first + place) * root * gamma.load(place))
        for each in op.outputs[1:]:
            each.store(op.offset(indices, row_major(outer)), root)


@register("RotaryMul", inputs=(3, 3), attributes=("rotary_mode", "mode"))
def rotary(op: KernelContext) -> None:
    """x * r1 + (-x2, x1) * r2 for the halves x1 and x2 of x along its last axis."""
    x, cosine, sine = op.input(0), op.input(1), op.input(2)
    rank = len(x.shape)
    half, odd = divmod(x.shape[-1], 2) if x.shape else (0, 1)
    if odd:
        op.fail(f"cannot halve the last extent of {list(x.shape)}; make it even")
    op.text("rotary_mode", "half", ("half",))
    steps = []
    for each in (cosine, sine):
        op.expect_dtype_of_first(each)
        if len(each.shape) != rank or any(
            extent not in (1, own) for extent, own in zip(each.shape, x.shape, strict=True)
        ):
            op.fail(f"cannot broadcast {list(each.shape)} to {list(x.shape)}; make extents 1")
        steps.append(broadcast_strides(each.shape, rank))
    op.expect_shape(op.output(), x.shape, x.dtype)
    with op.trace.nest((*x.shape[:-1], half)) as indices:
        first = op.offset(indices, x.strides)
        low, high = x.load(first), x.load(first + half)
        for place, own, turned in ((0, low, -high), (half, high, low)):
            cos, sin = (
                each.load(op.offset(indices, step) + place * step[-1])
                for each, step in zip((cosine, sine), steps, strict=True)
            )
            op.output().store(first + place, own * cos + turned * sin)


def _layer_norm(op: KernelContext, inner: tuple[int, ...], epsilon: float, first: int) -> None:
    """Outputs y, mean and 1 / sqrt(variance + epsilon) over the last dimensions, ``inner``.

    gamma and beta are the inputs ``first`` and ``first + 1``, both optional.
    """
    x = op.input(0)
    outer = x.shape[: len(x.shape) - len(inner)]
    gamma, beta = op.optional_input(first), op.optional_input(first + 1)
    for each in (gamma, beta):
        if each is not None:
            op.expect_shape(each, inner)
    op.expect_shape(op.output(), x.shape, x.dtype)
    for made in op.outputs[1:]:
        op.expect_shape(made, outer + (1,) * len(inner))
    if tuple(x.shape[len(outer) :]) != tuple(inner) or not prod(inner):
        op.fail(f"cannot normalise {list(inner)} of {list(x.shape)}; name its last extents")
    trace, count = op.trace, prod(inner)
    with trace.nest(outer) as indices:
        start = op.offset(indices, x.strides[: len(outer)])
        mean, variance = moments(op, x, start, count)
        root = 1.0 / (variance + epsilon).square_root()
        with trace.nest((count,)) as (place,):
            result = (x.load(start + place) - mean) * root
            result = result * gamma.load(place) if gamma is not None else result
            result = result + beta.load(place) if beta is not None else result
            op.output().store(start + place, result)
        row = op.offset(indices, row_major(outer))
        for each, value in zip(op.outputs[1:], (mean, root), strict=False):
            each.store(row, value)


@register(
    "LayerNormV3",
    attributes=("begin_norm_axis", "begin_params_axis", "epsilon"),
    inputs=(3, 3),
    outputs=(1, 3),
)
def layer_norm_v3(op: KernelContext) -> None:
    """LayerNorm whose third output is 1 / sqrt(variance + epsilon)."""
    shape = op.input(0).shape
    first, other = (op.axis(f"begin_{name}_axis", len(shape), 0) for name in ("norm", "params"))
    if first != other:
        op.fail(f"has begin_norm_axis {first} and begin_params_axis {other}; use one for both")
    _layer_norm(op, shape[first:], op.number("epsilon", 1e-5), 1)


@register(
    "LayerNormV4",
    attributes=("epsilon",),
    inputs=(2, 4),
    outputs=(1, 3),
    constant_inputs=(1,),
)
def layer_norm_v4(op: KernelContext) -> None:
    """LayerNorm over ``normalized_shape``, the constant input 1; gamma and beta are optional."""
    inner = op.constant_integers(1, "normalized_shape")
    if inner is None:
        op.fail("lacks normalized_shape; connect input 1")
    _layer_norm(op, inner, op.number("epsilon", 1e-5), 2)
