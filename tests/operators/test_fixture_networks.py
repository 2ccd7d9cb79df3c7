"""The operator lists in ``fixtures`` are readable and complete, with shapes of real networks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_ascendcache.operators import read_single_op, write_single_op
from pytest_ascendcache.operators.semantics import (
    OPERATOR_TYPES,
    evaluate,
    has_semantics,
    sample_inputs,
    ulp_error,
)
from pytest_ascendcache.operators.singleop import ATTRIBUTE_TYPES

FIXTURES = Path(__file__).parents[2] / "fixtures"
COUNTS = {
    "bert_base_encoder_layer": 25,
    "every_field": 7,
    "mixed_dtypes": 72,
    "resnet50_stages": 67,
    "single_add": 1,
}
NETWORKS = {name: read_single_op(FIXTURES / f"{name}.json") for name in sorted(COUNTS)}
COMPUTABLE = [
    pytest.param(spec, id=f"{name}-{spec.name}")
    for name, operators in NETWORKS.items()
    for spec in operators
    if has_semantics(spec) and spec.is_static
]


def test_no_fixture_is_left_out():
    assert {path.stem for path in FIXTURES.glob("*.json")} == set(COUNTS)
    readme = (FIXTURES / "README.md").read_text(encoding="utf-8")
    for name, count in COUNTS.items():
        assert f"| `{name}.json` | {count} |" in readme


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_round_trip(name, tmp_path):
    operators = NETWORKS[name]
    written, again = tmp_path / "written.json", tmp_path / "again.json"
    write_single_op(written, operators)
    assert read_single_op(written) == operators
    write_single_op(again, read_single_op(written))
    assert again.read_bytes() == written.read_bytes()


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_names_are_distinct_and_name_an_om_file(name):
    names = [spec.name for spec in NETWORKS[name]]
    assert len(names) == len(set(names)) == COUNTS[name]
    for each in names:
        assert each.replace("_", "").replace(".", "").isalnum()
        assert each.isascii()
        assert len(each) <= 128


def test_only_the_made_up_operators_have_no_semantics():
    unknown = [
        spec.type
        for operators in NETWORKS.values()
        for spec in operators
        if not has_semantics(spec)
    ]
    assert unknown == ["EveryAttribute"]
    assert {param.values[0].type for param in COMPUTABLE} == OPERATOR_TYPES


@pytest.mark.parametrize("spec", COMPUTABLE)
def test_outputs_have_the_declared_shapes(spec):
    outputs = evaluate(spec, sample_inputs(spec, 0))
    assert [each.shape for each in outputs] == [each.shape for each in spec.outputs]
    for output, tensor in zip(outputs, spec.outputs, strict=True):
        assert np.isfinite(output).all()
        if tensor.dtype.name in ("float16", "float32"):
            # Well-conditioned samples also stay in range: rounding loses at most half an ulp.
            assert ulp_error(output.astype(tensor.dtype.numpy), output).max() <= 0.5


def parameters(spec, inputs):
    return sum(spec.inputs[index].elements for index in inputs if index < len(spec.inputs))


def test_bert_layer_has_the_parameters_of_bert_base():
    """Weights and biases of one of the twelve layers: 7,087,872 of BERT-base's 110 million."""
    total = sum(
        parameters(spec, (1,) if spec.type == "BiasAdd" else (1, 2))
        for spec in NETWORKS["bert_base_encoder_layer"]
        if spec.type in ("MatMulV2", "BiasAdd", "LayerNorm")
    )
    assert total == 7_087_872


def test_resnet_has_the_parameters_of_resnet50():
    """There are 25,557,032, with the identity bottlenecks repeated to depths 3, 4, 6 and 3.

    A folded bias of a convolution counts as the two parameters of its batch normalisation.
    """
    repeats = {"layer1_1": 2, "layer2_1": 3, "layer3_1": 5, "layer4_1": 2}
    total = 0
    for spec in NETWORKS["resnet50_stages"]:
        if spec.type == "Conv2D":
            folded = parameters(spec, (1,)) + 2 * parameters(spec, (2,))
            total += folded * repeats.get(spec.name[:8], 1)
        elif spec.type == "MatMulV2":
            total += parameters(spec, (1, 2))
    assert total == 25_557_032


@pytest.mark.parametrize("name", ["bert_base_encoder_layer", "resnet50_stages"])
def test_activations_come_from_an_earlier_operator(name):
    """Every operator but the first takes as its first input the output of an earlier operator."""
    operators = NETWORKS[name]
    produced = {(operators[0].inputs[0].shape, operators[0].inputs[0].dtype)}
    for spec in operators:
        assert (spec.inputs[0].shape, spec.inputs[0].dtype) in produced, spec.name
        produced |= {(each.shape, each.dtype) for each in spec.outputs}


def test_networks_repeat_kernels_under_different_names():
    """This is what a cache is for: BERT's 25 nodes need 17 kernels, ResNet's 67 nodes need 44."""
    distinct = {
        name: len({spec.named("") for spec in NETWORKS[name]})
        for name in ("bert_base_encoder_layer", "resnet50_stages")
    }
    assert distinct == {"bert_base_encoder_layer": 17, "resnet50_stages": 44}


def test_every_field_uses_every_field():
    document = json.loads((FIXTURES / "every_field.json").read_text(encoding="utf-8"))
    operators = [element for element in document if "op" in element]
    tensors = [
        tensor
        for element in operators
        for tensor in (*element["input_desc"], *element["output_desc"])
    ]
    attributes = [each for element in operators for each in element.get("attr", [])]
    assert {"compile_flag": 1} in document
    assert {key for element in operators for key in element} == {
        *("op", "name", "input_desc", "output_desc", "attr")
    }
    assert {key for tensor in tensors for key in tensor} == {
        *("format", "shape", "type", "name", "origin_format", "origin_shape", "shape_range"),
        *("dynamic_input", "is_const", "const_value"),
    }
    assert {each["type"] for each in attributes} == set(ATTRIBUTE_TYPES)
    assert {"fp16", "half", "float", "UNDEFINED"} <= {tensor["type"] for tensor in tensors}


def test_every_field_is_read_as_meant():
    every, absent, constant, dynamic, scalar, *fuzzy = NETWORKS["every_field"]
    assert every.attribute("list_list_int") == ((1, 2), (), (3,))
    assert every.attribute("list_float") == (1.0, -2.5)
    assert every.attribute("string") == "naïve 字"
    assert every.attribute("bool") is True
    assert (every.inputs[0].origin_format, every.inputs[0].origin_shape) == ("NCHW", (1, 32, 4, 4))
    assert [each.is_absent for each in absent.inputs] == [False, False, True, True]
    assert [each.dtype.name for each in absent.inputs[:2]] == ["float16", "float16"]
    assert (constant.inputs[1].is_const, constant.inputs[1].const_value) == (True, (-1,))
    assert [each.dynamic_input for each in dynamic.inputs] == ["x", "x"]
    assert dynamic.outputs[0].format == "ND"
    assert (scalar.inputs[0].shape, scalar.inputs[0].elements) == ((), 1)
    assert [each.fuzzy for each in fuzzy] == [True, True]
    assert fuzzy[0].inputs[0].shape_range == ((1, 64), (0, -1))
    assert not any(each.is_static for each in fuzzy)
