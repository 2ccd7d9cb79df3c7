"""Sample inputs of a release's model, and shapes from ``--input_shape``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.samples import (
    SamplesError,
    asked_shapes,
    float32_outputs,
    sample_inputs,
)


def release(tmp_path: Path, **options: str) -> Release:
    """A release whose model adds two numbers of each type."""
    ends = {"x": (TensorProto.FLOAT, ["n", 3]), "ids": (TensorProto.INT64, [2])}
    inputs = [helper.make_tensor_value_info(name, *each) for name, each in ends.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])]
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=8), str(tmp_path / "m.onnx")
    )
    options_given = {"model": "m.onnx", "framework": "5", **options}
    return Release(tmp_path / "release.toml", "m", "Ascend910B1", options_given)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("", {}),
        ("a:1,2", {"a": (1, 2)}),
        ("m/a:0:1, 2; b:-1", {"m/a:0": (1, 2), "b": (-1,)}),
        ("a", {}),
        ("a:x", {}),
    ],
)
def test_shapes_are_read(text, shapes) -> None:
    assert asked_shapes(text) == shapes


def test_inputs_are_made_for_the_shapes_and_always_the_same(tmp_path) -> None:
    asked = release(tmp_path, input_shape="x:4,3")
    first, again = sample_inputs(asked), sample_inputs(asked)
    assert {name: (each.dtype, each.shape) for name, each in first.items()} == {
        "x": (np.float32, (4, 3)),
        "ids": (np.int64, (2,)),
    }
    assert all((again[name] == each).all() for name, each in first.items())
    assert set(first["ids"].tolist()) <= {0, 1}
    np.testing.assert_array_equal(float32_outputs(asked, first)["y"], 2 * first["x"])


@pytest.mark.parametrize(("axis", "last"), [(0, 2999), (1, 6)])
def test_what_indexes_a_table_is_made_to_take_its_first_and_last_row(tmp_path, axis, last) -> None:
    asked = release(tmp_path, input_shape="x:4,3;ids:50")
    model = onnx.load(tmp_path / "m.onnx")
    table = helper.make_tensor("table", TensorProto.FLOAT, [3000, 7], [0.0] * 21_000)
    model.graph.initializer.append(table)
    model.graph.node.append(helper.make_node("Gather", ["table", "ids"], ["row"], axis=axis))
    onnx.save(model, tmp_path / "m.onnx")
    made = sample_inputs(asked)["ids"]
    assert (made.min(), made.max()) == (0, last)
    assert len(set(made.tolist())) > 4


@pytest.mark.parametrize(
    ("operation", "inputs", "dims", "axis"),
    [
        ("Gather", ["small", "ids"], [2, 7], 0),  # the shorter of the two tables
        ("Gather", ["x", "ids"], [3, 7], 0),  # the table is no weight of the model
        ("Gather", ["small", "ids"], [0, 7], 0),
        ("Gather", ["small", "ids"], [3, 7], 5),
        ("Cast", ["ids"], [3, 7], 0),  # it is not known where the result goes
    ],
)
def test_what_may_index_something_else_is_made_of_zeros_and_ones(
    tmp_path, operation, inputs, dims, axis
) -> None:
    asked = release(tmp_path, input_shape="x:4,3;ids:50")
    model = onnx.load(tmp_path / "m.onnx")
    large = helper.make_tensor("table", TensorProto.FLOAT, [3000, 7], [0.0] * 21_000)
    small = helper.make_tensor("small", TensorProto.FLOAT, dims, [0.0] * (dims[0] * dims[1]))
    model.graph.initializer.append(large)
    model.graph.node.append(helper.make_node("Constant", [], ["small"], value=small))
    model.graph.node.append(helper.make_node("Gather", ["table", "ids"], ["row"]))
    model.graph.node.append(helper.make_node(operation, inputs, ["other"], axis=axis))
    onnx.save(model, tmp_path / "m.onnx")
    assert set(sample_inputs(asked)["ids"].tolist()) == {0, 1}


def test_an_extent_nobody_gives_is_asked_for(tmp_path) -> None:
    with pytest.raises(SamplesError, match=r"input x of .* dynamic shape \[-1, 3\]; write inputs"):
        sample_inputs(release(tmp_path))


def test_a_model_of_another_framework_cannot_be_run(tmp_path) -> None:
    with pytest.raises(SamplesError, match="is not ONNX"):
        sample_inputs(release(tmp_path, framework="3"))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no arrays"])
def test_samples_that_cannot_be_read(tmp_path, data) -> None:
    path = tmp_path / "samples.npz"
    path.write_bytes(data)
    broken = Release(tmp_path / "release.toml", "m", "Ascend910B1", {}, inputs=path)
    with pytest.raises(SamplesError, match="cannot be read"):
        sample_inputs(broken)
