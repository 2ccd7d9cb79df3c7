"""Operator information: files, names, simplified keys, and the errors about bad files."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc, read_single_op
from pytest_ascendcache.operators.opinfo import OperatorInfo, OpInfoError
from pytest_ascendcache.operators.opinfo_json import (
    opinfo_document,
    parse_opinfo,
    read_opinfo,
    write_opinfo,
)
from pytest_ascendcache.operators.simplified_key import simplified_key, value_depend_indexes

FIXTURES = Path(__file__).parents[2] / "fixtures"


def tensor(name, index, *shape, **fields):
    described = {"name": name, "index": index, "param_type": "required", "dtype": "float"}
    described.update({"format": "ND", "shape": list(shape), "origin_shape": list(shape)})
    return {**described, "origin_format": "ND", "value_depend": False, **fields}


MATMUL = {
    "op_type": "MatMulV2",
    "tune_mode": "all",
    "impl_mode": "high_performance",
    "deterministic": "false",
    "inputs": [tensor("x1", 0, 1, 2048), tensor("x2", 1, 2048, 4), None, None],
    "outputs": [tensor("y", 0, 1, 4)],
    "attrs": [
        {"name": "transpose_x1", "dtype": "bool", "index": 0, "value": False},
        {"name": "transpose_x2", "dtype": "bool", "index": 1, "value": False},
        {"name": "offset_x", "dtype": "int", "index": 2, "value": 0},
    ],
}
"""The example in the facts, which the vendor's tool accepts."""


def changed(**fields):
    return {**copy.deepcopy(MATMUL), **fields}


def test_the_example_has_the_documents_file_name_and_key():
    info = parse_opinfo(MATMUL)
    assert info.file_name(0) == "MatMulV2_float_ND_1_2048_0.json"
    key = "MatMulV2/d=0,p=1/0,2,(1,800)/0,2,(800,4)/_/_/0,2,(1,4)/0/0/0"
    assert simplified_key(info) == key
    assert simplified_key(info, deterministic=True) == key.replace("d=0", "d=1")


def test_a_file_is_read_as_it_was_written(tmp_path):
    document = changed(platform_info={"cube_core_cnt": 24}, bin_filename="k", deterministic="true")
    view = {"is_view": True, "stride": [1, 1], "offset": 3, "sub_format": 2, "c0_format": 4}
    document["inputs"][1].update(view)
    info = parse_opinfo(document)
    write_opinfo(tmp_path / "info.json", info)
    assert read_opinfo(tmp_path / "info.json") == info
    assert opinfo_document(info) == document


def fixture_operators():
    names = ("bert_base_encoder_layer", "resnet50_stages", "mixed_dtypes")
    operators = [each for name in names for each in read_single_op(FIXTURES / f"{name}.json")]
    return [each for each in operators if each.is_static]


@pytest.mark.parametrize("operator", fixture_operators(), ids=str)
def test_an_operator_comes_back_from_its_information(operator, tmp_path):
    info = OperatorInfo.of(operator, "high_precision", deterministic=True)
    write_opinfo(tmp_path / "info.json", info)
    again = read_opinfo(tmp_path / "info.json")
    assert again == info
    assert OperatorInfo.of(again.operator(), "high_precision", deterministic=True) == info
    back = again.operator(operator.name)
    assert (back.type, back.name, back.attributes) == (
        operator.type,
        operator.name,
        operator.attributes,
    )
    for one, other in zip(back.inputs, operator.inputs, strict=True):
        assert (one.shape, one.dtype, one.format) == (other.shape, other.dtype, other.format)


def test_names_of_nodes_are_not_in_the_bytes(tmp_path):
    x = TensorDesc.of("float16", 2, 3)
    for name in ("one", "two"):
        operator = OperatorSpec("Relu", (x,), (x,), name=name)
        write_opinfo(tmp_path / f"{name}.json", OperatorInfo.of(operator))
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        ([], "Relu_7.json"),
        ([None], "Relu_7.json"),
        ([tensor("x", 0)], "Relu_float_ND_7.json"),
        ([tensor("x", 0, 3, dtype="bf16", format="nchw")], "Relu_bfloat16_NCHW_3_7.json"),
        ([[tensor("x", 0, 2), tensor("x", 0, 9)]], "Relu_float_ND_2_7.json"),
        ([[]], "Relu_7.json"),
    ],
)
def test_file_names_follow_the_first_input(inputs, name):
    assert parse_opinfo(changed(op_type="Relu", inputs=inputs)).file_name(7) == name


@pytest.mark.parametrize(
    ("inputs", "part"),
    [
        ([tensor("x", 0)], "0,2,()"),
        ([tensor("x", 0, 16, dtype="float16", format="NCHW")], "1,0,(10)"),
        ([tensor("x", 0, 1, format="FRACTAL_Z", sub_format=2)], "0,204,(1)"),
        ([tensor("x", 0, 1, format="NC1HWC0", c0_format=5)], "0,5000003,(1)"),
        ([[tensor("x", 0, 1), tensor("x", 0, 2)], None], "0,2,(1);0,2,(2)/_"),
        (
            [tensor("x", 0, 2, dtype="int64", value_depend=True, const_data=[10, -1])],
            "9,2,(2),[a,ffffffffffffffff]",
        ),
        ([tensor("x", 0, 2, value_depend=True, const_data=[1.5])], "0,2,(2),[3fc00000]"),
        ([tensor("x", 0, 1, is_view=True, stride=[2])], "0,2,(1)"),
        ([tensor("x", 0, 0, value_depend=True, const_data=[])], "0,2,(0),[]"),
    ],
)
def test_inputs_in_a_key(inputs, part):
    info = parse_opinfo(changed(op_type="X", inputs=inputs, outputs=[], attrs=[], impl_mode=""))
    assert simplified_key(info) == f"X/d=0,p=0/{part}/"


@pytest.mark.parametrize(
    ("dtype", "value", "part"),
    [
        ("bool", True, "1"),
        ("int", 255, "ff"),
        ("int64", -2, "fffffffffffffffe"),
        ("float", 1, "3f800000"),
        ("float32", -0.0, "80000000"),
        ("str", "NCHW", "5748434e"),
        ("string", "", ""),
        ("listInt", [1, -1], "[1,ffffffffffffffff]"),
        ("list_float", [0.5], "[3f000000]"),
        ("listBool", [True, False], "[1,0]"),
        ("list_int", [], "[]"),
        ("list_list_int", [[1], [2, 3]], "[[1],[2,3]]"),
    ],
)
def test_attributes_in_a_key(dtype, value, part):
    attribute = {"name": "a", "dtype": dtype, "index": 0, "value": value}
    info = parse_opinfo(changed(op_type="X", inputs=[], outputs=[], attrs=[attribute]))
    assert simplified_key(info) == f"X/d=0,p=1/{part}"


def test_keys_and_value_depend_places_are_those_cann_writes():
    """The expected ones come from CANN 8.1, whose runtime and installer compare them as text."""
    recorded = json.loads((Path(__file__).parent / "simplified_keys.json").read_text())
    assert len(recorded) == 67
    for case in recorded:
        info = parse_opinfo(case["opinfo"])
        assert simplified_key(info) == case["key"]
        assert value_depend_indexes(info) == case["depends"]


def test_high_precision_is_two():
    assert (
        simplified_key(parse_opinfo(changed(impl_mode="high_precision"))).split("/")[1] == "d=0,p=2"
    )


def test_whole_number_constants_are_what_kernels_depend_on():
    x, shape = TensorDesc.of("float16", 4), TensorDesc.of("int64", 2)
    shape = TensorDesc(shape.shape, shape.dtype, is_const=True, const_value=(2, 2))
    factor = TensorDesc(x.shape, x.dtype, is_const=True, const_value=(1, 2, 3, 4))
    info = OperatorInfo.of(OperatorSpec("Reshape", (factor, shape), (x,)))
    assert value_depend_indexes(info) == [1]
    assert info.operator().inputs == (x, shape)


def test_dynamic_inputs_stay_together():
    x = TensorDesc.of("float16", 4)
    part = TensorDesc(x.shape, x.dtype, dynamic_input="x")
    operator = OperatorSpec("ConcatD", (part, part, x), (x,), (Attribute("dim", "int", 0),))
    info = OperatorInfo.of(operator)
    assert [len(each) if isinstance(each, tuple) else 1 for each in info.inputs] == [2, 1]
    assert parse_opinfo(opinfo_document(info)).operator() == operator


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"op_type": ""}, ".op_type: is empty"),
        ({"op_type": 3}, ".op_type: 3 is an integer"),
        ({"inputs": None}, ".inputs: None is null; write an array"),
        ({"outputs": {}}, ".outputs: {} is an object; write an array"),
        ({"attrs": None}, ".attrs: None is null"),
        ({"impl_mode": 1}, ".impl_mode: 1 is an integer; write a string"),
        ({"deterministic": True}, ".deterministic: True is true or false; write a string"),
        ({"deterministic": "yes"}, ".deterministic: 'yes' is not known"),
        ({"tune_mode": "none"}, ".tune_mode: 'none' is not known"),
        ({"inputs": [tensor("x", 0, -1)]}, ".inputs[0].shape: [-1] is not static"),
        ({"inputs": [tensor("x", 0, 1.5)]}, ".inputs[0].shape: 1.5 is a number; write an integer"),
        ({"inputs": [tensor("x", 0, dtype="int7")]}, ".inputs[0].dtype: 'int7' is no data type"),
        ({"inputs": [tensor("x", 0, format="ABC")]}, ".inputs[0].format: 'ABC' is no format"),
        ({"inputs": [tensor("x", -1)]}, ".inputs[0].index: -1 is no place"),
        ({"inputs": [tensor("x", 1), tensor("y", 1)]}, ".inputs[1].index: [1] does not come after"),
        ({"inputs": [tensor("x", 0, param_type="must")]}, ".inputs[0].param_type: 'must' is not"),
        ({"inputs": [tensor("x", 0, value_depend=True)]}, ".inputs[0]: the field 'const_data'"),
        (
            {"inputs": [tensor("x", 0, 1, value_depend=True, const_data="NULL")]},
            ".inputs[0].const_data: 'NULL' is a string",
        ),
        (
            {"inputs": [tensor("x", 0, 2, value_depend=True, const_data=[1, 2, 3])]},
            ".inputs[0].const_data: 3 elements for the shape [2]",
        ),
        (
            {"inputs": [tensor("x", 0, 1, dtype="int8", value_depend=True, const_data=[300])]},
            ".inputs[0].const_data: 300 does not fit int8",
        ),
        ({"inputs": [tensor("x", 0, sub_format=-1)]}, ".inputs[0].sub_format: -1 is out of range"),
        ({"inputs": [tensor("x", 0, 1, is_view=True)]}, ".inputs[0]: the field 'stride' is"),
        (
            {"attrs": [{"name": "a", "dtype": "tensor", "value": 0}]},
            ".attrs[0].dtype: 'tensor' is no attribute type",
        ),
        (
            {"attrs": [{"name": "a", "dtype": "int", "value": "0"}]},
            ".attrs[0].value: '0' is a string; write an integer",
        ),
        ({"attrs": [{"name": "a", "dtype": "int"}]}, ".attrs[0]: the field 'value' is missing"),
    ],
)
def test_bad_files_name_file_and_field(fields, words, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(**fields)))
    with pytest.raises(OpInfoError) as caught:
        read_opinfo(path)
    assert f"{path}{words}" in str(caught.value)


@pytest.mark.parametrize("field", ["op_type", "inputs", "outputs", "attrs"])
def test_missing_fields_are_named(field):
    document = changed()
    del document[field]
    with pytest.raises(OpInfoError, match=f"document: the field '{field}' is missing"):
        parse_opinfo(document)


@pytest.mark.parametrize("field", ["index", "param_type", "dtype", "format", "shape"])
def test_missing_fields_of_a_tensor_are_named(field):
    document = changed()
    del document["inputs"][1][field]
    with pytest.raises(OpInfoError, match=rf"inputs\[1\]: the field '{field}' is missing"):
        parse_opinfo(document)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"op_type": NaN}', "\xff"])
def test_what_is_no_json_object_is_refused(text, tmp_path):
    (tmp_path / "bad.json").write_text(text, encoding="latin-1")
    with pytest.raises(OpInfoError, match=r"bad\.json"):
        read_opinfo(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([tensor("x", 0, 1, dtype="hifloat4")], "the type hifloat4 has no number"),
        ([tensor("x", 0, 1, format="NLC")], "the format NLC has no number"),
        (
            [tensor("x", 0, 1, dtype="float16", value_depend=True, const_data=[1])],
            "1 values of float16 cannot be in a key",
        ),
        (
            [tensor("x", 0, 33, value_depend=True, const_data=[0] * 33)],
            "33 values of float32 cannot be in a key",
        ),
    ],
)
def test_what_no_key_can_say_is_told(inputs, words):
    with pytest.raises(OpInfoError, match=words):
        simplified_key(parse_opinfo(changed(inputs=inputs)))


def test_a_shape_of_run_time_has_no_information():
    x = TensorDesc((-1,), TensorDesc.of("float16", 1).dtype, shape_range=((1, 4),))
    with pytest.raises(OpInfoError, match="give every extent"):
        OperatorInfo.of(OperatorSpec("Relu", (x,), (x,)))
