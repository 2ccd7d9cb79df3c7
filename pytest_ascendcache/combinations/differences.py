"""The differences between two operators, and the operators between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc


def differences(one: OperatorSpec, other: OperatorSpec) -> list[str]:
    """Every differing field except names, as ``field: value of one -> value of other``."""
    changes = [] if one.type == other.type else [f"type: {one.type} -> {other.type}"]
    for role, ours, theirs in (
        ("input", one.inputs, other.inputs),
        ("output", one.outputs, other.outputs),
    ):
        for place in range(max(len(ours), len(theirs))):
            changes += _of_tensors(f"{role} {place}", ours[place:], theirs[place:])
    mine, yours = ({each.name: each for each in spec.attributes} for spec in (one, other))
    for name in [*mine, *(name for name in yours if name not in mine)]:
        if mine.get(name) != yours.get(name):
            changes.append(
                f"attribute {name}: {_shown(mine.get(name))} -> {_shown(yours.get(name))}"
            )
    return changes


def between(one: OperatorSpec, other: OperatorSpec) -> Iterator[OperatorSpec]:
    """``other`` with one field, or related fields, of ``one``; not all of them can be compiled."""
    if one.type != other.type:
        yield replace(other, type=one.type)
    for each in _one_tensor_changed(one.inputs, other.inputs):
        yield replace(other, inputs=each)
    for each in _one_tensor_changed(one.outputs, other.outputs):
        yield replace(other, outputs=each)
    if one.inputs != other.inputs and one.outputs != other.outputs:
        yield replace(other, inputs=one.inputs, outputs=one.outputs)
    mine, yours = ({each.name: each for each in spec.attributes} for spec in (one, other))
    for name in {**mine, **yours}:
        if mine.get(name) != yours.get(name):
            kept = tuple(each for each in other.attributes if each.name != name)
            yield replace(other, attributes=(*kept, *((mine[name],) if name in mine else ())))


def _one_tensor_changed(
    ours: tuple[TensorDesc, ...], theirs: tuple[TensorDesc, ...]
) -> Iterator[tuple[TensorDesc, ...]]:
    """``theirs`` with one tensor of ``ours``, then with all of them."""
    if len(ours) == len(theirs):
        for place, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
            if mine != yours:
                yield (*theirs[:place], mine, *theirs[place + 1 :])
    if ours != theirs:
        yield ours


def _of_tensors(
    role: str, ours: tuple[TensorDesc, ...], theirs: tuple[TensorDesc, ...]
) -> list[str]:
    if not ours or not theirs:
        return [f"{role}: {'absent' if not ours else ours[0].dtype} -> "
                f"{'absent' if not theirs else theirs[0].dtype}"]  # fmt: skip
    one, other = ours[0], theirs[0]
    return [
        f"{role} {each.name}: {_plain(getattr(one, each.name))} -> "
        f"{_plain(getattr(other, each.name))}"
        for each in fields(TensorDesc)
        if each.name != "name" and getattr(one, each.name) != getattr(other, each.name)
    ]


def _shown(attribute: Attribute | None) -> str:
    return "absent" if attribute is None else _plain(attribute.value)


def _plain(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
