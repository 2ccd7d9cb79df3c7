"""Simplified keys, by which the runtime finds a static kernel.

A key is ``Op/d=<0|1>,p=<0|1|2>``, then a slash before each input and output, then a slash and the
attributes, joined by slashes. The last slash is there without attributes, too.

A tensor is ``<type>,<format>,(<extents>)``, or ``_`` if it is missing. Tensors of a dynamic input
are joined by ``;``. A tensor whose value the kernel depends on is followed by ``,[<values>]``.
Numbers are hexadecimal. CANN's installer compares keys as text, so these equal CANN's byte for
byte; ``tests/operators/simplified_keys.json`` has keys that CANN 8.1 writes.

Source: facts ``static-kernel`` section 2.5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pytest_ascendcache.operators.dtypes import FORMAT_NUMBERS, TYPE_NUMBERS
from pytest_ascendcache.operators.opinfo import InfoTensor, OperatorInfo, OpInfoError, Parameter
from pytest_ascendcache.operators.spec import Attribute

_MODES = {"high_performance": 1, "high_precision": 2}
MOST_VALUES = 32
"""The most elements of a tensor in a key."""


def simplified_key(info: OperatorInfo, deterministic: bool | None = None) -> str:
    """The key of an operator; ``deterministic`` overrides the value in ``info``.

    A view has the key of a complete tensor, since the runtime falls back to that key if it finds no
    kernel with strides. Raises ``OpInfoError`` if no key can express a type or format without a
    number, more than 32 values, or values of a half type.
    """
    flag = info.deterministic if deterministic is None else deterministic
    head = f"{info.type}/d={int(flag)},p={_MODES.get(info.impl_mode, 0)}"
    parameters = [_parameter(each, info) for each in (*info.inputs, *info.outputs)]
    attributes = "/".join(_attribute(each) for each in info.attributes)
    return "/".join([head, *parameters, attributes])


def value_depend_indexes(info: OperatorInfo) -> list[int]:
    """The places in the prototype of the inputs whose values are in the key."""
    return [
        parameter.index
        for parameter in info.inputs
        if isinstance(parameter, InfoTensor) and parameter.tensor.is_const
    ]


def _parameter(parameter: Parameter, info: OperatorInfo) -> str:
    if parameter is None:
        return "_"
    if isinstance(parameter, tuple):
        return ";".join(_tensor(each, info) for each in parameter)
    return _tensor(parameter, info)


def _tensor(described: InfoTensor, info: OperatorInfo) -> str:
    tensor = described.tensor
    name = f"{info.type}: {tensor.name or f'tensor {described.index}'}"
    if tensor.dtype.name not in TYPE_NUMBERS:
        raise OpInfoError(f"{name}: the type {tensor.dtype} has no number; use another type.")
    if tensor.format not in FORMAT_NUMBERS:
        raise OpInfoError(f"{name}: the format {tensor.format} has no number; use another format.")
    number = FORMAT_NUMBERS[tensor.format] | described.sub_format << 8 | described.c0_format << 24
    extents = ",".join(f"{extent:x}" for extent in tensor.shape)
    text = f"{TYPE_NUMBERS[tensor.dtype.name]:x},{number:x},({extents})"
    if not tensor.is_const:
        return text
    if len(tensor.const_value) > MOST_VALUES or tensor.dtype.name in ("float16", "bfloat16"):
        raise OpInfoError(
            f"{name}: {len(tensor.const_value)} values of {tensor.dtype} cannot be in a key; it "
            f"takes at most {MOST_VALUES}, of no half type."
        )
    write = _FLOATS.get(tensor.dtype.name)
    mask = (1 << _BITS.get(tensor.dtype.name, 64)) - 1
    values = (write(each) if write else f"{int(each) & mask:x}" for each in tensor.const_value)
    return f"{text},[{','.join(values)}]"


def _attribute(attribute: Attribute) -> str:
    return _value(attribute.value, attribute.type)


def _value(value: Any, kind: str) -> str:
    if kind.startswith("list_"):
        of = kind.removeprefix("list_")
        return f"[{','.join(_value(each, of) for each in value)}]"
    return _SCALARS[kind](value)


def _integer(value: Any) -> str:
    """The two's complement of 64 bits."""
    return f"{int(value) & 0xFFFFFFFFFFFFFFFF:x}"


def _float(value: Any) -> str:
    return struct.pack(">f", value).hex()


def _double(value: Any) -> str:
    return struct.pack(">d", value).hex()


def _string(value: Any) -> str:
    """The numbers of the characters, from last to first."""
    return "".join(f"{ord(each):x}" for each in reversed(str(value)))


def _type(value: Any) -> str:
    return _string(value) if isinstance(value, str) else _integer(value)


_BITS = {"int8": 8, "int16": 16, "int32": 32}
"""Bits of a negative element's two's complement, which the runtime extends by zeros."""
_FLOATS: dict[str, Callable[[Any], str]] = {"float32": _float, "double": _double}
_SCALARS: dict[str, Callable[[Any], str]] = {
    "bool": _integer,
    "int": _integer,
    "float": _float,
    "string": _string,
    "data_type": _type,
}
