"""ATC's single-operator files: reading them, writing them, and the errors about bad ones."""

from __future__ import annotations

import errno
import json
import os

import pytest

from pytest_ascendcache.operators import (
    Attribute,
    OperatorSpec,
    SingleOpError,
    TensorDesc,
    data_type,
    read_single_op,
    write_single_op,
)
from pytest_ascendcache.operators.network import read_network
from pytest_ascendcache.operators.singleop import MOST_BYTES, parse_single_op, single_op_document

X = {"format": "ND", "shape": [2, 3], "type": "float16"}
ADD = {"op": "Add", "input_desc": [X, X], "output_desc": [X]}
ABSENT = {"format": "RESERVED", "shape": [], "type": "UNDEFINED"}


def tensor(**fields):
    """Return a document of one operator with one input. A field that is ``None`` is left out."""
    described = {key: value for key, value in {**X, **fields}.items() if value is not None}
    return [{"op": "Abs", "input_desc": [described], "output_desc": [X]}]


def attribute(kind, value, name="a"):
    fields = {"name": name, "type": kind, "value": value}
    return [{**ADD, "attr": [{key: each for key, each in fields.items() if each is not ...}]}]


def refused(document):
    with pytest.raises(SingleOpError) as error:
        parse_single_op(document, "ops.json")
    return error.value.code, str(error.value)


def test_the_documented_example():
    (spec,) = parse_single_op(
        [
            {
                "op": "Sqrt",
                "name": "probe_sqrt",
                "input_desc": [{"format": "ND", "shape": [16, 32], "type": "float16"}],
                "output_desc": [{"format": "ND", "shape": [16, 32], "type": "float16"}],
            }
        ]
    )
    x = TensorDesc.of("float16", 16, 32)
    assert spec == OperatorSpec("Sqrt", (x,), (x,), name="probe_sqrt")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("half", "float16"),
        ("fp16", "float16"),
        ("FLOAT", "float32"),
        ("Double", "double"),
        ("bfloat16", "bfloat16"),
    ],
)
def test_types_have_aliases_in_any_case(written, read):
    (spec,) = parse_single_op(tensor(type=written))
    assert spec.inputs[0].dtype is data_type(read)


@pytest.mark.parametrize("written", ["nc1hwc0", "NC1HWC0", "Nc1hwC0"])
def test_formats_are_read_in_any_case(written):
    (spec,) = parse_single_op(tensor(format=written, origin_format=written))
    assert (spec.inputs[0].format, spec.inputs[0].origin_format) == ("NC1HWC0", "NC1HWC0")


def test_an_unconnected_input():
    (spec,) = parse_single_op([{**ADD, "input_desc": [X, {**ABSENT, "type": "undefined"}]}])
    assert [each.is_absent for each in spec.inputs] == [False, True]


def test_operators_may_share_a_name_and_unknown_fields_are_ignored():
    operators = parse_single_op([{**ADD, "name": "a", "comment": "x"}, {**ADD, "name": "a"}])
    assert operators[0] == operators[1]


def test_compile_flag_switches_fuzzy_on_for_good():
    flag = {"compile_flag": 1}
    operators = parse_single_op([ADD, flag, ADD, {**ADD, "compile_flag": 0}, flag, ADD])
    assert [spec.fuzzy for spec in operators] == [False, True, True, True]


def test_an_operator_beside_compile_flag_1_is_skipped_as_atc_skips_it():
    assert len(parse_single_op([{**ADD, "compile_flag": 1}, ADD])) == 1


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("bool", False, False),
        ("int", -(2**63), -(2**63)),
        ("float", 2, 2.0),
        ("string", "", ""),
        ("list_bool", [True], (True,)),
        ("list_int", [], ()),
        ("list_float", [1, 2.5], (1.0, 2.5)),
        ("list_string", ["ä"], ("ä",)),
        ("list_list_int", [[1], []], ((1,), ())),
        ("data_type", "DT_FLOAT", "DT_FLOAT"),
        ("data_type", 1, 1),
    ],
)
def test_attributes_of_every_type(kind, value, read):
    (spec,) = parse_single_op(attribute(kind, value))
    assert spec.attributes == (Attribute("a", kind, read),)
    assert type(spec.attribute("a")) is type(read)
    if kind == "list_float":
        assert [type(each) for each in spec.attribute("a")] == [float, float]


OBJECT = {"an": "object"}
HUGE = 10**400


@pytest.mark.parametrize(
    ("document", "code", "where", "message"),
    [
        ({}, "E10032", "", "the top level is an object; write an array of operators"),
        ([], "E10032", "", "lists no operator; write at least one"),
        ([{"compile_flag": 1}], "E10032", "", "lists no operator"),
        ([1], "E10032", "[0]", "1 is an integer; write an object"),
        ([ADD, None], "E10032", "[1]", "None is null; write an object"),
        ([{"compile_flag": True}], "E10032", "[0].compile_flag", "True is true or false; write an"),
        ([{"compile_flag": 0}], "E10026", "[0].op", "the operator type is ''"),
        ([{**ADD, "op": " "}], "E10026", "[0].op", "the operator type is ' '; write one such as"),
        ([{**ADD, "op": 1}], "E10032", "[0].op", "1 is an integer; write a string"),
        ([{**ADD, "name": []}], "E10032", "[0].name", "[] is an array; write a string"),
        ([{**ADD, "input_desc": X}], "E10032", "[0].input_desc", "is an object; write an array"),
        (tensor(format=None), "E10032", "[0].input_desc[0]", "the field 'format' is missing"),
        (tensor(shape=None), "E10032", "[0].input_desc[0]", "the field 'shape' is missing"),
        (tensor(type=None), "E10032", "[0].input_desc[0]", "the field 'type' is missing"),
        (tensor(type="float8"), "E10027", ".type", "'float8' is no data type; write one of"),
        (tensor(type=1), "E10032", ".type", "1 is an integer; write a string"),
        (tensor(format="NWHC"), "E10027", ".format", "'NWHC' is no format; write one of"),
        (tensor(origin_format="NWHC"), "E10027", ".origin_format", "'NWHC' is no format"),
        (tensor(format=False), "E10032", ".format", "False is true or false; write a string"),
        (tensor(type="UNDEFINED"), "E10027", "input_desc[0]", "UNDEFINED with format ND"),
        (tensor(format="reserved"), "E10027", "input_desc[0]", "float16 with format RESERVED"),
        ([{**ADD, "output_desc": [ABSENT]}], "E10027", "output_desc[0]", "unconnected input alone"),
        (tensor(shape=4), "E10032", ".shape", "4 is an integer; write an array"),
        (tensor(shape=[2.0]), "E10032", ".shape", "2.0 is a number; write an integer"),
        (tensor(shape=[True]), "E10032", ".shape", "True is true or false; write an integer"),
        (tensor(shape=[2**63]), "E10032", ".shape", "9223372036854775808 does not fit int64"),
        (tensor(shape=[-3]), "E13014", ".shape", "[-3] is no shape"),
        (tensor(shape=[-2, 1]), "E13014", ".shape", "[-2] alone for an unknown rank"),
        (tensor(shape=[-1]), "E13014", ".shape_range", "0 ranges for 1 extents of -1"),
        (tensor(shape_range=[[1, 2]]), "E13014", ".shape_range", "1 ranges for 0 extents"),
        (tensor(shape=[-2], shape_range=[[1, 2]]), "E13014", ".shape_range", "for 0 extents"),
        (tensor(shape=[-1], shape_range=[[1]]), "E13014", ".shape_range", "[1] is no range"),
        (tensor(shape=[-1], shape_range=[[4, 2]]), "E13014", ".shape_range", "[4, 2] is no range"),
        (tensor(shape=[-1], shape_range=[[-1, 2]]), "E13014", ".shape_range", "[-1, 2] is no"),
        (tensor(shape=[-1], shape_range=[3]), "E10032", ".shape_range", "3 is an integer"),
        (tensor(is_const=1), "E10032", ".is_const", "1 is an integer; write true or false"),
        (tensor(const_value=1), "E10032", ".const_value", "1 is an integer; write an array"),
        (
            tensor(const_value=[[1]]),
            "E10032",
            ".const_value",
            "[1] is no number; write a flat list",
        ),
        (tensor(const_value=[True]), "E10032", ".const_value", "True is no number"),
        (tensor(const_value=[65505]), "E10032", ".const_value", "65505 does not fit float16"),
        (tensor(type="int8", const_value=[128]), "E10032", ".const_value", "from -128 to 127"),
        (tensor(type="int8", const_value=[1.0]), "E10032", ".const_value", "1.0 is no int8"),
        (tensor(type="bool", const_value=[1]), "E13006", ".const_value", "type bool cannot be"),
        ([{**ADD, "attr": {}}], "E10032", "[0].attr", "{} is an object; write an array"),
        (attribute("int", 1, name=...), "E10032", ".attr[0]", "the field 'name' is missing"),
        (attribute(..., 1), "E10032", ".attr[0]", "the field 'type' is missing"),
        (attribute("int", ...), "E10032", ".attr[0]", "the field 'value' is missing"),
        (attribute("int", 1, name=""), "E10029", ".attr[0].name", "is empty; name the attribute"),
        (attribute("list", 1), "E13006", ".type", "'list' is no attribute type; write one of bool"),
        (attribute(["int"], 1), "E10032", ".type", "['int'] is an array; write a string"),
        (attribute("bool", 1), "E10032", ".value", "1 is an integer; write true or false"),
        (attribute("int", True), "E10032", ".value", "True is true or false; write an integer"),
        (attribute("int", 1.0), "E10032", ".value", "1.0 is a number; write an integer"),
        (attribute("int", None), "E10032", ".value", "None is null; write an integer"),
        (attribute("int", 2**63), "E10032", ".value", "does not fit int64"),
        (attribute("float", "1"), "E10032", ".value", "'1' is a string; write a number"),
        (attribute("float", True), "E10032", ".value", "True is true or false; write a number"),
        (attribute("float", 1e39), "E10032", ".value", "1e+39 does not fit float32"),
        (attribute("float", float("nan")), "E10032", ".value", "nan does not fit float32"),
        (attribute("float", HUGE), "E10032", ".value", "... does not fit float32"),
        (attribute("float", 10**5000), "E10032", ".value", "an integer of thousands of digits"),
        (attribute("string", 1), "E10032", ".value", "1 is an integer; write a string"),
        (attribute("data_type", 1.5), "E10032", ".value", "write a type such as 'DT_FLOAT'"),
        (attribute("data_type", 2**31), "E10032", ".value", "does not fit int32"),
        (attribute("list_int", 1), "E10032", ".value", "1 is an integer; write an array"),
        (attribute("list_int", [False]), "E10032", ".value", "False is true or false; write an"),
        (attribute("list_float", ["a"]), "E10032", ".value", "'a' is a string; write a number"),
        (attribute("list_list_int", [1]), "E10032", ".value", "1 is an integer; write an array"),
        (attribute("list_list_int", 1), "E10032", ".value", "1 is an integer; write an array"),
        (attribute("string", "\ud800"), "E10025", ".value", "half a surrogate pair"),
        ([{**ADD, "name": "a\udc00"}], "E10025", "[0].name", "half a surrogate pair"),
        (attribute("string", [OBJECT] * 99), "E10032", ".value", "... is an array; write a string"),
    ],
)
def test_what_is_refused(document, code, where, message):
    refused_code, text = refused(document)
    assert (refused_code, message in text) == (code, True), text
    assert text.startswith("ops.json")
    assert where in text.split(": ")[0]
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 500


def test_an_attribute_set_twice_is_refused():
    pair = attribute("int", 1)[0]["attr"] * 2
    assert refused([{**ADD, "attr": pair}]) == (
        "E10029",
        "ops.json[0].attr: 'a' is set twice; keep one.",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value: line 1 column 1"),
        (b"[{]", "line 1 column 3"),
        (b"[NaN]", "NaN is no finite number"),
        (b"[-Infinity]", "-Infinity is no finite number"),
        (b"[1e999]", "1e999 is no finite number"),
        (b"[" + b"1" * 5000 + b"]", "a number of 5000 digits is too long; correct it there"),
        (b"[" * 100_000, "its arrays or objects are nested too deeply"),
        (b'["\xe9"]', "byte 2 is not UTF-8; save it as UTF-8"),
        ('["a"]'.encode("utf-16"), "byte 0 is not UTF-8"),
    ],
)
def test_files_that_are_not_json(tmp_path, content, message):
    path = tmp_path / "ops.json"
    path.write_bytes(content)
    with pytest.raises(SingleOpError) as error:
        read_single_op(path)
    text = str(error.value)
    assert (error.value.code, message in text) == ("E10025", True), text
    assert text.startswith(f"File [{path}] is not JSON: ")
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 500 + len(str(path))


def test_a_byte_order_mark_is_no_content(tmp_path):
    path = tmp_path / "ops.json"
    path.write_text(json.dumps([ADD]), encoding="utf-8-sig")
    assert read_single_op(path)[0].type == "Add"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".", "it is a directory"),
        ("missing.json", "no such file or directory"),
        ("file/ops.json", "not a directory"),
        ("loop", "symbolic links"),
        ("x" * 300, "file name too long"),
        ("a\0b", "it has a null character"),
        ("pipe", "it is no regular file"),
    ],
)
def test_paths_that_are_no_file(tmp_path, name, reason):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SingleOpError) as error:
        read_single_op(tmp_path / name)
    assert error.value.code == "E10023"
    assert reason in str(error.value)
    assert str(error.value).endswith("; name a JSON file that lists operators.")


@pytest.mark.parametrize("read", [read_single_op, read_network])
def test_a_file_that_is_too_large_is_not_read(tmp_path, read):
    path = tmp_path / "ops.json"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ValueError, match="cannot be read: it is larger than 64 mib; name a JSON"):
        read(path)


@pytest.mark.parametrize(("number", "reason"), [(errno.EACCES, "permission denied"), (5, "error")])
def test_a_file_that_cannot_be_read(tmp_path, monkeypatch, number, reason):
    """A patch makes reading fail, because tests may run as root, who can read files of any mode."""
    path = tmp_path / "ops.json"
    path.write_text("[]")

    def fail(_path, _most):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("pytest_ascendcache.operators.singleop.read_input", fail)
    with pytest.raises(SingleOpError) as error:
        read_single_op(path)
    assert error.value.code == "E10024"
    assert str(error.value).startswith(f"File [{path}] cannot be opened: ")
    assert reason in str(error.value)


def test_what_is_written_is_read_again(tmp_path):
    half, whole = data_type("float16"), data_type("int64")
    first = OperatorSpec(
        "Everything",
        (
            TensorDesc((), half, name="scalar"),
            TensorDesc((0, 2), half, "NCHW", "x", "NHWC", ()),
            TensorDesc((2,), whole, is_const=True, const_value=(-(2**63), 2**63 - 1)),
            TensorDesc((2,), half, is_const=True, const_value=(0.1, -0.0)),
            TensorDesc((1,), half, dynamic_input="d"),
            TensorDesc((), data_type("UNDEFINED"), "RESERVED"),
        ),
        (TensorDesc((1,), half),),
        (Attribute("l", "list_list_int", ((), (1,))), Attribute("f", "float", 1e-12)),
        name="naïve\n字",
    )
    second = OperatorSpec(
        "Abs",
        (TensorDesc((-1, 3), half, shape_range=((0, -1),)),),
        (TensorDesc((-2,), half),),
        fuzzy=True,
    )
    path = tmp_path / "ops.json"
    write_single_op(path, [first, second, second])
    assert read_single_op(path) == (first, second, second)
    assert single_op_document([second, second])[0] == {"compile_flag": 1}
    assert len(single_op_document([second, second])) == 3


def test_fuzzy_compilation_cannot_be_written_off_again():
    precise = OperatorSpec("Add", (), ())
    fuzzy = OperatorSpec("Add", (), (), fuzzy=True)
    with pytest.raises(ValueError, match="list fuzzy operators last"):
        single_op_document([fuzzy, precise])


def test_numbers_json_has_none_for_are_not_written(tmp_path):
    spec = OperatorSpec("Add", (), (), (Attribute("a", "float", float("inf")),))
    path = tmp_path / "ops.json"
    with pytest.raises(ValueError, match="JSON"):
        write_single_op(path, [spec])
    assert not path.exists()
