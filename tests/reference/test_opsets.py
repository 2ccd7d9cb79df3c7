"""Every ONNX type that the reference computes or converts, at every version that it accepts."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from pytest_ascendcache.reference.errors import AtcError  # noqa: E402
from pytest_ascendcache.reference.model.folding import computed  # noqa: E402
from pytest_ascendcache.reference.model.importing import FOLDED, Importer  # noqa: E402
from pytest_ascendcache.reference.model.mapping import MAPPED  # noqa: E402
from pytest_ascendcache.reference.model.reading import read_model  # noqa: E402

_OLDEST = 7
_X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
_I = np.array([0], dtype=np.int64)
_PADS = np.array([0, 0, 1, 1], dtype=np.int64)

Form = tuple[list[Any], dict[str, Any]]
_TWO: Form = ([_X, _X], {})
_BOTH: Form = ([_X > 2, _X > 3], {})
_FORMS: dict[str, list[tuple[int, Form]]] = {
    **{each: [(_OLDEST, _TWO)] for each in ("Add", "Sub", "Mul", "Div", "Min", "Max")},
    **{each: [(_OLDEST, _TWO)] for each in ("Equal", "Greater", "Less")},
    **{each: [(12, _TWO)] for each in ("GreaterOrEqual", "LessOrEqual")},
    **{each: [(_OLDEST, _BOTH)] for each in ("And", "Or")},
    **{
        each: [(_OLDEST, ([_X], {"axes": [0]})), (18, ([_X, _I], {}))]
        for each in ("ReduceMax", "ReduceMin", "ReduceProd")
    },
    "ReduceSum": [(_OLDEST, ([_X], {"axes": [0]})), (13, ([_X, _I], {}))],
    "Unsqueeze": [(_OLDEST, ([_X], {"axes": [0]})), (13, ([_X, _I], {}))],
    "Squeeze": [(_OLDEST, ([_X[None]], {"axes": [0]})), (13, ([_X[None], _I], {}))],
    "Slice": [
        (_OLDEST, ([_X], {"starts": [0], "ends": [1], "axes": [0]})),
        (10, ([_X, _I, _I + 1, _I], {})),
    ],
    "Split": [
        (_OLDEST, ([_X], {"axis": 1, "split": [1, 2]})),
        (13, ([_X, np.array([1, 2])], {"axis": 1})),
    ],
    "Pad": [(_OLDEST, ([_X], {"pads": [0, 0, 1, 1], "value": 0.0})), (11, ([_X, _PADS], {}))],
    "Cast": [(_OLDEST, ([_X], {"to": 6}))],
    "CastLike": [(15, ([_X, _I], {}))],
    "Concat": [(_OLDEST, ([_X, _X], {"axis": 0}))],
    "ConstantOfShape": [(9, ([_I + 2], {}))],
    "Expand": [(8, ([_X, np.array([2, 3])], {}))],
    "Flatten": [(_OLDEST, ([_X], {"axis": 1}))],
    "Gather": [(_OLDEST, ([_X, _I], {}))],
    "GatherElements": [(11, ([_X, np.array([[0, 1, 1]])], {}))],
    "GatherND": [(11, ([_X, np.array([[0]])], {}))],
    "Identity": [(_OLDEST, ([_X], {}))],
    "Mod": [(10, ([_I, _I + 1], {}))],
    "Neg": [(_OLDEST, ([_X], {}))],
    "Not": [(_OLDEST, ([_X > 2], {}))],
    "Range": [(11, ([np.array(0), np.array(3), np.array(1)], {}))],
    "Reshape": [(_OLDEST, ([_X, np.array([3, 2])], {}))],
    "ScatterND": [(11, ([_X, np.array([[0]]), _X[:1]], {}))],
    "Tile": [(_OLDEST, ([_X, np.array([2, 1])], {}))],
    "Transpose": [(_OLDEST, ([_X], {"perm": [1, 0]}))],
    "Trilu": [(14, ([_X], {}))],
    "Where": [(9, ([_X > 2, _X, _X], {}))],
}
"""How a node of each type is written, from which version on."""


def test_every_computed_type_has_a_form() -> None:
    assert set(_FORMS) == FOLDED


@pytest.mark.parametrize("kind", sorted(_FORMS))
def test_constants_are_computed_at_every_version(kind: str) -> None:
    for opset in range(_FORMS[kind][0][0], onnx.defs.onnx_opset_version() + 1):
        values, given = next(form for first, form in reversed(_FORMS[kind]) if first <= opset)
        names = [f"input{number}" for number in range(len(values))]
        outputs = ["out", "other"] if kind == "Split" else ["out"]
        node = onnx.helper.make_node(kind, names, outputs, **given)
        results = computed(node, dict(zip(names, values, strict=True)), opset)
        assert len(results) == len(outputs), opset
        if kind == "Unsqueeze":
            assert results[0].shape == (1, 2, 3)


_IMAGE = np.ones((1, 2, 4, 4), np.float32)
_ROW, _TWICE = np.ones(3, np.float32), np.ones(2, np.float32)
_ONE: Form = ([_X], {})
_ELEMENTWISE = """
    Abs Floor Ceil Sqrt Reciprocal Exp Log Relu Sigmoid Tanh Softplus LeakyRelu Elu HardSigmoid
    Softmax LogSoftmax Dropout
"""
_CONVERTED: dict[str, list[tuple[int, Form]]] = {
    **{each: [(_OLDEST, _ONE)] for each in _ELEMENTWISE.split()},
    **{
        each: [(_OLDEST, _ONE)]
        for each in ["Abs", "Floor", "Ceil", "Sqrt", "Reciprocal", "Exp", "Log", "Relu"]
    },
    **{each: [(9, _ONE)] for each in ("Sign", "Erf", "IsNaN")},
    **{each: [(14, _ONE)] for each in ("HardSwish",)},
    **{each: [(_OLDEST, ([_X, _X], {}))] for each in ("Sum", "Pow")},
    "Equal": [(_OLDEST, ([_X.astype(np.int32)] * 2, {})), (11, _TWO)],
    "Mish": [(18, _ONE)],
    "Gelu": [(20, _ONE)],
    "Clip": [
        (_OLDEST, ([_X], {"min": 0.0, "max": 2.0})),
        (11, ([_X, np.float32(0), np.float32(2)], {})),
    ],
    "MatMul": [(_OLDEST, ([_X, _X.T.copy()], {}))],
    "Gemm": [(_OLDEST, ([_X, _X.T.copy(), _TWICE], {"alpha": 2.0}))],
    "Conv": [(_OLDEST, ([_IMAGE, np.ones((3, 2, 3, 3), np.float32)], {"pads": [1] * 4}))],
    **{
        each: [(_OLDEST, ([_IMAGE], {"kernel_shape": [2, 2]}))]
        for each in ("MaxPool", "AveragePool")
    },
    "GlobalAveragePool": [(_OLDEST, ([_IMAGE], {}))],
    "BatchNormalization": [(_OLDEST, ([_IMAGE, *[_TWICE] * 4], {}))],
    "LayerNormalization": [(17, ([_X, _ROW, _ROW], {}))],
    "ReduceMean": [(_OLDEST, ([_X], {"axes": [0]})), (18, ([_X, _I], {}))],
}
"""The same for the types that become operators and are not computed."""


def test_every_converted_type_has_a_form() -> None:
    assert set(MAPPED) <= {*_FORMS, *_CONVERTED}


@pytest.mark.parametrize("kind", sorted(MAPPED))
def test_nodes_are_converted_at_every_version(kind: str, tmp_path: Path) -> None:
    forms = {**_FORMS, **_CONVERTED}[kind]
    for opset in range(forms[0][0], onnx.defs.onnx_opset_version() + 1):
        (first, *others), given = next(form for since, form in reversed(forms) if since <= opset)
        outputs = ["out", "other"] if kind == "Split" else ["out"]
        names = [f"constant{number}" for number in range(len(others))]
        node = onnx.helper.make_node(kind, ["in", *names], outputs, **given)
        dtype = onnx.helper.np_dtype_to_tensor_dtype(np.asarray(first).dtype)
        graph = onnx.helper.make_graph(
            [node],
            "graph",
            [onnx.helper.make_tensor_value_info("in", dtype, first.shape)],
            [onnx.ValueInfoProto(name=each) for each in outputs],
            [onnx.numpy_helper.from_array(np.asarray(each), name)
             for name, each in zip(names, others, strict=True)],
        )  # fmt: skip
        path = tmp_path / f"{kind}{opset}.onnx"
        versions = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=versions, ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model, data_prop=True), path)
        converted = Importer(read_model(path, ""), kind, MAPPED).graph()
        assert set(converted.outputs) == set(outputs), opset


def _model(directory: Path, shape: list[Any]) -> Path:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Neg", ["bytes"], ["out"])],
        "graph",
        [helper.make_tensor_value_info("bytes", kind, shape)],
        [helper.make_tensor_value_info("out", kind, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    path = directory / "model.onnx"
    onnx.save(model, path)
    return path


def _spoilt(directory: Path, seeds: range) -> None:
    data = _model(directory, [1, 4]).read_bytes()
    path = directory / "spoilt.onnx"
    for seed in seeds:
        dice, changed = random.Random(seed), bytearray(data)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        path.write_bytes(changed[: dice.choice((len(data), dice.randrange(1, len(data))))])
        with contextlib.suppress(AtcError):  # anything else is a traceback for who converts it
            Importer(read_model(path, ""), "spoilt", MAPPED).graph()


def test_a_damaged_model_is_refused_without_a_traceback(tmp_path: Path) -> None:
    _spoilt(tmp_path, range(1000))


@pytest.mark.nightly
def test_many_damaged_models_are_refused_without_a_traceback(tmp_path: Path) -> None:
    _spoilt(tmp_path, range(1000, 30_000))


def test_a_hint_works_when_it_is_followed(tmp_path: Path) -> None:
    path = _model(tmp_path, ["batch", 2048])
    with pytest.raises(AtcError) as refused:
        read_model(path, "")
    hint = str(refused.value).rpartition("--input_shape=")[2].rstrip(".")
    assert read_model(path, hint).shapes == {"bytes": (1, 2048)}
