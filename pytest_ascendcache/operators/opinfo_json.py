"""Reads and writes operator information as JSON.

The reader is stricter than CANN's, which takes an unknown format as NCHW.
Source: facts ``static-kernel`` sections 2.4 and 7.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.opinfo import (
    InfoTensor,
    OperatorInfo,
    OpInfoError,
    Parameter,
    View,
    members,
    type_name,
)
from pytest_ascendcache.operators.singleop import (
    SingleOpError,
    file_content,
    parse_attributes,
    parse_tensor,
    parsed_json,
    typed,
)
from pytest_ascendcache.operators.spec import Attribute

TUNE_MODES = ("all", "tune", "static_kernel")
PARAM_TYPES = ("required", "optional", "dynamic", "")
_READ = frozenset(
    {
        *("op_type", "tune_mode", "impl_mode", "deterministic", "bin_filename"),
        *("inputs", "outputs", "attrs"),
    }
)
_SPELLINGS = {
    "bool": ("bool",),
    "int": ("int", "int32", "int64"),
    "float": ("float", "float32"),
    "string": ("str", "string"),
    "data_type": ("data_type",),
    "list_bool": ("list_bool", "listBool"),
    "list_int": ("list_int", "listInt", "list_data_type"),
    "list_float": ("list_float", "listFloat"),
    "list_string": ("list_str", "list_string"),
    "list_list_int": ("list_list_int", "listListInt"),
}
_ATTRIBUTE_TYPES = {name: kind for kind, names in _SPELLINGS.items() for name in names}
"""ATC's name of an attribute type, by its spelling in dumps."""
_WRITTEN_TYPES = {"string": "str", "list_string": "list_str"}


def read_opinfo(path: Path) -> OperatorInfo:
    """Read the information about one operator.

    Raises ``OpInfoError`` if the file cannot be read or is not JSON, or a field is missing,
    mistyped or impossible. The text names the file and the field.
    """
    try:
        document = parsed_json(
            file_content(path, "--op_params_dir", "describes an executed operator"), path
        )
        return parse_opinfo(document, str(path))
    except SingleOpError as error:
        raise OpInfoError(str(error)) from None


def parse_opinfo(document: object, origin: str = "document") -> OperatorInfo:
    """Turn a parsed document into operator information; ``origin`` names it in errors.

    Raises ``OpInfoError`` like :func:`read_opinfo`, except for the file and the JSON.
    """
    try:
        return _information(typed(document, dict, origin), origin)
    except SingleOpError as error:
        raise OpInfoError(str(error)) from None


def write_opinfo(path: Path, info: OperatorInfo) -> None:
    """Write operator information; equal information gives equal bytes."""
    path.write_text(opinfo_text(info), encoding="utf-8")


def opinfo_text(info: OperatorInfo) -> str:
    """The text that :func:`write_opinfo` writes."""
    return json.dumps(opinfo_document(info), indent=2, sort_keys=True, allow_nan=False) + "\n"


def opinfo_document(info: OperatorInfo) -> dict[str, Any]:
    """The JSON value that :func:`write_opinfo` writes."""
    document: dict[str, Any] = {
        **info.extra,
        "op_type": info.type,
        "tune_mode": info.tune_mode,
        "impl_mode": info.impl_mode,
        "deterministic": str(info.deterministic).lower(),
        "inputs": [_parameter_fields(each) for each in info.inputs],
        "outputs": [_parameter_fields(each) for each in info.outputs],
        "attrs": [
            {
                "name": each.name,
                "dtype": _WRITTEN_TYPES.get(each.type, each.type),
                "value": each.value,
                "index": index,
            }
            for index, each in enumerate(info.attributes)
        ],
    }
    if info.bin_filename:
        document["bin_filename"] = info.bin_filename
    return document


def _information(fields: Mapping[str, Any], where: str) -> OperatorInfo:
    kind = _due(fields, "op_type", str, where)
    if not kind.strip():
        raise OpInfoError(f"{where}.op_type: is empty; write a type such as 'Add'.")
    deterministic = _one_of(fields, "deterministic", ("false", "true"), "false", where)
    return OperatorInfo(
        type=kind,
        inputs=_parameters(fields, "inputs", where),
        outputs=_parameters(fields, "outputs", where),
        attributes=_attributes(fields, where),
        impl_mode=typed(fields.get("impl_mode", ""), str, f"{where}.impl_mode"),
        deterministic=deterministic == "true",
        tune_mode=_one_of(fields, "tune_mode", TUNE_MODES, "all", where),
        bin_filename=typed(fields.get("bin_filename", ""), str, f"{where}.bin_filename"),
        extra={key: value for key, value in fields.items() if key not in _READ},
    )


def _due(fields: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in fields:
        raise OpInfoError(f"{where}: the field '{key}' is missing; add it.")
    return typed(fields[key], kind, f"{where}.{key}")


def _one_of(
    fields: Mapping[str, Any], key: str, allowed: Iterable[str], default: str, where: str
) -> str:
    value: str = typed(fields.get(key, default), str, f"{where}.{key}")
    if value not in allowed:
        known = ", ".join(repr(each) for each in allowed)
        raise OpInfoError(f"{where}.{key}: {value!r} is not known; write one of {known}.")
    return value


def _parameters(fields: Mapping[str, Any], key: str, where: str) -> tuple[Parameter, ...]:
    parameters: list[Parameter] = []
    last = -1
    for place, item in enumerate(_due(fields, key, list, where)):
        at = f"{where}.{key}[{place}]"
        if item is None:
            parameters.append(None)
            continue
        if isinstance(item, list):
            parameters.append(tuple(_tensor(each, f"{at}[{n}]") for n, each in enumerate(item)))
        else:
            parameters.append(_tensor(item, at))
        indexes = {each.index for each in members(parameters[-1])}
        if len(indexes) > 1 or min(indexes, default=last + 1) <= last:
            raise OpInfoError(
                f"{at}.index: {sorted(indexes)} does not come after {last}; number the "
                f"{key} in the order of the operator's prototype, each with one number."
            )
        last = max(indexes, default=last)
    return tuple(parameters)


def _tensor(item: object, where: str) -> InfoTensor:
    fields = typed(item, dict, where)
    index = _due(fields, "index", int, where)
    if index < 0:
        raise OpInfoError(f"{where}.index: {index} is no place in a prototype; write 0 or more.")
    _due(fields, "param_type", str, where)
    shape = _due(fields, "shape", list, where)
    if any(type(extent) is int and extent < 0 for extent in shape):
        raise OpInfoError(
            f"{where}.shape: {shape} is not static; a static kernel is compiled for extents of 0 "
            "or more."
        )
    dtype = _due(fields, "dtype", str, where)
    described = {
        "shape": shape,
        "type": "bfloat16" if dtype.lower() == "bf16" else dtype,
        "format": _due(fields, "format", str, where),
        "name": fields.get("name", ""),
        **_origin(fields, shape, where),
        **_constant(fields, shape, where),
    }
    try:
        tensor = parse_tensor(described, where)
    except SingleOpError as error:
        # Single-operator files name two of the fields differently.
        text = str(error).replace(f"{where}.type", f"{where}.dtype")
        raise OpInfoError(text.replace(f"{where}.const_value", f"{where}.const_data")) from None
    if tensor.dtype.name == "UNDEFINED":
        raise OpInfoError(f"{where}.dtype: 'undefined' is no type; write null for no tensor.")
    if "RESERVED" in (tensor.format, tensor.origin_format):
        raise OpInfoError(f"{where}.format: 'RESERVED' is no format; write null for no tensor.")
    return InfoTensor(
        tensor=tensor,
        index=index,
        param_type=_one_of(fields, "param_type", PARAM_TYPES, "", where),
        sub_format=_small(fields, "sub_format", 0xFFFF, where),
        c0_format=_small(fields, "c0_format", 0xF, where),
        view=_view(fields, len(shape), where),
    )


def _origin(fields: Mapping[str, Any], shape: list[Any], where: str) -> dict[str, Any]:
    """Origin shape and format if they differ from the tensor's."""
    origin: dict[str, Any] = {}
    if fields.get("origin_shape", shape) != shape:
        origin["origin_shape"] = fields["origin_shape"]
    name = typed(fields.get("origin_format", ""), str, f"{where}.origin_format")
    if name and name.upper() != str(fields["format"]).upper():
        origin["origin_format"] = name
    return origin


def _constant(fields: Mapping[str, Any], shape: list[Any], where: str) -> dict[str, Any]:
    """The elements of a tensor if the kernel depends on them."""
    if not typed(fields.get("value_depend", False), bool, f"{where}.value_depend"):
        return {}
    elements = _due(fields, "const_data", list, where)
    if len(elements) > math.prod(shape):
        raise OpInfoError(
            f"{where}.const_data: {len(elements)} elements for the shape {shape}; write its "
            "elements, in row-major order."
        )
    return {"is_const": True, "const_value": elements}


def _small(fields: Mapping[str, Any], key: str, highest: int, where: str) -> int:
    value: int = typed(fields.get(key, 0), int, f"{where}.{key}")
    if not 0 <= value <= highest:
        raise OpInfoError(f"{where}.{key}: {value} is out of range; write 0 to {highest}.")
    return value


def _view(fields: Mapping[str, Any], rank: int, where: str) -> View | None:
    if not typed(fields.get("is_view", False), bool, f"{where}.is_view"):
        return None
    stride = _due(fields, "stride", list, where)
    if len(stride) != rank or not all(type(each) is int for each in stride):
        raise OpInfoError(f"{where}.stride: {stride} is none; write an integer for each extent.")
    return View(tuple(stride), typed(fields.get("offset", 0), int, f"{where}.offset"))


def _attributes(fields: Mapping[str, Any], where: str) -> tuple[Attribute, ...]:
    """The attributes in the list's order, since CANN ignores their ``index``."""
    items = []
    for place, item in enumerate(_due(fields, "attrs", list, where)):
        at = f"{where}.attrs[{place}]"
        attribute = typed(item, dict, at)
        dtype = _due(attribute, "dtype", str, at)
        if dtype not in _ATTRIBUTE_TYPES:
            raise OpInfoError(
                f"{at}.dtype: {dtype!r} is no attribute type; write one of "
                f"{', '.join(_ATTRIBUTE_TYPES)}."
            )
        typed(attribute.get("index", place), int, f"{at}.index")
        described = {key: attribute[key] for key in ("name", "value") if key in attribute}
        items.append({**described, "type": _ATTRIBUTE_TYPES[dtype]})
    try:
        return parse_attributes({"attr": items}, where)
    except SingleOpError as error:
        raise OpInfoError(str(error).replace(f"{where}.attr", f"{where}.attrs")) from None


def _parameter_fields(parameter: Parameter) -> Any:
    if parameter is None:
        return None
    if isinstance(parameter, tuple):
        return [_tensor_fields(each) for each in parameter]
    return _tensor_fields(parameter)


def _tensor_fields(described: InfoTensor) -> dict[str, Any]:
    tensor = described.tensor
    origin = tensor.shape if tensor.origin_shape is None else tensor.origin_shape
    fields: dict[str, Any] = {
        "name": tensor.name,
        "index": described.index,
        "param_type": described.param_type,
        "dtype": type_name(tensor.dtype),
        "format": tensor.format,
        "shape": list(tensor.shape),
        "origin_shape": list(origin),
        "origin_format": tensor.origin_format or tensor.format,
        "value_depend": tensor.is_const,
    }
    if tensor.is_const:
        fields["const_data"] = list(tensor.const_value)
    if described.sub_format:
        fields["sub_format"] = described.sub_format
    if described.c0_format:
        fields["c0_format"] = described.c0_format
    if described.view is not None:
        view = {"stride": list(described.view.stride), "offset": described.view.offset}
        fields.update({"is_view": True, **view})
    return fields
