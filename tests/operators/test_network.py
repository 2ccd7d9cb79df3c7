"""Network files: their contents, and the errors about files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_ascendcache.operators.evaluation import constant_array, evaluate_network
from pytest_ascendcache.operators.network import (
    NetworkError,
    Uniform,
    read_network,
    write_network,
)
from pytest_ascendcache.operators.spec import TensorDesc

NETWORKS = Path(__file__).parents[2] / "fixtures" / "networks"


def tensor(name, shape=(3,), **more):
    return {"name": name, "format": "ND", "shape": list(shape), "type": "float32", **more}


def square(**changes):
    document = {
        "network": "square",
        "tensors": [tensor("x"), tensor("y")],
        "constants": {"x": [1, 4, 9]},
        "operators": [{"op": "Square", "name": "square", "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    return {**document, **changes}


def node(kind, inputs, outputs, **more):
    return {"op": kind, "name": kind, "inputs": inputs, "outputs": outputs, **more}


def read(tmp_path, document):
    path = tmp_path / "network.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_network(path)


@pytest.mark.parametrize("path", sorted(NETWORKS.glob("*.json")), ids=lambda path: path.stem)
def test_round_trip(path, tmp_path):
    network = read_network(path)
    assert network.name == path.stem
    write_network(tmp_path / "written.json", network)
    assert read_network(tmp_path / "written.json") == network


def test_the_documents_network_gives_the_documents_output():
    values = evaluate_network(read_network(NETWORKS / "square.json"))
    assert values["output"].tolist() == [1.0, 16.0, 81.0]


def test_the_bert_layer_is_one():
    """It has 25 operators and 17 different kernels. Its output is normalised: mean 0 up to beta."""
    network = read_network(NETWORKS / "bert_encoder_layer.json")
    assert len(network.operators) == 25
    assert len({each.named("") for each in network.operators}) == 17
    values = evaluate_network(network)
    attention = values["attention_probs"]
    np.testing.assert_allclose(attention.sum(axis=-1), 1.0, rtol=1e-5)
    assert attention[..., 12:].max() == 0.0, "the mask hides the last four positions"
    output = values["output_layer_norm"]
    gamma, beta = (values[f"output_layer_norm_{each}"] for each in ("gamma", "beta"))
    np.testing.assert_allclose(((output - beta) / gamma).mean(axis=-1), 0.0, atol=1e-5)


def test_operators_may_be_listed_in_any_order(tmp_path):
    document = square(
        tensors=[tensor("x"), tensor("y"), tensor("z")],
        operators=[node("Neg", ["z"], ["y"]), node("Square", ["x"], ["z"])],
    )
    network = read(tmp_path, document)
    assert [each.operator.type for each in network.in_order] == ["Square", "Neg"]
    assert evaluate_network(network)["y"].tolist() == [-1.0, -16.0, -81.0]


def test_names_of_tensors_do_not_make_operators_different(tmp_path):
    document = square(
        tensors=[tensor("x"), tensor("y"), tensor("z")],
        operators=[node("Square", ["x"], ["z"]), node("Square", ["z"], ["y"])],
    )
    first, second = read(tmp_path, document).operators
    assert first == second


def test_constants_by_rule_are_the_same_everywhere():
    values = constant_array(Uniform(7, -1.0, 1.0), TensorDesc.of("float32", 1000))
    assert values.tolist() == [np.float32(2 * _splitmix(7, each) - 1) for each in range(1, 1001)]
    assert values.min() < -0.95
    assert values.max() > 0.95
    assert abs(values.mean()) < 0.1
    other = constant_array(Uniform(8, -1.0, 1.0), TensorDesc.of("float32", 1000))
    assert abs(np.corrcoef(values, other)[0, 1]) < 0.1


def _splitmix(seed, index):
    """Return a number in [0, 1), mixed as SplitMix64 does, with Python's integers."""
    state = (index * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return ((state ^ (state >> 31)) >> 11) / 2**53


WRONG = {
    "not-json": ("{", "is not JSON"),
    "not-an-object": ([], "is an array; write an object"),
    "missing-field": (
        {key: value for key, value in square().items() if key != "outputs"},
        "the field 'outputs' is missing",
    ),
    "unknown-field": (square(weights={}), "'weights' is no field here"),
    "mistyped-field": (square(operators={}), "operators: {} is an object; write an array"),
    "no-operators": (square(operators=[]), "operators: the list is empty"),
    "no-outputs": (square(outputs=[]), "outputs: the list is empty"),
    "operator-without-type": (
        square(operators=[node(" ", ["x"], ["y"])]),
        "operators[0].op: the operator type is empty",
    ),
    "operator-without-output": (
        square(operators=[node("Square", ["x"], [])]),
        "operators[0].outputs: the list is empty",
    ),
    "unknown-tensor": (
        square(operators=[node("Square", ["x2"], ["y"])]),
        "operators[0].inputs: no tensor is called 'x2'",
    ),
    "unknown-output": (square(outputs=["z"]), "outputs: no tensor is called 'z'"),
    "tensor-twice": (
        square(tensors=[tensor("x"), tensor("x")]),
        "tensors[1].name: 'x' is taken",
    ),
    "tensor-without-name": (square(tensors=[tensor("")]), "tensors[0].name: '' names nothing"),
    "unknown-type": (square(tensors=[tensor("x", type="float33")]), "'float33' is no data type"),
    "unknown-extent": (square(tensors=[tensor("x", (-1,), shape_range=[[1, 2]])]), "is not known"),
    "too-few-elements": (square(constants={"x": [1]}), "constants.x: 1 elements for shape [3]"),
    "constant-out-of-range": (square(constants={"x": [1, 2, 1e39]}), "does not fit float32"),
    "constant-of-nothing": (square(constants={"z": [1]}), "no tensor is called 'z'"),
    "rule-without-seed": (square(constants={"x": {"low": 0, "high": 1}}), "'seed' is missing"),
    "rule-upside-down": (
        square(constants={"x": {"seed": 1, "low": 1, "high": 0}}),
        "constants.x: seed 1 from 1 to 0 makes nothing",
    ),
    "no-value": (square(constants={}), "operators[0].inputs: nothing gives the tensor 'x' a value"),
    "two-values": (
        square(constants={"x": [1, 4, 9], "y": [1, 2, 3]}),
        "operators[0].outputs: the tensor 'y' has its value from constants.y already",
    ),
    "output-without-value": (
        square(tensors=[tensor("x"), tensor("y"), tensor("z")], outputs=["z"]),
        "outputs: nothing gives the tensor 'z' a value",
    ),
    "cycle": (
        square(
            tensors=[tensor(name) for name in "xyz"],
            operators=[node("Add", ["x", "z"], ["y"]), node("Neg", ["y"], ["z"])],
        ),
        "(Add); break the cycle",
    ),
    "feeds-itself": (square(constants={}, operators=[node("Neg", ["y"], ["y"])]), "break the"),
    "attribute-twice": (
        square(
            operators=[
                node(
                    "Exp",
                    ["x"],
                    ["y"],
                    attr=[{"name": "base", "type": "float", "value": 2.0}] * 2,
                )
            ]
        ),
        "operators[0].attr: 'base' is set twice",
    ),
}


@pytest.mark.parametrize(("document", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_place(document, message, tmp_path):
    with pytest.raises(NetworkError) as caught:
        read(tmp_path, document)
    text = str(caught.value)
    assert message in text
    assert str(tmp_path / "network.json") in text
    assert "\n" not in text


def test_a_path_that_is_no_file(tmp_path):
    with pytest.raises(NetworkError, match="is a directory; name a JSON file that describes a net"):
        read_network(tmp_path)
    with pytest.raises(NetworkError, match=r"missing\.json"):
        read_network(tmp_path / "missing.json")
