"""ATC's single-operator JSON (``--singleop``): reader and writer.

A file is an array of operators. An element that carries ``compile_flag`` is not an operator:
it switches fuzzy compilation for those that follow. Unknown fields are ignored, as ATC does.

Source: facts ``cann-operator-cache`` section 6.1; the error codes are ATC's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.dtypes import FORMATS, DataType, data_type, type_names
from pytest_ascendcache.operators.spec import Attribute, AttributeValue, OperatorSpec, TensorDesc

_SCALARS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "string": (str,),
    "data_type": (str, int),
}
ATTRIBUTE_TYPES = (
    *_SCALARS,
    "list_bool",
    "list_int",
    "list_float",
    "list_string",
    "list_list_int",
)


class SingleOpError(ValueError):
    """A single-operator file that cannot be used.

    ``code`` is ATC's error code; the text says what is wrong, where, and what to write instead.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_single_op(path: Path) -> tuple[OperatorSpec, ...]:
    """Read every operator of a single-operator file, in file order.

    Raises:
        SingleOpError: E10023/E10024 for the path, E10025 where it is not JSON, E10026 for a
            missing operator type, E10027 for a type or format, E10029/E10030 for an attribute,
            E10032 for a missing or mistyped field, E13014 for shapes.
    """
    if not path.is_file():
        raise SingleOpError(
            "E10023",
            f"Path [{path}] for [--singleop] is invalid: there is no such file; "
            "name a JSON file that lists operators.",
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SingleOpError(
            "E10025", f"File [{path}] is not JSON: byte {error.start} is not UTF-8."
        ) from None
    except OSError as error:
        raise SingleOpError(
            "E10024", f"File [{path}] cannot be opened: {error.strerror}."
        ) from None
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SingleOpError("E10025", f"File [{path}] is not JSON: {error}.") from None
    return parse_single_op(document, str(path))


def parse_single_op(document: object, origin: str = "document") -> tuple[OperatorSpec, ...]:
    """Turn a parsed single-operator document into operators; ``origin`` names it in errors."""
    if not isinstance(document, list):
        raise SingleOpError(
            "E10032",
            f"{origin}: the top level is {_kind(document)}; write an array of operators.",
        )
    operators: list[OperatorSpec] = []
    fuzzy = False
    for index, element in enumerate(document):
        where = f"{origin}[{index}]"
        fields = _object(element, where)
        if "compile_flag" in fields:
            fuzzy = _typed(fields["compile_flag"], int, f"{where}.compile_flag") == 1
            if "op" not in fields:
                continue
        operators.append(_operator(fields, where, fuzzy))
    if not operators:
        raise SingleOpError("E10032", f"{origin}: lists no operator; write at least one.")
    return tuple(operators)


def write_single_op(path: Path, operators: Iterable[OperatorSpec]) -> None:
    """Write operators so that :func:`read_single_op` returns equal ones."""
    document = json.dumps(single_op_document(operators), indent=2, ensure_ascii=False)
    path.write_text(document + "\n", encoding="utf-8")


def single_op_document(operators: Iterable[OperatorSpec]) -> list[dict[str, Any]]:
    """The JSON value of :func:`write_single_op`: only fields that say something."""
    document: list[dict[str, Any]] = []
    fuzzy = False
    for operator in operators:
        if operator.fuzzy != fuzzy:
            fuzzy = operator.fuzzy
            document.append({"compile_flag": int(fuzzy)})
        document.append(_operator_fields(operator))
    return document


def _operator(fields: Mapping[str, Any], where: str, fuzzy: bool) -> OperatorSpec:
    kind = fields.get("op", "")
    if not isinstance(kind, str) or not kind.strip():
        raise SingleOpError(
            "E10026", f"{where}.op: the operator type is {kind!r}; write one such as 'Add'."
        )
    return OperatorSpec(
        type=kind,
        name=_typed(fields.get("name", ""), str, f"{where}.name"),
        inputs=_tensors(fields, "input_desc", where),
        outputs=_tensors(fields, "output_desc", where),
        attributes=_attributes(fields, where),
        fuzzy=fuzzy,
    )


def _tensors(fields: Mapping[str, Any], key: str, where: str) -> tuple[TensorDesc, ...]:
    items = _typed(fields.get(key, []), list, f"{where}.{key}")
    return tuple(
        _tensor(_object(item, f"{where}.{key}[{index}]"), f"{where}.{key}[{index}]")
        for index, item in enumerate(items)
    )


def _tensor(fields: Mapping[str, Any], where: str) -> TensorDesc:
    for key in ("format", "shape", "type"):
        if key not in fields:
            raise SingleOpError(
                "E10032", f"{where}: the field '{key}' is missing; add it to the tensor."
            )
    shape = _integers(fields["shape"], f"{where}.shape")
    if any(extent < -2 for extent in shape) or (-2 in shape and len(shape) > 1):
        raise SingleOpError(
            "E13014",
            f"{where}.shape: {list(shape)} is no shape; write extents of 0 or more, -1 for an "
            "extent known at run time, or [-2] alone for an unknown rank.",
        )
    origin = fields.get("origin_shape")
    return TensorDesc(
        shape=shape,
        dtype=_data_type(fields["type"], f"{where}.type"),
        format=_format(fields["format"], f"{where}.format"),
        name=_typed(fields.get("name", ""), str, f"{where}.name"),
        origin_format=_format(fields["origin_format"], f"{where}.origin_format")
        if "origin_format" in fields
        else "",
        origin_shape=None if origin is None else _integers(origin, f"{where}.origin_shape"),
        shape_range=_ranges(fields.get("shape_range", []), shape, f"{where}.shape_range"),
        dynamic_input=_typed(fields.get("dynamic_input", ""), str, f"{where}.dynamic_input"),
        is_const=_typed(fields.get("is_const", False), bool, f"{where}.is_const"),
        const_value=_constants(fields.get("const_value", []), f"{where}.const_value"),
    )


def _ranges(value: object, shape: tuple[int, ...], where: str) -> tuple[tuple[int, int], ...]:
    pairs = tuple(_integers(pair, where) for pair in _typed(value, list, where))
    unknown = sum(extent == -1 for extent in shape)
    if pairs and len(pairs) != unknown:
        raise SingleOpError(
            "E13014",
            f"{where}: {len(pairs)} ranges for {unknown} extents of -1; write one pair for each.",
        )
    for pair in pairs:
        if len(pair) != 2 or pair[0] < 0 or (pair[1] != -1 and pair[1] < pair[0]):
            raise SingleOpError(
                "E13014",
                f"{where}: {list(pair)} is no range; write [lowest, highest], -1 for no bound.",
            )
    return tuple((pair[0], pair[1]) for pair in pairs)


def _constants(value: object, where: str) -> tuple[float | int | bool, ...]:
    items = _typed(value, list, where)
    for item in items:
        if not isinstance(item, (int, float, bool)):
            raise SingleOpError("E10032", f"{where}: {item!r} is no number; write a flat list.")
    return tuple(items)


def _attributes(fields: Mapping[str, Any], where: str) -> tuple[Attribute, ...]:
    items = _typed(fields.get("attr", []), list, f"{where}.attr")
    attributes = tuple(
        _attribute(_object(item, f"{where}.attr[{index}]"), f"{where}.attr[{index}]")
        for index, item in enumerate(items)
    )
    names = [each.name for each in attributes]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise SingleOpError("E10029", f"{where}.attr: '{repeated}' is set twice; keep one.")
    return attributes


def _attribute(fields: Mapping[str, Any], where: str) -> Attribute:
    for key in ("name", "type", "value"):
        if key not in fields:
            raise SingleOpError("E10029", f"{where}: the field '{key}' is missing; add it.")
    name = _typed(fields["name"], str, f"{where}.name")
    kind = fields["type"]
    if not name:
        raise SingleOpError("E10029", f"{where}.name: is empty; name the attribute.")
    if kind not in ATTRIBUTE_TYPES:
        raise SingleOpError(
            "E10029",
            f"{where}.type: {kind!r} is no attribute type; write one of "
            f"{', '.join(ATTRIBUTE_TYPES)}.",
        )
    return Attribute(name, kind, _attribute_value(fields["value"], kind, f"{where}.value"))


def _attribute_value(value: Any, kind: str, where: str) -> AttributeValue:
    if kind == "list_list_int":
        rows = value if isinstance(value, list) else [value]
        return tuple(tuple(_elements(row, "int", where)) for row in rows)
    if kind.startswith("list_"):
        return tuple(_elements(value, kind.removeprefix("list_"), where))
    return _scalar(value, kind, where)


def _elements(value: Any, kind: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise SingleOpError("E10030", f"{where}: {value!r} is no list; write [...] of {kind}.")
    return [_scalar(item, kind, where) for item in value]


def _scalar(value: Any, kind: str, where: str) -> Any:
    allowed = _SCALARS[kind]
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind != "bool"):
        raise SingleOpError("E10030", f"{where}: {value!r} is not of type {kind}.")
    return float(value) if kind == "float" else value


def _data_type(value: object, where: str) -> DataType:
    try:
        return data_type(value) if isinstance(value, str) else data_type("")
    except KeyError:
        raise SingleOpError(
            "E10027",
            f"{where}: {value!r} is no data type; write one of {', '.join(type_names())}.",
        ) from None


def _format(value: object, where: str) -> str:
    if not isinstance(value, str) or value.upper() not in FORMATS:
        raise SingleOpError(
            "E10027",
            f"{where}: {value!r} is no format; write one of {', '.join(sorted(FORMATS))}.",
        )
    return value.upper()


def _integers(value: object, where: str) -> tuple[int, ...]:
    items = _typed(value, list, where)
    for item in items:
        _typed(item, int, where)
    return tuple(items)


def _object(value: object, where: str) -> Mapping[str, Any]:
    checked: Mapping[str, Any] = _typed(value, dict, where)
    return checked


def _typed(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise SingleOpError(
            "E10032", f"{where}: {value!r} is {_kind(value)}; write {_KINDS[kind]}."
        )
    return value


_KINDS: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "an integer",
    bool: "true or false",
    float: "a number",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _operator_fields(operator: OperatorSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {"op": operator.type}
    if operator.name:
        fields["name"] = operator.name
    fields["input_desc"] = [_tensor_fields(each) for each in operator.inputs]
    fields["output_desc"] = [_tensor_fields(each) for each in operator.outputs]
    if operator.attributes:
        fields["attr"] = [
            {"name": each.name, "type": each.type, "value": each.value}
            for each in operator.attributes
        ]
    return fields


def _tensor_fields(tensor: TensorDesc) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "format": tensor.format,
        "shape": list(tensor.shape),
        "type": tensor.dtype.name,
    }
    optional = {
        "name": tensor.name,
        "origin_format": tensor.origin_format,
        "origin_shape": None if tensor.origin_shape is None else list(tensor.origin_shape),
        "shape_range": [list(pair) for pair in tensor.shape_range],
        "dynamic_input": tensor.dynamic_input,
        "is_const": tensor.is_const,
        "const_value": list(tensor.const_value),
    }
    keep_empty = {"origin_shape"} if tensor.origin_shape is not None else set()
    fields.update({key: value for key, value in optional.items() if value or key in keep_empty})
    return fields
