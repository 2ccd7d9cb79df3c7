"""The writer and the parser of simplified keys agree on every operator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_ascendcache.contract.simplified_key import KeyTensor, difference, read_key
from pytest_ascendcache.operators import Attribute, TensorDesc, simplified_key
from pytest_ascendcache.operators.dtypes import FORMAT_NUMBERS, TYPE_NUMBERS
from pytest_ascendcache.operators.opinfo import InfoTensor, OperatorInfo

WRITTEN_BY_CANN = json.loads(
    (Path(__file__).parent.parent / "operators" / "simplified_keys.json").read_text()
)
SPELT = {"float": "float32", "bf16": "bfloat16"}
CONSTANT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 64, "bool": 64}

extents = st.lists(st.sampled_from((0, 1, 2, 15, 16, 17, 255, 4097)), max_size=8).map(tuple)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(sorted(TYPE_NUMBERS)))
    tensor = TensorDesc.of(dtype, *draw(extents), format=draw(st.sampled_from(["ND", "NCHW"])))
    if dtype in CONSTANT_BITS and draw(st.booleans()):
        bits = 2 if dtype == "bool" else 7
        low = -(2**bits) if dtype.startswith("int") else 0
        values = draw(st.lists(st.integers(low, 2**bits - 1), max_size=4))
        tensor = replace(tensor, is_const=True, const_value=tuple(values))
    return tensor


@st.composite
def parameters(draw, index):
    kind = draw(st.sampled_from(("one", "one", "absent", "several")))
    if kind == "absent":
        return None
    if kind == "one":
        return InfoTensor(draw(tensors()), index)
    members = draw(st.lists(tensors(), min_size=1, max_size=3))
    return tuple(InfoTensor(each, index, "dynamic") for each in members)


ATTRIBUTES = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda value: ("int", value)),
    st.booleans().map(lambda value: ("bool", value)),
    st.floats(width=32, allow_nan=False).map(lambda value: ("float", value)),
    st.text("abcXYZ09_", min_size=1, max_size=6).map(lambda value: ("string", value)),
    st.lists(st.integers(-9, 9), max_size=4).map(lambda value: ("list_int", tuple(value))),
)


@st.composite
def operators(draw):
    places = draw(st.integers(1, 4))
    attributes = draw(st.lists(ATTRIBUTES, max_size=3))
    return OperatorInfo(
        type=draw(st.sampled_from(("Add", "MatMulV2", "ConcatD"))),
        inputs=tuple(draw(parameters(place)) for place in range(places)),
        outputs=(InfoTensor(draw(tensors()), 0),),
        attributes=tuple(
            Attribute(f"a{place}", kind, value) for place, (kind, value) in enumerate(attributes)
        ),
        impl_mode=draw(st.sampled_from(("", "high_performance", "high_precision"))),
        deterministic=draw(st.booleans()),
    )


def expected_parameter(parameter):
    """Return the expected reading of a parameter, using only the tables of numbers."""
    members = parameter if isinstance(parameter, tuple) else (parameter,)
    return tuple(
        KeyTensor(
            TYPE_NUMBERS[each.tensor.dtype.name],
            FORMAT_NUMBERS[each.tensor.format],
            each.tensor.shape,
            tuple(
                int(value) % 2 ** CONSTANT_BITS[each.tensor.dtype.name]
                for value in each.tensor.const_value
            )
            if each.tensor.is_const
            else None,
        )
        for each in members
        if each is not None
    )


@settings(max_examples=100, deadline=None)
@given(operators())
def test_what_is_written_is_read_back(info):
    reading = read_key(simplified_key(info))
    assert (reading.type, reading.deterministic, reading.impl_mode) == (
        info.type,
        info.deterministic,
        info.impl_mode,
    )
    assert reading.parameters == tuple(
        expected_parameter(each) for each in (*info.inputs, *info.outputs)
    )
    assert len(reading.attributes) == len(info.attributes)


@settings(max_examples=100, deadline=None)
@given(operators(), st.data())
def test_one_changed_field_changes_the_key_and_is_named(info, data):
    field = data.draw(st.sampled_from(("output", "input", "attribute", "deterministic")))
    if field == "deterministic":
        other = replace(info, deterministic=not info.deterministic)
    elif field == "output":
        tensor = data.draw(tensors())
        assume(tensor != info.outputs[0].tensor)
        other = replace(info, outputs=(replace(info.outputs[0], tensor=tensor),))
    elif field == "input":
        place = data.draw(st.integers(0, len(info.inputs) - 1))
        changed = data.draw(parameters(place))
        assume(expected_parameter(changed) != expected_parameter(info.inputs[place]))
        other = replace(info, inputs=(*info.inputs[:place], changed, *info.inputs[place + 1 :]))
    else:
        assume(info.attributes)
        kind, value = data.draw(ATTRIBUTES)
        first = info.attributes[0]
        assume(kind == first.type and repr(value) != repr(first.value))
        other = replace(info, attributes=(replace(first, value=value), *info.attributes[1:]))
    ours, theirs = simplified_key(info), simplified_key(other)
    assume(
        expected_parameter(info.outputs[0]) != expected_parameter(other.outputs[0])
        or field != "output"
    )
    assert ours != theirs
    place = "parameter" if field in ("input", "output") else field
    assert place in difference(ours, theirs)
    assert difference(ours, ours) == ""


@pytest.mark.parametrize("case", WRITTEN_BY_CANN, ids=lambda each: each["key"][:40])
def test_the_vendor_s_keys_are_read(case):
    reading, dump = read_key(case["key"]), case["opinfo"]
    assert reading.type == dump["op_type"]
    assert reading.deterministic == (dump["deterministic"] == "true")
    described = [*dump["inputs"], *dump["outputs"]]
    assert len(reading.parameters) == len(described)
    for tensors_read, expected in zip(reading.parameters, described, strict=True):
        members = expected if isinstance(expected, list) else [expected] if expected else []
        assert [each.extents for each in tensors_read] == [tuple(each["shape"]) for each in members]
        assert [each.dtype for each in tensors_read] == [
            TYPE_NUMBERS[SPELT.get(each["dtype"], each["dtype"])] for each in members
        ]
    attributes = [each["value"] for each in dump.get("attrs", [])]
    assert len(reading.attributes) == (0 if attributes == [""] else len(attributes))


@pytest.mark.parametrize(
    "text", ["", "Add", "Add/d=2,p=0/", "Add/d=0,p=0", "Add/d=0,p=0/0,2,(4)", "Add/d=0,p=0/0,(4)/"]
)
def test_what_is_no_key_is_refused(text):
    with pytest.raises(ValueError, match=r"Add|begin"):
        read_key(text)
