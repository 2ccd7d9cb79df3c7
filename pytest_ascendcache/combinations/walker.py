"""Changes one thing of an operator's description at a time, to each special value of its kind.

Nothing here is written for one operator type, so a field that nobody thought of is changed, too. Of
many changed descriptions, which a toolchain refuses, only that can be asked: are they refused
beside a warm cache as well?
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import lt as operator_lt
from typing import Any

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.operators.dtypes import DataType, data_type, type_names
from pytest_ascendcache.operators.spec import AttributeValue

Shape = tuple[int, ...]
Change = tuple[str, OperatorSpec]
"""What was changed, the same words for every operator, and the changed operator."""
ENTRY_OF_ITS_OWN = ("shape", "all shapes", "type", "format", "input ", "output ")
"""Beginnings of the changes that need an entry of their own even if both kernels are equal. A list
or a number may mean the same as another one: -1 is the last axis."""
SELDOM_ACCEPTED = ("type", "input ", "output ")
"""Beginnings of the changes that most operators do not take."""

_SHAPES: Mapping[str, Callable[[Shape], Shape]] = {
    "leading 1": lambda shape: (1, *shape),
    "trailing 1": lambda shape: (*shape, 1),
    "inner 1": lambda shape: (*shape[:1], 1, *shape[1:]),
    "first two swapped": lambda shape: (*shape[1::-1], *shape[2:]),
    "last two swapped": lambda shape: (*shape[:-2], *shape[:-3:-1]),
    "reversed": lambda shape: shape[::-1],
    "digits joined": lambda shape: (*shape[:-2], int("".join(map(str, shape[-2:])))),
    "digits moved": lambda shape: (*shape[:-1], int(f"1{shape[-1]}")),
    "first 0": lambda shape: (0, *shape[1:]),
    "last 0": lambda shape: (*shape[:-1], 0),
    "flat": lambda shape: (math.prod(shape),),
    "first + 1": lambda shape: (shape[0] + 1, *shape[1:]),
    "last + 1": lambda shape: (*shape[:-1], shape[-1] + 1),
    "last x 10": lambda shape: (*shape[:-1], shape[-1] * 10),
    "last + 2^8": lambda shape: (*shape[:-1], shape[-1] + (1 << 8)),
    "first + 2^16": lambda shape: (shape[0] + (1 << 16), *shape[1:]),
    "first + 2^32": lambda shape: (shape[0] + (1 << 32), *shape[1:]),
}
_LONG = 17
"""Elements of a long list."""
_ODD_TYPES = ("bool", "double", "bfloat16")
_FORMATS = ("ND", "NCHW", "NHWC", "NC1HWC0", "FRACTAL_NZ")


def walk(
    bases: Sequence[OperatorSpec], seed: int, long: Sequence[OperatorSpec] = ()
) -> Iterator[tuple[str, tuple[OperatorSpec, ...]]]:
    """For every kind of change, operators so changed, of different types in a drawn order. Of
    ``long`` ones only the lists are changed."""
    rng = random.Random(seed)
    by_kind: dict[str, list[OperatorSpec]] = {}
    for base in bases:
        changed = list(changes(base))
        rng.shuffle(changed)
        for what, one in dict(changed).items():
            by_kind.setdefault(what, []).append(one)
    for base in long:
        for what, one in changes(base):
            if what.startswith(("attribute: ", "constant: ")):
                by_kind.setdefault(f"long {what}", []).append(one)
    for what, ones in by_kind.items():
        rng.shuffle(ones)
        yield what, tuple(ones)


def with_long_lists(operator: OperatorSpec) -> Iterator[OperatorSpec]:
    """The operator with a list that goes on beyond what a careless key reads of it."""
    for place, tensor in enumerate(operator.inputs):
        if tensor.const_value:
            values = _longer(tensor.const_value)
            longer = replace(tensor, const_value=values, shape=(len(values),))
            before, after = operator.inputs[:place], operator.inputs[place + 1 :]
            yield replace(operator, inputs=(*before, longer, *after))
    for place, each in enumerate(operator.attributes):
        if isinstance(each.value, tuple) and each.value:
            attribute = Attribute(each.name, each.type, _longer(each.value))
            first, last = operator.attributes[:place], operator.attributes[place + 1 :]
            yield replace(operator, attributes=(*first, attribute, *last))


def _longer(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The list, going on in steps of 1 if it rises, else repeated."""
    last = values[-1]
    if isinstance(last, (int, float)) and all(map(operator_lt, values, values[1:])):
        return (*values, *(last + step for step in range(1, _LONG)))
    return values * math.ceil(_LONG / len(values))


def changes(operator: OperatorSpec) -> Iterator[Change]:
    """The operator with one thing changed, each under a name of what was changed. A change of
    shape or type is made in all tensors that are alike, and in one tensor alone."""
    unchanged = _key(operator)
    seen = {unchanged}
    for what, changed in (*_tensors(operator), *_attributes(operator), *_whole(operator)):
        if (key := _key(changed)) not in seen:
            seen.add(key)
            yield what, changed


def _key(operator: OperatorSpec) -> tuple[object, ...]:
    # repr, because True equals 1 and 0.0 equals -0.0.
    tensors = (operator.inputs, operator.outputs)
    return (operator.type, repr(tensors), repr(operator.attributes), operator.fuzzy)


def _tensors(operator: OperatorSpec) -> Iterator[Change]:
    tensors = (*operator.inputs, *operator.outputs)
    for shape in dict.fromkeys(each.shape for each in tensors if each.shape):
        for what, change in _SHAPES.items():
            yield f"shape: {what}", _each(operator, _reshaped(shape, change(shape)))
    for what, change in _SHAPES.items():
        yield f"all shapes: {what}", _each(operator, _every_shape(change))
    for dtype in dict.fromkeys(each.dtype for each in tensors):
        for other in _like(dtype):
            yield f"type: {dtype} as {other}", _each(operator, _retyped(dtype, other))
    for name in _FORMATS:
        yield f"format: {name}", _each(operator, partial(replace, format=name))
    yield from _origins(operator)
    for place, tensor in enumerate(tensors):
        yield from _alone(operator, place, tensor)


def _origins(operator: OperatorSpec) -> Iterator[Change]:
    """What a tensor was before a compiler gave it another layout is as the operator is now, and the
    reverse: neither stands for the other."""
    for what in ("last + 1", "first + 1", "first two swapped"):
        changed = _each(operator, partial(_moved, change=_SHAPES[what]))
        yield f"shape beside its origin: {what}", changed
    for name in _FORMATS:
        yield f"format beside its origin: {name}", _each(operator, partial(_laid_out, name=name))
    for name in _FORMATS[:3]:
        yield f"origin: {name}", _each(operator, partial(replace, origin_format=name))


def _laid_out(tensor: TensorDesc, name: str) -> TensorDesc:
    return replace(tensor, format=name, origin_format=tensor.format)


def _moved(tensor: TensorDesc, change: Callable[[Shape], Shape]) -> TensorDesc:
    if not tensor.shape or tensor.is_const:
        return tensor
    return replace(tensor, shape=change(tensor.shape), origin_shape=tensor.shape)


def _alone(operator: OperatorSpec, place: int, tensor: TensorDesc) -> Iterator[Change]:
    where = "input" if place < len(operator.inputs) else "output"

    def at(changed: TensorDesc) -> OperatorSpec:
        places = iter(range(len(operator.inputs) + len(operator.outputs)))
        return _each(operator, lambda each: changed if next(places) == place else each)

    if tensor.shape:
        for what, change in _SHAPES.items():
            yield f"{where} shape: {what}", at(replace(tensor, shape=change(tensor.shape)))
    for other in _like(tensor.dtype):
        yield f"{where} type: {tensor.dtype} as {other}", at(replace(tensor, dtype=other))
    for name in _FORMATS:
        yield f"{where} format: {name}", at(replace(tensor, format=name))
    for what, values in _lists(tensor.const_value):
        changed = replace(tensor, const_value=values, shape=(len(values),))
        yield f"constant: {what}", at(changed)


def _like(dtype: DataType) -> Iterator[DataType]:
    """Types that a careless key takes for this one: of its width, or nearly of its name."""
    for other in map(data_type, type_names()):
        stem = other.name.rstrip("0123456789")
        near = other.bits == dtype.bits or dtype.name.endswith(stem) or other.name in _ODD_TYPES
        if near and other != dtype:
            yield other


def _attributes(operator: OperatorSpec) -> Iterator[Change]:
    for place, attribute in enumerate(operator.attributes):
        before, after = operator.attributes[:place], operator.attributes[place + 1 :]
        yield "attribute: absent", replace(operator, attributes=(*before, *after))
        for what, value in _values(attribute.value):
            changed = Attribute(attribute.name, attribute.type, value)
            yield f"attribute: {what}", replace(operator, attributes=(*before, changed, *after))
        if isinstance(attribute.value, int):
            kind, of_it = ("int", int) if isinstance(attribute.value, bool) else ("float", float)
            changed = Attribute(attribute.name, kind, of_it(attribute.value))
            yield f"attribute: as {kind}", replace(operator, attributes=(*before, changed, *after))
    extra = Attribute("ascendcache_extra", "int", 1)
    yield "attribute: another", replace(operator, attributes=(*operator.attributes, extra))


def _values(value: AttributeValue) -> Iterator[tuple[str, AttributeValue]]:
    """Values that a careless key takes for this one."""
    if isinstance(value, bool):
        yield "other flag", not value
    elif isinstance(value, int):
        for what, number in (
            ("+ 1", value + 1),
            ("negated", -value),
            ("+ 2^32", value + (1 << 32)),
        ):
            yield f"number {what}", number
    elif isinstance(value, float):
        yield "nearest float", nearest_float32(value)
        yield "number negated", -value
        yield "number 0", 0.0
        yield "number -0", -0.0
    elif isinstance(value, str):
        for what, text in (("upper case", value.upper()), ("capitalised", value.capitalize())):
            yield f"text in {what}", text
        yield "empty text", ""
        yield "text and a blank", f"{value} "
    elif isinstance(value, tuple):
        yield from _lists(value)


def _lists(values: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Lists that a careless key takes for this one. Nothing for an empty list."""
    if not values:
        return
    *first, last = values
    yield "list reversed", values[::-1]
    yield "list repeated", values + values
    yield "list longer", (*values, last)
    yield "list shorter", tuple(first)
    if isinstance(last, (int, float)) and not isinstance(last, bool):
        yield "last + 1", (*first, last + 1)
        middle = len(values) // 2
        moved = (values[middle - 1] + values[middle]) / 2 if isinstance(last, float) else last + 1
        yield "one in the middle", (*values[:middle], moved, *values[middle + 1 :])
        yield "first + 1", (values[0] + 1, *values[1:])
        yield "last negated", (*first, -last)
    if isinstance(last, float):
        yield "last the nearest float", (*first, nearest_float32(last))


def nearest_float32(value: float) -> float:
    """The next float32 above a number."""
    import numpy

    return float(numpy.nextafter(numpy.float32(value), numpy.float32(math.inf)))


def _whole(operator: OperatorSpec) -> Iterator[Change]:
    inputs = operator.inputs
    yield "inputs reversed", replace(operator, inputs=inputs[::-1])
    yield "an input less", replace(operator, inputs=inputs[:-1])
    yield "an input more", replace(operator, inputs=(*inputs, *inputs[-1:]))
    yield "an output more", replace(operator, outputs=(*operator.outputs, *operator.outputs[-1:]))


def _each(operator: OperatorSpec, change: Callable[[TensorDesc], TensorDesc]) -> OperatorSpec:
    inputs, outputs = (tuple(map(change, each)) for each in (operator.inputs, operator.outputs))
    return replace(operator, inputs=inputs, outputs=outputs)


def _reshaped(old: Shape, new: Shape) -> Callable[[TensorDesc], TensorDesc]:
    return lambda each: replace(each, shape=new) if each.shape == old else each


def _every_shape(change: Callable[[Shape], Shape]) -> Callable[[TensorDesc], TensorDesc]:
    return lambda each: (
        each if not each.shape or each.is_const else replace(each, shape=change(each.shape))
    )


def _retyped(old: DataType, new: DataType) -> Callable[[TensorDesc], TensorDesc]:
    return lambda each: (
        replace(each, dtype=new) if each.dtype == old and not each.is_const else each
    )
