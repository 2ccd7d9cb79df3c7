"""Explanations of failed comparisons: a sentence instead of two objects in Python's notation."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pytest_ascendcache.contract import Fate, Outcome

_SHOWN = 3


def compare(op: str, left: object, right: object) -> list[str] | None:
    """The explanation for outcomes, bytes and collections of names; None leaves it to pytest."""
    return _outcomes(op, left, right) or (_values(left, right) if op == "==" else None)


def _outcomes(op: str, left: object, right: object) -> list[str] | None:
    """Explain outcomes and fates in the documents' terms."""
    if not isinstance(left, Outcome | Fate):
        return None
    if op in ("==", "is") and isinstance(right, type(left)):
        allowed = [right]
    elif op == "in" and isinstance(right, frozenset):
        allowed = list(right)
    else:
        return None
    kind, entry = ("outcome", "") if isinstance(left, Outcome) else ("fate", "entry ")
    expected = " or ".join(sorted(_term(each) for each in allowed))
    return [f"{kind} differs", f"observed: {entry}{_term(left)}", f"expected: {entry}{expected}"]


def _term(value: object) -> str:
    return value.value if isinstance(value, Fate) else str(value)


def _values(left: object, right: object) -> list[str] | None:
    if isinstance(left, bytes) and isinstance(right, bytes):
        return [_bytes(left, right)]
    if _is_plain(left) and _is_plain(right) and type(left) is type(right):
        return _collections(left, right)
    return None


def _bytes(left: bytes, right: bytes) -> str:
    if len(left) != len(right):
        return f"the bytes differ: {len(left)} bytes and {len(right)} bytes"
    place = next(number for number, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
    return f"the bytes differ at byte {place} of {len(left)}"


def _is_plain(value: object) -> bool:
    """Whether the value is a list, set or tuple of texts or bytes."""
    return isinstance(value, (list, tuple, set, frozenset)) and all(
        isinstance(each, (str, bytes)) for each in value
    )


def _collections(left: object, right: object) -> list[str] | None:
    assert isinstance(left, Collection)
    assert isinstance(right, Collection)
    if any(isinstance(each, bytes) for each in (*left, *right)):
        if len(left) == len(right) == 1:
            (one,), (other,) = left, right
            return None if one == other else [_bytes(one, other)]
        return [f"{len(set(left) | set(right))} different kernels instead of {len(set(right))}"]
    extra = [each for each in left if each not in right]
    missing = [each for each in right if each not in left]
    if not extra and not missing:
        return None  # only the order differs, which pytest shows well
    if not right:
        return [f"found: {_some(extra)}"]
    parts = [f"too many: {_some(extra)}"] if extra else []
    return ["; ".join([*parts, *([f"missing: {_some(missing)}"] if missing else [])])]


def _some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + more
