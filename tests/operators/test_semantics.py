"""Reference semantics against values computed by hand, and the unit of error (ulp)."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc, data_type
from pytest_ascendcache.operators.semantics import (
    OPERATOR_TYPES,
    UnknownOperator,
    evaluate,
    has_semantics,
    sample_inputs,
    ulp_error,
)

NCHW = "NCHW"


def attributes(values):
    kinds = {bool: "bool", int: "int", float: "float", str: "string", tuple: "list_int"}
    return tuple(Attribute(name, kinds[type(value)], value) for name, value in values.items())


def operator(kind, *inputs, outputs=(), format="ND", **values):
    """Return a spec for input arrays. ``outputs`` are the declared (dtype, shape) pairs."""
    tensors = tuple(
        TensorDesc.of(
            str(each.dtype).replace("float64", "double"),
            *each.shape,
            format=format if each.ndim == 4 else "ND",
        )
        for each in inputs
    )
    declared = tuple(TensorDesc.of(dtype, *shape) for dtype, shape in outputs)
    return OperatorSpec(kind, tensors, declared or tensors[:1], attributes(values))


def run(kind, *inputs, outputs=(), **values):
    arrays = [np.asarray(each, None if hasattr(each, "dtype") else np.float32) for each in inputs]
    return evaluate(operator(kind, *arrays, outputs=outputs, **values), arrays)[0]


def test_every_type_is_named_here_or_in_a_fixture():
    assert {"Add", "Conv2D", "LayerNorm", "SoftmaxV2"} <= OPERATOR_TYPES
    assert len(OPERATOR_TYPES) == 66


SIGMOID_OF_1 = 1 / (1 + math.exp(-1))


@pytest.mark.parametrize(
    ("kind", "values", "x", "expected"),
    [
        ("Abs", {}, [-2, 0, 3], [2, 0, 3]),
        ("Neg", {}, [-2, 0, 3], [2, 0, -3]),
        ("Square", {}, [-3, 0.5], [9, 0.25]),
        ("Sqrt", {}, [4, 2.25], [2, 1.5]),
        ("Rsqrt", {}, [4, 0.25], [0.5, 2]),
        ("Reciprocal", {}, [4, -0.5], [0.25, -2]),
        ("Exp", {}, [0, 1], [1, math.e]),
        ("Exp", {"base": 2.0, "scale": 0.5, "shift": 1.0}, [4, -2], [8, 1]),
        ("Log", {}, [1, math.e], [0, 1]),
        ("Log", {"base": 2.0, "scale": 2.0, "shift": 2.0}, [3, 15], [3, 5]),
        ("Relu", {}, [-2, 0, 3], [0, 0, 3]),
        ("LeakyRelu", {}, [-2, 3], [0, 3]),
        ("LeakyRelu", {"negative_slope": 0.25}, [-2, 3], [-0.5, 3]),
        ("Sigmoid", {}, [0, 1, -1], [0.5, SIGMOID_OF_1, 1 - SIGMOID_OF_1]),
        ("Tanh", {}, [0, 1], [0, (math.e**2 - 1) / (math.e**2 + 1)]),
        ("Swish", {}, [0, 1, -1], [0, SIGMOID_OF_1, SIGMOID_OF_1 - 1]),
        ("Swish", {"scale": 2.0}, [0.5], [SIGMOID_OF_1 / 2]),
        ("FastGelu", {}, [0, 2], [0, 2 / (1 + math.exp(-3.404))]),
        ("FastGelu", {}, [-2], [-2 / (1 + math.exp(3.404))]),
        # Mish(1) = tanh(ln(1 + e)); (1 + e) squared is 13.8256...
        ("Mish", {}, [0, 1, 100], [0, ((1 + math.e) ** 2 - 1) / ((1 + math.e) ** 2 + 1), 100]),
        # This is the tanh form; the erf form would give 0.8413447 for 1.
        ("Gelu", {}, [0, 1, -1], [0, 0.8411919906082768, -0.15880800939172324]),
        ("GeluV2", {}, [0, 1, -1], [0, 0.8413447460685429, -0.15865525393145707]),
        ("GeluV2", {"approximate": "tanh"}, [1], [0.8411919906082768]),
        ("Erf", {}, [0, 1, -1], [0, 0.8427007929497149, -0.8427007929497149]),
        ("ReduceMinD", {"axes": (0,)}, [3, -1, 2], -1),
        ("Bucketize", {"boundaries": (0.0, 1.0, 2.0)}, [-1, 0, 1.5, 2, 9], [0, 1, 2, 3, 3]),
        ("Bucketize", {"boundaries": (0.0, 1.0), "right": False}, [0, 1, 2], [0, 1, 2]),
        ("SplitVD", {"size_splits": (2, 1), "split_dim": 0}, [4, 5, 6], [4, 5]),
    ],
)
def test_one_input(kind, values, x, expected):
    np.testing.assert_allclose(run(kind, x, **values), expected, rtol=1e-7)


def test_gelu_keeps_its_digits_in_the_tail():
    """Here ``1 + tanh(u)`` is exactly 0 in float64, but the value of Gelu is not."""
    u = math.sqrt(2 / math.pi) * (8 + 0.044715 * 512)
    assert run("Gelu", [-8.0])[0] == pytest.approx(-8 * math.exp(-2 * u), rel=1e-12, abs=0)
    assert 1 + math.tanh(-u) == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Add", [[3, 0], [5, 2]]),
        ("Sub", [[-1, 2], [1, 4]]),
        ("Mul", [[2, -1], [6, -3]]),
        ("RealDiv", [[0.5, -1], [1.5, -3]]),
        ("Maximum", [[2, 1], [3, 3]]),
        ("Minimum", [[1, -1], [2, -1]]),
        ("Equal", [[0, 0], [0, 0]]),
        ("Less", [[1, 0], [0, 0]]),
        ("Greater", [[0, 1], [1, 1]]),
        ("Pow", [[1, 1], [9, 1 / 3]]),
    ],
)
def test_two_inputs_broadcast(kind, expected):
    assert run(kind, [[1.0], [3.0]], [2.0, -1.0]).tolist() == expected


@pytest.mark.parametrize(
    ("format", "values", "expected"),
    [
        ("NCHW", {}, [10, 10, 20, 20]),
        ("NHWC", {}, [10, 20, 10, 20]),
        ("ND", {}, [10, 20, 10, 20]),
        ("ND", {"data_format": "NCHW"}, [10, 10, 20, 20]),
    ],
)
def test_bias_add_finds_the_channels(format, values, expected):
    result = run("BiasAdd", np.zeros((1, 2, 1, 2)), [10.0, 20.0], format=format, **values)
    assert result.ravel().tolist() == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("int8", [-1, 1, 127, -128]),
        ("uint8", [0, 1, 255, 0]),
        ("bool", [1, 1, 1, 1]),
        ("float16", [-1.75, 1.75, 300, -300]),
    ],
)
def test_cast(target, expected):
    result = run("Cast", [-1.75, 1.75, 300, -300], outputs=[(target, (4,))])
    assert result.tolist() == expected


X = np.arange(1.0, 7).reshape(2, 3)


@pytest.mark.parametrize(
    ("kind", "axes", "keep", "expected"),
    [
        ("ReduceSum", (1,), False, [6, 15]),
        ("ReduceSum", (0,), True, [[5, 7, 9]]),
        ("ReduceMean", (-1,), False, [2, 5]),
        ("ReduceMax", (0, 1), False, 6),
    ],
)
def test_reductions_take_axes_as_attribute_or_input(kind, axes, keep, expected):
    assert run(f"{kind}D", X, axes=axes, keep_dims=keep).tolist() == expected
    assert run(kind, X, np.array(axes, np.int64), keep_dims=keep).tolist() == expected


def _whole(*numbers):
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("kind", "inputs", "values", "expected"),
    [
        ("ConcatD", [X, X[:, :1]], {"concat_dim": -1}, [[1, 2, 3, 1], [4, 5, 6, 4]]),
        ("GatherV2", [X, _whole(2, 0), _whole(1)], {}, [[3, 1], [6, 4]]),
        ("GatherV2", [X, _whole(1), _whole(0)], {}, [[4, 5, 6]]),
        ("UnsqueezeV3", [X, _whole(0, -1)], {}, [[[[1], [2], [3]], [[4], [5], [6]]]]),
        ("BroadcastTo", [X[:, :1], _whole(2, 2)], {}, [[1, 1], [4, 4]]),
        ("StridedSliceV2", [X, *map(_whole, (2, -4, 1, -2))], {}, [[3, 1], [6, 4]]),
        ("SelectV2", [X > 2, X, np.array([0.0])], {}, [[0, 0, 3], [4, 5, 6]]),
        ("AccumulateNV2", [X, X, np.ones((1, 3))], {"N": 3}, [[3, 5, 7], [9, 11, 13]]),
        # (x - mean) / sqrt(variance + epsilon) * scale + offset, for each channel.
        (
            "BatchNorm",
            [X, *(np.array(each) for each in ([2, 2, 2], [0, 1, 0], [1, 1, 1], [3, 8, 3]))],
            {"epsilon": 1.0, "is_training": False},
            [[0, 1 + 2 / 3, 2], [3, 1 + 8 / 3, 5]],
        ),
    ],
)
def test_parts_of_models(kind, inputs, values, expected):
    inputs = [each.astype(np.float32) if each.dtype == np.float64 else each for each in inputs]
    np.testing.assert_allclose(run(kind, *inputs, **values), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # Only rows and columns 1, 2 and 3 count, not the borders.
        ({"pads": (1, 0, 1, 0)}, [[1, 1.5, 2.5], [2.5, 3, 4], [5.5, 6, 7]]),
        (
            {"pads": (1, 0, 1, 0), "exclusive": False},
            [[0.25, 0.75, 1.25], [1.25, 3, 4], [2.75, 6, 7]],
        ),
        ({"global_pooling": True}, [[5]]),
    ],
)
def test_average_pool_counts_what_is_there(values, expected):
    image = np.arange(1.0, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    options = {"ksize": (1, 1, 2, 2), "strides": (1, 1, 1, 1), **values}
    assert run("AvgPoolV2", image, format=NCHW, **options)[0, 0].tolist() == expected
    assert run("GlobalAveragePool", image, format=NCHW)[0, 0].tolist() == [[5]]


def test_softmax():
    x = [[0.0, math.log(3)], [1000.0, 1000.0]]
    np.testing.assert_allclose(run("SoftmaxV2", x), [[0.25, 0.75], [0.5, 0.5]], rtol=1e-7)
    np.testing.assert_allclose(run("SoftmaxV2", x, axes=(0,))[1], [1, 1], rtol=1e-7)


def test_layer_norm():
    x, gamma, beta = np.array([[1.0, 3], [2, 6]]), np.array([1.0, 2]), np.array([0.0, 10])
    spec = operator(
        "LayerNorm",
        x,
        gamma,
        beta,
        outputs=[("float32", (2, 2)), ("float32", (2, 1)), ("float32", (2, 1))],
        begin_norm_axis=1,
        begin_params_axis=-1,
        epsilon=3.0,
    )
    y, mean, variance = evaluate(spec, [x, gamma, beta])
    assert mean.tolist() == [[2], [4]]
    assert variance.tolist() == [[1], [4]]
    # (x - mean) / sqrt(variance + 3): -1/2, 1/2 and -2/sqrt 7, 2/sqrt 7.
    np.testing.assert_allclose(y, [[-0.5, 11], [-2 / 7**0.5, 10 + 4 / 7**0.5]])


A, B = np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([[1.0, 0, 2], [0, 1, 3]])


@pytest.mark.parametrize("kind", ["MatMul", "MatMulV2"])
def test_matmul(kind):
    expected = [[1, 2, 8], [3, 4, 18], [5, 6, 28]]
    assert run(kind, A, B).tolist() == expected
    assert run(kind, A.T, B, transpose_x1=True).tolist() == expected
    assert run(kind, A, B.T, transpose_x2=True).tolist() == expected
    assert run(kind, A, B, np.array([1.0, 0, -8]))[0].tolist() == [2, 2, 0]


@pytest.mark.parametrize("kind", ["BatchMatMul", "BatchMatMulV2"])
def test_batch_matmul_broadcasts_its_batches(kind):
    first, second = np.stack([A, 10 * A]), B.T[np.newaxis]
    result = run(kind, first, second, adj_x2=True)
    assert result[1].tolist() == [[10, 20, 80], [30, 40, 180], [50, 60, 280]]
    assert run(kind, first.swapaxes(1, 2), second, adj_x1=True, adj_x2=True).shape == (2, 3, 3)


def test_an_absent_bias_is_no_bias():
    absent = TensorDesc((), data_type("UNDEFINED"), "RESERVED")
    spec = operator("MatMulV2", A, B)
    spec = OperatorSpec(spec.type, (*spec.inputs, absent, absent), spec.outputs)
    assert evaluate(spec, [A, B])[0].tolist() == run("MatMulV2", A, B).tolist()
    assert len(sample_inputs(spec, 0)) == 2


def test_shapes_alone():
    x = np.arange(24.0).reshape(2, 3, 4)
    assert run("TransposeD", x, perm=(2, 0, 1))[3, 1, 2] == x[1, 2, 3]
    assert run("Transpose", x, np.array([2, 0, 1])).shape == (4, 2, 3)
    assert run("Reshape", x, np.array([4, -1])).tolist() == x.reshape(4, 6).tolist()
    assert run("Reshape", x, outputs=[("double", (8, 3))]).shape == (8, 3)
    assert run("Flatten", x).shape == (2, 12)
    assert [run("Flatten", x, axis=axis).shape for axis in (0, 2, -1, 3)] == [
        (1, 24),
        (6, 4),
        (6, 4),
        (24, 1),
    ]


def convolved(x, weight, strides, pads, dilations, groups):
    """Compute a convolution by its definition, one output element at a time."""
    top, bottom, left, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    count, channels, height, width = weight.shape
    rows = (x.shape[2] - (height - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (x.shape[3] - (width - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((len(x), count, rows, columns))
    for n, o, i, j in np.ndindex(y.shape):
        first = o // (count // groups) * channels
        for c, h, w in np.ndindex(channels, height, width):
            pixel = x[
                n, first + c, i * strides[0] + h * dilations[0], j * strides[1] + w * dilations[1]
            ]
            y[n, o, i, j] += pixel * weight[o, c, h, w]
    return y


@pytest.mark.parametrize(
    ("strides", "pads", "dilations", "groups"),
    [
        ((1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((2, 1), (1, 0, 2, 1), (1, 1), 1),
        ((1, 2), (2, 2, 0, 3), (2, 3), 1),
        ((2, 2), (1, 1, 1, 1), (1, 2), 2),
        ((1, 1), (1, 1, 1, 1), (1, 1), 4),
    ],
)
def test_conv2d(strides, pads, dilations, groups):
    x = np.arange(2 * 4 * 7 * 8.0).reshape(2, 4, 7, 8) % 11
    weight = np.arange(4 * (4 // groups) * 3 * 2.0).reshape(4, 4 // groups, 3, 2) % 7 - 3
    bias = np.array([1.0, -1, 5, 0])
    result = run(
        "Conv2D",
        x,
        weight,
        bias,
        format=NCHW,
        strides=(1, 1, *strides),
        pads=pads,
        dilations=(1, 1, *dilations),
        groups=groups,
    )
    expected = convolved(x, weight, strides, pads, dilations, groups)
    np.testing.assert_array_equal(result, expected + bias[:, None, None])


ROW = np.array([-5.0, -1, -3, -2, -4, -9]).reshape(1, 1, 1, 6)


@pytest.mark.parametrize(
    ("kind", "size", "stride", "values", "expected"),
    [
        ("MaxPool", 2, 2, {"padding": "VALID"}, [-1, -2, -4]),
        ("MaxPool", 4, 4, {"padding": "VALID"}, [-1]),
        ("MaxPool", 3, 2, {"padding": "SAME"}, [-1, -2, -4]),
        ("MaxPool", 3, 1, {"padding": "SAME"}, [-1, -1, -1, -2, -2, -4]),
        ("MaxPoolV3", 3, 2, {}, [-1, -2]),
        ("MaxPoolV3", 3, 2, {"pads": (0, 0, 1, 1)}, [-1, -1, -2]),
        ("MaxPoolV3", 3, 2, {"ceil_mode": True}, [-1, -2, -4]),
        ("MaxPoolV3", 1, 5, {"pads": (0, 0, 0, 1), "ceil_mode": True}, [-5, -9]),
        ("MaxPoolV3", 3, 2, {"padding_mode": "VALID"}, [-1, -2]),
        ("MaxPoolV3", 3, 2, {"global_pooling": True}, [-1]),
    ],
)
def test_max_pool_never_takes_its_padding(kind, size, stride, values, expected):
    result = run(kind, ROW, format=NCHW, ksize=(1, 1, 1, size), strides=(1, 1, 1, stride), **values)
    assert result.ravel().tolist() == expected


def test_a_float_attribute_is_what_atc_stores():
    assert run("LeakyRelu", [-1.0], negative_slope=0.1)[0] == -float(np.float32(0.1))


def test_division_by_zero_is_silent():
    assert run("RealDiv", [1.0, -1.0], [0.0, 0.0]).tolist() == [math.inf, -math.inf]
    assert math.isnan(run("Sqrt", [-1.0])[0])


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        (
            OperatorSpec("Fft", (), ()),
            "Fft(): no reference semantics; known are Abs, AccumulateNV2, Add",
        ),
        (operator("Abs", np.ones(2, np.complex64)), "complex64 has no numpy counterpart"),
        (operator("Conv2D", *[np.ones((1, 1, 1, 1))] * 2, format="NHWC"), "NHWC is not NCHW"),
        (operator("MaxPool", np.ones((1, 1, 1, 1)), data_format="NHWC"), "layout NHWC"),
        (operator("Reshape", X, np.ones(1), axis=1), "axis and num_axes"),
        (operator("MatMulV2", A, B, offset_x=1), "quantised by offset_x"),
        (operator("MatMulV2", A, B, A, B), "input 3 has no reference semantics"),
    ],
)
def test_unknown_operators_say_why(spec, part):
    assert not has_semantics(spec)
    for call in (lambda: evaluate(spec, []), lambda: sample_inputs(spec, 0)):
        with pytest.raises(UnknownOperator) as error:
            call()
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("spec", "inputs", "part"),
    [
        (operator("Add", X, X), [X], "1 arrays for 2 connected inputs"),
        (operator("Add", X), [X], "1 inputs are connected; connect the first 2"),
        (operator("Abs", X), [X.T], "input 0 has shape [3, 2], not [2, 3]"),
        (operator("ReduceSumD", X), [X], "attribute axes is missing"),
        (operator("ReduceSumD", X, axes=()), [X], "it has no axes"),
        (operator("ReduceSumD", X, axes=(2,)), [X], "axis 2 is out of bounds"),
        (operator("ReduceSumD", X, axes="1"), [X], "axes is '1'; write a list of integers"),
        (operator("ReduceSumD", X, axes=(0,), keep_dims=1), [X], "write true or false"),
        (operator("Flatten", X, axis=3), [X], "axis 3 is out of range for rank 2"),
        (operator("Flatten", X, axis=1.5), [X], "axis is 1.5; write an integer"),
        (operator("Swish", X, scale="1"), [X], "scale is '1'; write a number"),
        (operator("Exp", X, base=-2.0), [X], "base is -2.0"),
        (operator("LayerNorm", X, X, X), [X, X, X[0]], "input 2 has shape [3], not [2, 3]"),
        (operator("LayerNorm", X, X, X[0]), [X, X, X[0]], "do not have the shape of x"),
        (operator("MatMul", A, A), [A, A], "mismatch"),
    ],
)
def test_what_does_not_fit_is_said(spec, inputs, part):
    with pytest.raises(ValueError, match=r"^\w+\(") as error:
        evaluate(spec, inputs)
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"ksize": (1, 1, 2)}, "ksize has 3 elements; write 4"),
        ({"ksize": (1, 2, 1, 1)}, "ksize is [1, 2, 1, 1]; write [1, 1, h, w]"),
        ({"padding_mode": "FULL"}, "padding is 'FULL'"),
    ],
)
def test_windows_that_do_not_fit_are_said(values, part):
    values = {"ksize": (1, 1, 1, 2), "strides": (1, 1, 1, 1), **values}
    with pytest.raises(ValueError, match="MaxPoolV3") as error:
        run("MaxPoolV3", ROW, format=NCHW, **values)
    assert part in str(error.value)


def test_conv2d_names_channels_that_do_not_fit():
    with pytest.raises(ValueError, match="3 channels in 1 groups do not fit"):
        run(
            "Conv2D",
            np.ones((1, 3, 2, 2)),
            np.ones((2, 2, 1, 1)),
            strides=(1, 1, 1, 1),
            pads=(0, 0, 0, 0),
        )


def test_integers_are_exact_or_refused():
    assert run("Abs", np.array([-(2**53)]))[0] == 2.0**53
    with pytest.raises(ValueError, match="integer that float64 cannot hold"):
        run("Abs", np.array([2**53 + 1]))
    with pytest.raises(ValueError, match="input 0 is complex64; give real numbers"):
        evaluate(operator("Abs", np.ones(1)), [np.ones(1, np.complex64)])


@pytest.mark.parametrize(
    ("measured", "exact", "error"),
    [
        # float16 has 10 fraction bits: 1 + 2**-10 follows 1.
        (1.0, 1.0, 0),
        (1.0009765625, 1.0, 1),
        (0.99951171875, 1.0, 0.5),
        (2048, 2050, 1),
        (-1.0, 1.0, 2048),
        (0.0, -0.0, 0),
        # The smallest subnormal is 2**-24. It is also the unit at zero and everywhere below 2**-14.
        (2.0**-24, 0.0, 1),
        (2.0**-24, 2.0**-25, 0.5),
        (2.0**-14, 2.0**-14 - 2.0**-24, 1),
        # 65504 is the largest number. 65536 would follow, so 65520 and more round to infinity.
        (math.inf, 65520.0, 0.5),
        (math.inf, 65504.0, 1),
        (math.inf, 65536.0, 0),
        (math.inf, 1e9, 0),
        (-math.inf, 1e9, (65536 + 1e9) / 2**5),
        (65504, 65536 + 32, 2),
        (math.inf, math.inf, 0),
        (-math.inf, -math.inf, 0),
        (65504, math.inf, math.inf),
        (-math.inf, math.inf, math.inf),
        (math.nan, math.nan, 0),
        (math.nan, 1.0, math.inf),
        (1.0, math.nan, math.inf),
        (math.inf, math.nan, math.inf),
        (math.inf, -1.0, 2**26 + 2**10),
    ],
)
def test_ulp_of_float16(measured, exact, error):
    result = ulp_error(np.array([measured], np.float16), np.array([exact]))
    assert result.tolist() == [error]


def test_ulp_of_float32():
    measured = np.array([1 + 2.0**-23, 2.0**-149, math.inf, 3.4028234663852886e38], np.float32)
    exact = np.array([1, 0, 2.0**128, 2.0**128])
    assert ulp_error(measured, exact).tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_correctly_rounded_result_is_half_an_ulp_away(dtype):
    generator = np.random.default_rng(7)
    exact = generator.standard_normal(20000) * 2.0 ** generator.integers(-160, 130, 20000)
    with np.errstate(over="ignore"):
        rounded = exact.astype(dtype)
    assert ulp_error(rounded, exact).max() == pytest.approx(0.5, abs=1e-3)
    assert ulp_error(rounded, exact).max() <= 0.5


def test_ulp_refuses_what_it_cannot_measure():
    with pytest.raises(TypeError, match="float64; give float16 or float32"):
        ulp_error(np.zeros(1), np.zeros(1))
    with pytest.raises(ValueError, match=r"shape \[1\], exact \[2\]"):
        ulp_error(np.zeros(1, np.float16), np.zeros(2))


def test_samples_repeat_and_differ():
    spec = operator("Add", np.zeros((4, 5), np.float16), np.zeros((4, 5), np.float16))
    first, second = sample_inputs(spec, 3)
    again = sample_inputs(spec, 3)
    other = sample_inputs(spec, 4)
    assert first.tolist() == again[0].tolist()
    assert first.tolist() != second.tolist()
    assert first.tolist() != other[0].tolist()
    assert (first.dtype, first.shape) == (np.float16, (4, 5))
    assert first.min() < 0 < first.max()


@pytest.mark.parametrize(
    ("kind", "count", "index", "low", "high"),
    [
        ("Sqrt", 1, 0, 0.25, 4),
        ("Rsqrt", 1, 0, 0.25, 4),
        ("Log", 1, 0, 2, 16),
        ("RealDiv", 2, 1, 0.5, 2),
        ("Reciprocal", 1, 0, 0.5, 2),
        ("MatMul", 2, 1, 0.25, 1),
    ],
)
def test_samples_are_well_conditioned(kind, count, index, low, high):
    spec = operator(kind, *[np.zeros((16, 16), np.float16)] * count)
    sample = sample_inputs(spec, 0)[index]
    assert low <= abs(sample).min() < abs(sample).max() <= high
    assert (sample.min() > 0) == (kind not in ("RealDiv", "Reciprocal"))


@pytest.mark.parametrize(
    ("dtype", "kind", "low", "high"),
    [("bool", "b", 0, 1), ("uint8", "u", 0, 8), ("int32", "i", -8, 8), ("bfloat16", "f", -2, 2)],
)
def test_samples_of_every_kind_of_type(dtype, kind, low, high):
    tensor = TensorDesc.of(dtype, 64)
    (sample,) = sample_inputs(OperatorSpec("Abs", (tensor,), (tensor,)), 0)
    assert sample.dtype.kind == kind
    assert low <= sample.min() < sample.max() <= high
    if dtype == "bfloat16":
        assert not (sample.view(np.uint32) & 0xFFFF).any()


def test_a_constant_is_sampled_as_itself():
    axes = TensorDesc((2,), data_type("int64"), is_const=True, const_value=(0, 1))
    x = TensorDesc.of("float32", 2, 3)
    samples = sample_inputs(OperatorSpec("ReduceSum", (x, axes), (x,)), 0)
    assert (samples[1].tolist(), samples[1].dtype) == ([0, 1], np.int64)


@pytest.mark.parametrize(
    ("axes", "part"),
    [
        (TensorDesc.of("int64", 1), "input 1 selects axes or extents; make it a constant"),
        (TensorDesc.of("int64", -1), "input 1 has shape [-1]; sample a static shape"),
        (
            TensorDesc((2,), data_type("int64"), is_const=True, const_value=(1,)),
            "input 1 has 1 constants for shape [2]",
        ),
    ],
)
def test_what_cannot_be_sampled_is_said(axes, part):
    spec = OperatorSpec("ReduceSum", (TensorDesc.of("float32", 2, 3), axes), ())
    with pytest.raises(ValueError, match="ReduceSum") as error:
        sample_inputs(spec, 0)
    assert part in str(error.value)


def test_describing_operators_does_not_cost_numpy():
    """Only code that runs kernels needs the semantics, and with them numpy."""
    code = "import sys, pytest_ascendcache.operators; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
