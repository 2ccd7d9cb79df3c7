"""Reads and writes ATC's single-operator JSON (``--singleop``).

A file is an array of operators. An element with ``compile_flag`` 1 is not an operator: it switches
fuzzy compilation on for all later operators, and nothing switches it off again. Unknown fields are
ignored, as in ATC, and two operators may have the same name.

The reader rejects what ATC silently changes: a fraction instead of an integer (ATC truncates it), a
number that its type cannot hold, an attribute that is set twice.

Source: facts ``cann-operator-cache`` section 6.1 and CANN's ``single_op_parser.cc``; the error
codes are ATC's.
"""

from __future__ import annotations

import errno
import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pytest_ascendcache.files import read_input
from pytest_ascendcache.operators.dtypes import FORMATS, DataType, data_type, type_names
from pytest_ascendcache.operators.spec import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.words.wrong_use import checked_path

_Kind = TypeVar("_Kind")

_SCALARS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "string": (str,),
    "data_type": (str, int),
}
_LISTS = ("list_bool", "list_int", "list_float", "list_string", "list_list_int")
ATTRIBUTE_TYPES = (*_SCALARS, *_LISTS)


class SingleOpError(ValueError):
    """A single-operator file that cannot be used.

    ``code`` is ATC's error code. The text says what is wrong, where, and what to write instead.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_single_op(path: Path | str) -> tuple[OperatorSpec, ...]:
    """Read every operator of a single-operator file, in file order.

    Raises:
        SingleOpError: E10023, the path is no file; E10024, it cannot be read; E10025, it is not
            JSON; E10026, an operator type is missing; E10027, the type or format of a tensor;
            E10029, the name of an attribute; E10032, a missing or mistyped field; E13006, the type
            of an attribute or constant; E13014, a shape.
    """
    named = checked_path("the path of read_single_op()", path)
    document = parsed_json(file_content(named, "--singleop", "lists operators"), named)
    return parse_single_op(document, str(named))


MOST_BYTES = 64 << 20
"""The most bytes of a file that describes operators."""


def file_content(path: Path, parameter: str, purpose: str) -> bytes:
    """The content of a regular file that ``parameter`` names.

    ``purpose`` completes "name a JSON file that" in messages. Raises ``SingleOpError`` (E10023) if
    the path is no file, or (E10024) if it cannot be read or has more than ``MOST_BYTES``.
    """
    try:
        if path.is_file() or not path.exists():
            return read_input(path, MOST_BYTES)
        reason = "it is a directory" if path.is_dir() else "it is no regular file"
    except ValueError:
        reason = "it has a null character"  # Python's message differs between releases
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        if error.errno == errno.EFBIG:
            raise SingleOpError(
                "E10024",
                f"File [{path}] cannot be read: {reason}; name a JSON file that {purpose}.",
            ) from None
        if error.errno not in _NO_SUCH_PATH:
            raise SingleOpError(
                "E10024", f"File [{path}] cannot be opened: {reason}; make it readable."
            ) from None
    raise SingleOpError(
        "E10023",
        f"Path [{path}] for [{parameter}] is invalid: {reason}; name a JSON file that {purpose}.",
    )


_MOST_DIGITS = 1000
"""The most digits of an integer; the largest float64 has 309."""
_NO_SUCH_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def parsed_json(content: bytes, path: Path) -> object:
    """The value of a JSON file with finite numbers. Raises as :func:`read_single_op`."""
    try:
        return json.loads(
            content.decode("utf-8-sig"),
            parse_constant=_refuse_number,
            parse_float=_finite,
            parse_int=_whole,
        )
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8; save it as UTF-8"
    except RecursionError:
        reason = "its arrays or objects are nested too deeply; an operator needs six levels"
    except ValueError as error:
        reason = f"{error}; correct it there"
    raise SingleOpError("E10025", f"File [{path}] is not JSON: {reason}.")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _refuse_number(text)
    return value


def _whole(text: str) -> int:
    # Since 3.10.7 Python has its own limit, with a different message in every release.
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too long")
    return int(text)


def _refuse_number(text: str) -> None:
    raise ValueError(f"{text[:40]} is no finite number")


def parse_single_op(document: object, origin: str = "document") -> tuple[OperatorSpec, ...]:
    """Turn a parsed single-operator document into operators; ``origin`` names it in errors.

    Raises ``SingleOpError`` like :func:`read_single_op`, except for the path and the JSON.
    """
    if not isinstance(document, list):
        raise SingleOpError(
            "E10032", f"{origin}: the top level is {_kind(document)}; write an array of operators."
        )
    operators: list[OperatorSpec] = []
    fuzzy = False
    for index, element in enumerate(document):
        where = f"{origin}[{index}]"
        fields = typed(element, dict, where)
        if typed(fields.get("compile_flag", 0), int, f"{where}.compile_flag") == 1:
            fuzzy = True
            continue
        operators.append(_operator(fields, where, fuzzy))
    if not operators:
        raise SingleOpError("E10032", f"{origin}: lists no operator; write at least one.")
    return tuple(operators)


def write_single_op(path: Path, operators: Iterable[OperatorSpec]) -> None:
    """Write the file of :func:`single_op_text`, with its errors."""
    path.write_text(single_op_text(operators), encoding="utf-8")


def single_op_text(operators: Iterable[OperatorSpec]) -> str:
    """A file of operators, of which :func:`read_single_op` returns equal ones.

    Raises ``ValueError`` if the format cannot express an operator; see :func:`single_op_document`.
    Infinite numbers and NaN cannot be written, either.
    """
    # One operator per line: every run writes a file, and the indenting encoder is ten times slower.
    lines = ",\n".join(
        json.dumps(each, ensure_ascii=False, allow_nan=False)
        for each in single_op_document(operators)
    )
    return f"[\n{lines}\n]\n"


def single_op_document(operators: Iterable[OperatorSpec]) -> list[dict[str, Any]]:
    """The JSON value that :func:`write_single_op` writes, without fields that have their default.

    Raises ``ValueError`` if an operator that is not fuzzy follows a fuzzy one.
    """
    document: list[dict[str, Any]] = []
    fuzzy = False
    for operator in operators:
        if operator.fuzzy and not fuzzy:
            fuzzy = True
            document.append({"compile_flag": 1})
        elif fuzzy and not operator.fuzzy:
            raise ValueError(
                f"{operator}: follows a fuzzy operator, and compile_flag cannot be switched off; "
                "list fuzzy operators last or in a file of their own."
            )
        document.append(_operator_fields(operator))
    return document


def _operator(fields: Mapping[str, Any], where: str, fuzzy: bool) -> OperatorSpec:
    kind = typed(fields.get("op", ""), str, f"{where}.op")
    if not kind.strip():
        raise SingleOpError(
            "E10026", f"{where}.op: the operator type is {kind!r}; write one such as 'Add'."
        )
    return OperatorSpec(
        type=kind,
        name=typed(fields.get("name", ""), str, f"{where}.name"),
        inputs=_tensors(fields, "input_desc", where),
        outputs=_tensors(fields, "output_desc", where),
        attributes=parse_attributes(fields, where),
        fuzzy=fuzzy,
    )


def _tensors(fields: Mapping[str, Any], key: str, where: str) -> tuple[TensorDesc, ...]:
    tensors = []
    for index, item in enumerate(typed(fields.get(key, []), list, f"{where}.{key}")):
        place = f"{where}.{key}[{index}]"
        tensor = parse_tensor(typed(item, dict, place), place)
        no_type, no_format = tensor.dtype.name == "UNDEFINED", tensor.format == "RESERVED"
        if no_type != no_format or (no_type and key == "output_desc"):
            raise SingleOpError(
                "E10027",
                f"{place}: type {tensor.dtype} with format {tensor.format} is no tensor; "
                "UNDEFINED and RESERVED stand together, for an unconnected input alone.",
            )
        tensors.append(tensor)
    return tuple(tensors)


def parse_tensor(fields: Mapping[str, Any], where: str) -> TensorDesc:
    """One tensor of a file; ``where`` names it in errors. Raises as :func:`read_single_op`."""
    _require(fields, ("format", "shape", "type"), where, "tensor")
    shape = _integers(fields["shape"], f"{where}.shape")
    if any(extent < -2 for extent in shape) or (-2 in shape and len(shape) > 1):
        raise SingleOpError(
            "E13014",
            f"{where}.shape: {list(shape)} is no shape; write extents of 0 or more, -1 for an "
            "extent known at run time, or [-2] alone for an unknown rank.",
        )
    origin = fields.get("origin_shape")
    dtype = _data_type(fields["type"], f"{where}.type")
    return TensorDesc(
        shape=shape,
        dtype=dtype,
        format=_format(fields["format"], f"{where}.format"),
        name=typed(fields.get("name", ""), str, f"{where}.name"),
        origin_format=_format(fields["origin_format"], f"{where}.origin_format")
        if "origin_format" in fields
        else "",
        origin_shape=None if origin is None else _integers(origin, f"{where}.origin_shape"),
        shape_range=_ranges(fields.get("shape_range", []), shape, f"{where}.shape_range"),
        dynamic_input=typed(fields.get("dynamic_input", ""), str, f"{where}.dynamic_input"),
        is_const=typed(fields.get("is_const", False), bool, f"{where}.is_const"),
        const_value=parse_constants(fields.get("const_value", []), dtype, f"{where}.const_value"),
    )


def _require(fields: Mapping[str, Any], keys: Iterable[str], where: str, noun: str) -> None:
    for key in keys:
        if key not in fields:
            raise SingleOpError(
                "E10032", f"{where}: the field '{key}' is missing; add it to the {noun}."
            )


def _ranges(value: object, shape: tuple[int, ...], where: str) -> tuple[tuple[int, int], ...]:
    pairs = tuple(_integers(pair, where) for pair in typed(value, list, where))
    unknown = sum(extent == -1 for extent in shape)
    if len(pairs) != unknown:
        raise SingleOpError(
            "E13014",
            f"{where}: {len(pairs)} ranges for {unknown} extents of -1; write one "
            "[lowest, highest] for each, [0, -1] where there is no bound.",
        )
    for pair in pairs:
        if len(pair) != 2 or pair[0] < 0 or (pair[1] != -1 and pair[1] < pair[0]):
            raise SingleOpError(
                "E13014",
                f"{where}: {list(pair)} is no range; write [lowest, highest], -1 for no bound.",
            )
    return tuple((pair[0], pair[1]) for pair in pairs)


def parse_constants(value: object, dtype: DataType, where: str) -> tuple[float | int, ...]:
    """The elements of a constant, which must fit its type. Raises as :func:`read_single_op`."""
    items = typed(value, list, where)
    if items and dtype.name not in CONSTANT_TYPES:
        raise SingleOpError(
            "E13006",
            f"{where}: a constant of type {dtype} cannot be written; use one of "
            f"{', '.join(sorted(CONSTANT_TYPES))}.",
        )
    for item in items:
        if not isinstance(item, (int, float)) or isinstance(item, bool):
            raise SingleOpError(
                "E10032", f"{where}: {_shown(item)} is no number; write a flat list of numbers."
            )
        if isinstance(item, float) and "int" in dtype.name:
            raise SingleOpError("E10032", f"{where}: {item!r} is no {dtype}; write an integer.")
        _in_range(item, dtype.name, where)
    return tuple(items)


def parse_attributes(fields: Mapping[str, Any], where: str) -> tuple[Attribute, ...]:
    """The attributes of an operator. Raises as :func:`read_single_op`."""
    items = typed(fields.get("attr", []), list, f"{where}.attr")
    attributes = tuple(
        _attribute(typed(item, dict, f"{where}.attr[{index}]"), f"{where}.attr[{index}]")
        for index, item in enumerate(items)
    )
    names = [each.name for each in attributes]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise SingleOpError("E10029", f"{where}.attr: '{repeated}' is set twice; keep one.")
    return attributes


def _attribute(fields: Mapping[str, Any], where: str) -> Attribute:
    _require(fields, ("name", "type", "value"), where, "attribute")
    name = typed(fields["name"], str, f"{where}.name")
    kind = typed(fields["type"], str, f"{where}.type")
    if not name:
        raise SingleOpError("E10029", f"{where}.name: is empty; name the attribute.")
    if kind not in ATTRIBUTE_TYPES:
        raise SingleOpError(
            "E13006",
            f"{where}.type: {kind!r} is no attribute type; write one of "
            f"{', '.join(ATTRIBUTE_TYPES)}.",
        )
    return Attribute(name, kind, _attribute_value(fields["value"], kind, f"{where}.value"))


def _attribute_value(value: Any, kind: str, where: str) -> Any:
    if kind.startswith("list_"):
        of = kind.removeprefix("list_")
        return tuple(_attribute_value(item, of, where) for item in typed(value, list, where))
    return _scalar(value, kind, where)


def _scalar(value: Any, kind: str, where: str) -> Any:
    allowed = _SCALARS[kind]
    fits = isinstance(value, allowed) and (kind == "bool" or not isinstance(value, bool))
    if not fits:
        raise SingleOpError(
            "E10032", f"{where}: {_shown(value)} is {_kind(value)}; write {_SCALAR_NAMES[kind]}."
        )
    if isinstance(value, str):
        return typed(value, str, where)
    if kind != "bool":
        _in_range(value, {"float": "float32", "data_type": "int32"}.get(kind, "int64"), where)
    return float(value) if kind == "float" else value


def _in_range(value: float | int, dtype: str, where: str) -> None:
    """Check that ``dtype`` can hold a number, which ATC would otherwise change silently."""
    lowest, highest = _LIMITS[dtype]
    if not lowest <= value <= highest:
        raise SingleOpError(
            "E10032",
            f"{where}: {_shown(value)} does not fit {dtype}; write a number from {lowest} "
            f"to {highest}.",
        )


def _data_type(value: object, where: str) -> DataType:
    name = typed(value, str, where)
    try:
        return data_type("UNDEFINED" if name.upper() == "UNDEFINED" else name.lower())
    except KeyError:
        raise SingleOpError(
            "E10027", f"{where}: {name!r} is no data type; write one of {', '.join(type_names())}."
        ) from None


def _format(value: object, where: str) -> str:
    name: str = typed(value, str, where)
    if name.upper() not in FORMATS:
        raise SingleOpError(
            "E10027", f"{where}: {name!r} is no format; write one of {', '.join(sorted(FORMATS))}."
        )
    return name.upper()


def _integers(value: object, where: str) -> tuple[int, ...]:
    items = typed(value, list, where)
    for item in items:
        _in_range(typed(item, int, where), "int64", where)
    return tuple(items)


def typed(value: object, kind: type[_Kind], where: str) -> _Kind:
    """``value``, which must be of that kind. Raises as :func:`read_single_op`."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SingleOpError(
            "E10032", f"{where}: {_shown(value)} is {_kind(value)}; write {_KINDS[kind]}."
        )
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        raise SingleOpError(
            "E10025", f"{where}: {value!r} holds half a surrogate pair; write both halves."
        )
    return value


def _shown(value: object) -> str:
    """``value`` in a message, shortened: a file may have megabytes instead of a number."""
    try:
        text = repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


_KINDS: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "an integer",
    bool: "true or false",
    float: "a number",
    type(None): "null",
}
_SCALAR_NAMES = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "string": "a string",
    "data_type": "a type such as 'DT_FLOAT' or its number",
}
_LIMITS: dict[str, tuple[float, float]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "float16": (-65504.0, 65504.0),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38),
    "double": (-sys.float_info.max, sys.float_info.max),
}
CONSTANT_TYPES = frozenset(_LIMITS)
"""The names of the element types that a constant can have."""


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _operator_fields(operator: OperatorSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {"op": operator.type}
    if operator.name:
        fields["name"] = operator.name
    fields["input_desc"] = [tensor_fields(each) for each in operator.inputs]
    fields["output_desc"] = [tensor_fields(each) for each in operator.outputs]
    return {**fields, **attribute_fields(operator)}


def attribute_fields(operator: OperatorSpec) -> dict[str, Any]:
    """The field ``attr`` of an operator, if it has attributes."""
    attributes = [
        {"name": each.name, "type": each.type, "value": each.value} for each in operator.attributes
    ]
    return {"attr": attributes} if attributes else {}


def tensor_fields(tensor: TensorDesc) -> dict[str, Any]:
    """The fields of a tensor in a file, without those that have their default."""
    fields: dict[str, Any] = {
        "format": tensor.format,
        "shape": list(tensor.shape),
        "type": tensor.dtype.name,
    }
    optional = {
        "name": tensor.name,
        "origin_format": tensor.origin_format,
        "shape_range": [list(pair) for pair in tensor.shape_range],
        "dynamic_input": tensor.dynamic_input,
        "is_const": tensor.is_const,
        "const_value": list(tensor.const_value),
    }
    fields.update({key: value for key, value in optional.items() if value})
    if tensor.origin_shape is not None:
        fields["origin_shape"] = list(tensor.origin_shape)
    return fields
