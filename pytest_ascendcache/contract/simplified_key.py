"""Parsing simplified keys: the operator that a key stands for.

``operators/simplified_key.py`` writes keys, for the reference and for the suite. This parser
follows the vendor's grammar and shares no code with the writer. If every part of an operator can
be read back from its key, no two operators share a key.
Source: facts ``static-kernel`` section 2.5; ``tests/operators/simplified_keys.json`` contains keys
that CANN 8.1 writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"d=([01]),p=([012])")
_TENSOR = re.compile(r"([0-9a-f]+),([0-9a-f]+),\(([0-9a-f,]*)\)(?:,\[([0-9a-f,]*)\])?")
_ABSENT = "_"
PRECISIONS = ("", "high_performance", "high_precision")
"""The implementation modes, indexed by the number after ``p=``."""


@dataclass(frozen=True)
class KeyTensor:
    """A tensor in a key.

    ``dtype`` and ``format`` are the graph engine's numbers, ``extents`` are elements per
    dimension, and ``values`` are the bits of the elements that a kernel depends on.
    """

    dtype: int
    format: int
    extents: tuple[int, ...]
    values: tuple[int, ...] | None = None


@dataclass(frozen=True)
class KeyReading:
    """A parsed key.

    ``parameters`` are the prototype's inputs, then its outputs; an absent one and an empty list
    have no tensors. ``attributes`` are texts, whose types only the prototype knows. No attribute
    and one empty text give equal readings, since CANN writes them alike.
    """

    type: str
    deterministic: bool
    impl_mode: str
    parameters: tuple[tuple[KeyTensor, ...], ...]
    attributes: tuple[str, ...]


def read_key(key: str) -> KeyReading:
    """Parse a key. Raises ``ValueError``, which names the part that is wrong."""
    kind, _, rest = key.partition("/")
    head, *parts = rest.split("/")
    found = _HEAD.fullmatch(head)
    if not kind or found is None or not parts:
        raise ValueError(f"{key!r} does not begin with <type>/d=<0|1>,p=<0|1|2>/")
    tensors = [place for place, part in enumerate(parts) if part == _ABSENT or "(" in part]
    count = tensors[-1] + 1 if tensors else 0
    attributes = tuple(parts[count:])
    if not attributes:
        raise ValueError(f"{key!r} ends without the slash before its attributes")
    return KeyReading(
        type=kind,
        deterministic=found[1] == "1",
        impl_mode=PRECISIONS[int(found[2])],
        parameters=tuple(_parameter(key, part) for part in parts[:count]),
        attributes=() if attributes == ("",) else attributes,
    )


def difference(first: str, second: str) -> str:
    """A description of the fields in which two keys differ; empty for equal keys."""
    one, other = read_key(first), read_key(second)
    differences = [
        f"{name} {getattr(one, name)!r} and {getattr(other, name)!r}"
        for name in ("type", "deterministic", "impl_mode")
        if getattr(one, name) != getattr(other, name)
    ]
    for name in ("parameters", "attributes"):
        here, there = getattr(one, name), getattr(other, name)
        if len(here) != len(there):
            differences.append(f"{len(here)} and {len(there)} {name}")
            continue
        differences += [
            f"{name.removesuffix('s')} {place}: {_shown(a)} and {_shown(b)}"
            for place, (a, b) in enumerate(zip(here, there, strict=True))
            if a != b
        ]
    return "; ".join(differences)


def _parameter(key: str, part: str) -> tuple[KeyTensor, ...]:
    return () if part in (_ABSENT, "") else tuple(_tensor(key, text) for text in part.split(";"))


def _tensor(key: str, text: str) -> KeyTensor:
    found = _TENSOR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} in {key!r} is no tensor: <type>,<format>,(<extents>)")
    values = None if found[4] is None else _numbers(found[4])
    return KeyTensor(int(found[1], 16), int(found[2], 16), _numbers(found[3]), values)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each, 16) for each in text.split(",")) if text else ()


def _shown(part: tuple[KeyTensor, ...] | str) -> str:
    if isinstance(part, str):
        return part or "(empty)"
    tensors = [f"type {each.dtype} format {each.format} shape {each.extents}" for each in part]
    return ", ".join(tensors) or "not given"
