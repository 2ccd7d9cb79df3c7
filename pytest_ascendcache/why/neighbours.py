"""Without a record: requests near this one, of which the cache may have the kernels.

Many variants of operators are compiled in one run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from pytest_ascendcache.operators import (
    OperatorSpec,
    SingleOpError,
    TensorDesc,
    data_type,
    read_single_op,
)
from pytest_ascendcache.operators.singleop import single_op_document
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.why.lab import Lab
from pytest_ascendcache.why.request import Attempt, InputKind, PlaceOfUse, SingleChange

_TYPES = ("float16", "float32", "bfloat16", "int32")
_FORMATS = ("ND", "NCHW", "NHWC")
_BATCHES = (1, 2, 4, 8, 16, 32)
_MOST = 480
"""Variants in one run."""
_TRIES = 9
"""Runs for variants."""
_LAYOUTS: Mapping[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    "without extents of 1": lambda shape: tuple(each for each in shape if each != 1),
    "with 1 in front": lambda shape: (1, *shape),
    "with 1 behind": lambda shape: (*shape, 1),
    "transposed": lambda shape: (*shape[:-2], *reversed(shape[-2:])),
}
_Variant = tuple[OperatorSpec, str, OperatorSpec]
"""An operator, how it is changed, and what it becomes."""


def unclaimed(place: PlaceOfUse, outcome: Attempt) -> bool:
    """Whether there are entries of the types that a run missed, of none of its keys."""
    entries = place.entries
    stems = {outcome.keys[name] for name in outcome.missed}
    units = {type(each) for each in entries.values()}
    types = {unit(stem, place.cache).operator_type for unit in units for stem in stems}
    types -= {"", *stems}
    is_any = not types or bool(place.options.get(atc.MODEL))
    others = entries.keys() - {*outcome.keys.values()}
    return any(is_any or entries[each].operator_type in types for each in others)


def other_requests(lab: Lab, place: PlaceOfUse, outcome: Attempt) -> list[SingleChange]:
    """Changes of operators that turn them into ones that the cache serves, each for all operators
    in which it is the same."""
    try:
        operators = read_single_op(Path(place.options[atc.SINGLE_OP]))
    except (KeyError, SingleOpError, OSError):
        return []
    if any(each.fuzzy for each in operators):
        return []
    missed = [each for each in operators if each.name in outcome.missed]
    # The likely variants of all operators come first: a run ends at one that cannot be compiled.
    turns = zip_longest(*([(each, *made) for made in _variants(each)] for each in missed))
    chosen = [each for turn in turns for each in turn if each is not None and each[0] != each[2]][
        :_MOST
    ]
    tried = {f"variant{number}": each for number, each in enumerate(chosen)}
    served = _served(lab, place, tried, {*outcome.keys.values()})
    found: dict[str, dict[str, OperatorSpec]] = defaultdict(dict)
    done: set[str] = set()
    for name, (operator, label, variant) in tried.items():
        if name in served and operator.name not in done:
            done.add(operator.name)
            found[label][operator.name] = variant.named(operator.name)
    return [_operator_change(label, operators, become) for label, become in found.items()]


def _operator_change(
    label: str, operators: tuple[OperatorSpec, ...], become: Mapping[str, OperatorSpec]
) -> SingleChange:
    first = next(iter(become))
    before = next(each for each in operators if each.name == first)

    def apply(place: PlaceOfUse) -> PlaceOfUse:
        given = place.files.get(atc.SINGLE_OP) or json.dumps(single_op_document(operators))
        given = given if isinstance(given, str) else given.read_text(encoding="utf-8")
        changed = dict(zip(become, single_op_document([*become.values()]), strict=True))
        document = [changed.get(str(each.get("name")), each) for each in json.loads(given)]
        return replace(place, files={**place.files, atc.SINGLE_OP: json.dumps(document)})

    return SingleChange(InputKind.OPERATOR, label, said(before), said(become[first]), apply, first)


def said(operator: OperatorSpec) -> str:
    """An operator with types, shapes and formats of its inputs, and its attributes."""
    tensors = ", ".join(
        f"{each.dtype.name}[{','.join(map(str, each.shape))}] {each.format}"
        for each in operator.inputs
    )
    values = ", ".join(f"{each.name}={each.value}" for each in operator.attributes)
    return f"{operator.type}({tensors}{'; ' + values if values else ''})"


def _served(
    lab: Lab, place: PlaceOfUse, tried: Mapping[str, _Variant], wanted: set[str]
) -> set[str]:
    """The variants that the cache serves, except kernels that are ``wanted`` as they are.

    One that cannot be compiled ends a run. It is repeated with those behind it that are changed in
    another way; if nothing shows how far it came, each way is tried in a run of its own.
    """
    served: set[str] = set()
    groups = [[*tried]]
    for turn in range(_TRIES):
        if turn >= len(groups) or not (left := groups[turn]):
            break
        text = json.dumps(single_op_document([tried[name][2].named(name) for name in left]))
        outcome = lab.run(replace(place, files={**place.files, atc.SINGLE_OP: text}))
        served |= {
            name
            for name, was in outcome.delivered.items()
            if was and outcome.keys[name] not in wanted
        }
        if not outcome.failure:
            continue
        rest = [name for name in left if name not in outcome.delivered]
        if outcome.delivered and rest:
            groups.append([name for name in rest if tried[name][1] != tried[rest[0]][1]])
        elif turn == 0:
            ways: dict[str, list[str]] = defaultdict(list)
            for name in left:
                ways[_way(tried[name][1])].append(name)
            groups += ways.values()
    return served


def _way(label: str) -> str:
    first, _, last = label.partition(" as ")
    return last or first.split()[0]


def _variants(operator: OperatorSpec) -> Iterator[tuple[str, OperatorSpec]]:
    tensors = [*operator.inputs, *operator.outputs]
    batch = next((each.shape[0] for each in tensors if each.shape), 0)
    for other in (*_BATCHES, batch + 1, batch - 1):
        if batch > 0 and other > 0 and other != batch:
            yield f"batch {other}", _shaped(operator, batch, other, first=True)
    for name in dict.fromkeys(each.dtype.name for each in tensors):
        for dtype in _TYPES if name in _TYPES else ():
            if dtype != name:
                yield f"{name} as {dtype}", _mapped(operator, partial(_typed, name, dtype))
    for name in dict.fromkeys(each.format for each in tensors):
        for form in _FORMATS:
            if form != name:
                yield f"{name} as {form}", _mapped(operator, partial(_formatted, name, form))
    for extent in dict.fromkeys(each for tensor in tensors for each in tensor.shape if each > 0):
        for other in (extent + 1, extent - 1, extent * 2, extent // 2, -(-extent // 16) * 16):
            if other > 0 and other != extent:
                yield f"extent {other} for {extent}", _shaped(operator, extent, other)
    for label, change in _LAYOUTS.items():
        yield label, _mapped(operator, partial(_laid_out, change))
    for number, attribute in enumerate(operator.attributes):
        if isinstance(attribute.value, bool):
            others = [*operator.attributes]
            others[number] = replace(attribute, value=not attribute.value)
            label = f"{attribute.name}={not attribute.value}"
            yield label, replace(operator, attributes=tuple(others))


def _typed(old: str, new: str, tensor: TensorDesc) -> TensorDesc:
    return replace(tensor, dtype=data_type(new)) if tensor.dtype.name == old else tensor


def _formatted(old: str, new: str, tensor: TensorDesc) -> TensorDesc:
    return replace(tensor, format=new) if tensor.format == old else tensor


def _laid_out(
    change: Callable[[tuple[int, ...]], tuple[int, ...]], tensor: TensorDesc
) -> TensorDesc:
    return replace(tensor, shape=change(tensor.shape))


def _mapped(operator: OperatorSpec, change: Callable[[TensorDesc], TensorDesc]) -> OperatorSpec:
    return replace(
        operator,
        inputs=tuple(map(change, operator.inputs)),
        outputs=tuple(map(change, operator.outputs)),
    )


def _shaped(operator: OperatorSpec, old: int, new: int, first: bool = False) -> OperatorSpec:
    def change(tensor: TensorDesc) -> TensorDesc:
        places = range(min(1, len(tensor.shape)) if first else len(tensor.shape))
        shape = [*tensor.shape]
        for place in places:
            shape[place] = new if shape[place] == old else shape[place]
        return replace(tensor, shape=tuple(shape))

    return _mapped(operator, change)
