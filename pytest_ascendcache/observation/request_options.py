"""The keywords of compiles in tests: their types, and what their values may be.

The documents write options as strings and files as paths, so both spellings are accepted, and
anything else is refused here with one sentence, before a toolchain sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

from pytest_ascendcache.contract import CacheMode, DebugConfig, PrecisionFile, SelectMode
from pytest_ascendcache.contract.options import EntryOptions, ModeName
from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import CompileRequest
from pytest_ascendcache.words import instead
from pytest_ascendcache.words.wrong_use import WrongUse, checked_path, wrong

PhaseName = Literal["training", "inference"]


class RequestOptions(EntryOptions, total=False):
    """What else a compile can be told. ``cache_dir`` is this cache by default, None passes no
    directory. ``raw_mode`` and ``raw_options`` are passed as they are, also bad ones;
    ``debug_file`` is the path of a file instead of a ``debug_config``; variables in ``unset`` are
    removed from the environment."""

    cache_dir: Path | str | None
    raw_mode: str | None
    debug_file: Path | str | None
    umask: int | None
    raw_options: Mapping[str, str] | None
    unset: frozenset[str] | set[str]


class CompileKeywords(RequestOptions, total=False):
    """The keywords of a compile, with cache mode and environment."""

    mode: CacheMode | ModeName | None
    environment: Mapping[str, str] | None


REQUESTED = frozenset(RequestOptions.__annotations__) - frozenset(EntryOptions.__annotations__)
"""Options that are not fields of ``CompileOptions``."""

_KNOWN = tuple(
    dict.fromkeys(
        ("mode", "environment", *EntryOptions.__annotations__, *RequestOptions.__annotations__)
    )
)
_Member = TypeVar("_Member", bound=Enum)


def _of_enum(kind: type[_Member]) -> Callable[[str, object], _Member]:
    names = [str(each.value) for each in kind]

    def read(name: str, value: object) -> _Member:
        if isinstance(value, str) and value in names:
            return kind(value)
        if isinstance(value, str):
            raise WrongUse(f"{name} is {value!r}; {instead(value, names)}")
        raise wrong(name, value, f"one of {', '.join(names)}")

    return read


def _debug_level(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(name, value, "a number from 0 to 4")
    if not 0 <= value <= 4:
        raise WrongUse(
            f"{name} is {value}; give a number from 0 to 4, or a bad one on purpose as "
            f"raw_options={{'op_debug_level': '{value}'}}."
        )
    return value


def _rank(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(name, value, "a number, or environment={'RANK_ID': ...} for a bad one")
    return value


def _chip(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong(name, value, "the name of a chip such as 'Ascend910B1'")
    if not re.fullmatch(r"[A-Z][A-Za-z0-9_-]*", value):
        raise WrongUse(f"{name} is {value!r}; chips are spelled as in 'Ascend910B1'.")
    return value


def _types(name: str, value: object) -> tuple[str, ...]:
    allowed = "a list of operator types, such as ['Exp', 'Sqrt']"
    if not isinstance(value, (tuple, list)) or not all(isinstance(each, str) for each in value):
        raise wrong(name, value, allowed)
    return tuple(value)


def _an(kind: type, allowed: str) -> Callable[[str, object], Any]:
    def read(name: str, value: object) -> Any:
        if not isinstance(value, kind):
            raise wrong(name, value, allowed)
        return value

    return read


def checked_environment(name: str, value: object) -> dict[str, str]:
    """Variables of a process. Raises ``WrongUse`` for a value that is no text."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "a dict of texts")
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise WrongUse(
                f"{name} has {key!r}: {text!r}; names and values of variables are texts, such as "
                f"{str(key)!r}: {str(text)!r}."
            )
    return dict(value)


def _names(name: str, value: object) -> frozenset[str]:
    if isinstance(value, str) or not all(isinstance(each, str) for each in _each(name, value)):
        raise wrong(name, value, "a set of names of variables")
    return frozenset(_each(name, value))


def _each(name: str, value: object) -> Sequence[Any]:
    if not isinstance(value, (set, frozenset, list, tuple)):
        raise wrong(name, value, "a set of names of variables")
    return tuple(value)


_READ: Mapping[str, Callable[[str, object], Any]] = {
    "mode": _of_enum(CacheMode),
    "phase": _of_enum(Phase),
    "rank": _rank,
    "cache_mode": _of_enum(CacheMode),
    "environment": checked_environment,
    "debug_level": _debug_level,
    "debug_config": _an(DebugConfig, "a DebugConfig, such as DebugConfig(switches=('ccec_g',))"),
    "soc": _chip,
    "select_implmode": _of_enum(SelectMode),
    "implmode_types": _types,
    "precision_file": _an(
        PrecisionFile, "a PrecisionFile, such as PrecisionFile.of({'Exp': 'high_precision'})"
    ),
    "cache_dir": checked_path,
    "raw_mode": _an(str, "a text"),
    "debug_file": checked_path,
    "umask": _an(int, "a number such as 0o077"),
    "raw_options": checked_environment,
    "unset": _names,
}


def checked(where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of the call ``where``, with texts turned into what they name.

    Raises ``WrongUse`` for a keyword that does not exist, and for a value that is not allowed.
    """
    read: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _READ:
            raise WrongUse(f"{where}() has no keyword {name!r}; {instead(name, _KNOWN)}")
        read[name] = None if value is None and name != "soc" else _READ[name](name, value)
    return read


def checked_operators(where: str, operators: Sequence[object]) -> tuple[OperatorSpec, ...]:
    """The operators of the call ``where``. Raises ``WrongUse`` for anything else."""
    if not operators:
        raise WrongUse(f"{where}() needs an operator, such as operator('Add', 'float16', 4, 8).")
    for each in operators:
        if isinstance(each, OperatorSpec):
            continue
        if isinstance(each, (list, tuple, set, frozenset)):
            raise WrongUse(
                f"{where}() got a {type(each).__name__} where an operator is meant; give its "
                "operators one by one, with a star: *operators."
            )
        raise WrongUse(
            f"{where}() got {each!r} where an operator is meant; give one such as "
            "operator('Add', 'float16', 4, 8), ascend_operators['add'], or those of "
            "read_single_op('FILE.json')."
        )
    return tuple(each for each in operators if isinstance(each, OperatorSpec))


def checked_network(where: str, network: object) -> Network:
    """The network of the call ``where``. Raises ``WrongUse`` for anything else."""
    if not isinstance(network, Network):
        raise WrongUse(
            f"{where}() got {network!r} where a network is meant; give that of "
            "read_network('FILE.json')."
        )
    return network


def checked_requests(where: str, requests: object) -> Sequence[CompileRequest]:
    """The requests of the call ``where``. Raises ``WrongUse`` for anything else."""
    if not isinstance(requests, (list, tuple)) or not all(
        isinstance(each, CompileRequest) for each in requests
    ):
        raise WrongUse(f"{where}() takes a list of requests: {where}([cache.request(...), ...]).")
    return requests
