"""Makes docs/api.md, the page about the public interface, from docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from enum import Enum
from functools import cached_property
from typing import Any

import pytest_ascendcache
from pytest_ascendcache import toolchains
from pytest_ascendcache.contract import options
from pytest_ascendcache.observation import request_options
from pytest_ascendcache.plugin import fixtures, hookspecs

_HEAD = """\
# Public interface

What tests and toolchains of your own may rest on; everything else may change at any time (see
[CONTRIBUTING](../CONTRIBUTING.md#what-is-public)). The [guide](guide.md) shows fixtures in use,
[own toolchains](own-toolchain.md) the base classes. Made from docstrings by `ci/docs`.

Tests import from `pytest_ascendcache` alone, adapters of toolchains also from
`pytest_ascendcache.toolchains`. A call that cannot be carried out raises `WrongUse` with one
sentence.
"""
_OF_TOOLCHAINS = ("BaseToolchain", "CommandToolchain", "CompileRequest", "CompileResult")
_KEYWORDS = (options.EntryOptions, request_options.RequestOptions)


def api_reference() -> str:
    """Return the page: fixtures, hooks and classes with their docstrings."""
    names = sorted(name for name, value in vars(fixtures).items() if _is_fixture(value))
    parts = [_HEAD, "## Fixtures\n", *map(_fixture, names)]
    parts += ["## Hook\n", _function(hookspecs.pytest_ascendcache_toolchain)]
    door = pytest_ascendcache
    parts += ["## `pytest_ascendcache`\n", *(_any(getattr(door, each)) for each in door.__all__)]
    parts += ["## Keywords of a compile\n", *map(_keywords, _KEYWORDS)]
    parts += ["## `pytest_ascendcache.toolchains`\n"]
    parts += [_class(getattr(toolchains, each)) for each in _OF_TOOLCHAINS]
    return "\n".join(parts)


def _is_fixture(value: Any) -> bool:
    """Whether a module's attribute is a fixture, in pytest from 8.4 on or before."""
    return hasattr(value, "_fixture_function") or hasattr(value, "_pytestfixturefunction")


def _fixture(name: str) -> str:
    fixture = getattr(fixtures, name)
    function = inspect.unwrap(getattr(fixture, "_fixture_function", fixture))
    returns = _plain(str(inspect.signature(function).return_annotation))
    returns = re.sub(r"^Iterator\[(.*)\]$", r"\1", returns)
    return f"### `{name}` → `{returns}`\n\n{_text(function)}\n"


def _any(value: Any) -> str:
    return _class(value) if inspect.isclass(value) else _function(value)


def _class(kind: type) -> str:
    lines = [f"### `{kind.__name__}`\n\n{_text(kind)}\n", *_fields(kind)]
    own = {name for name in dir(kind) if name in vars(Enum) or name in dir(str)}
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        ours = getattr(member, "__module__", "") or ""
        if name.startswith("_") or (issubclass(kind, Enum) and name in own):
            continue
        if not inspect.getdoc(getattr(kind, name)):
            continue
        if isinstance(member, (property, cached_property)):
            lines.append(f"* `{name}`: {_text(member, one=True)}")
        elif isinstance(member, classmethod) or (
            inspect.isfunction(member) and ours.startswith("pytest_ascendcache")
        ):
            function: Any = getattr(member, "__func__", member)
            signature = _plain(str(inspect.signature(function)))
            lines.append(f"* `{name}{signature}`: {_text(function, one=True)}")
    return "\n".join(lines) + "\n"


def _fields(kind: type) -> list[str]:
    """The values of an enum, or the fields of a dataclass with types and defaults."""
    if issubclass(kind, Enum):
        return [f"* `{each.name}`: `{each.value!r}`" for each in kind]
    if not dataclasses.is_dataclass(kind):
        return []
    return [
        f"* `{each.name}: {_plain(str(each.type))}{_default(each)}`"
        for each in dataclasses.fields(kind)
        if not each.name.startswith("_")
    ]


def _default(each: dataclasses.Field[Any]) -> str:
    if each.default is not dataclasses.MISSING:
        value = each.default
        if callable(value):
            return ""
        shown = str(value) if isinstance(value, Enum) else repr(value)
        return "" if " at 0x" in shown else f" = {shown}"
    made = each.default_factory
    return "" if made is dataclasses.MISSING else f" = {made()!r}"


def _keywords(kind: Any) -> str:
    """The keywords that a call takes, with their types."""
    own = inspect.get_annotations(kind)
    inherited = inspect.get_annotations(kind.__bases__[0]) if kind.__bases__ else {}
    names = [name for name in own if name not in inherited]
    lines = [f"* `{name}: {_named(own[name])}`" for name in names]
    return "\n".join([f"{_text(kind)}\n", *lines]) + "\n"


def _named(annotation: Any) -> str:
    """An annotation as it is written, with texts in the place of their aliases."""
    text = str(getattr(annotation, "__forward_arg__", annotation))
    for alias in ("ModeName", "SelectModeName", "PhaseName"):
        module = request_options if alias == "PhaseName" else options
        texts = " | ".join(map(repr, getattr(module, alias).__args__))
        text = re.sub(rf"\b{alias}\b", texts, text)
    return text


def _function(function: Any) -> str:
    signature = _plain(str(inspect.signature(function)))
    return f"### `{function.__name__}{signature}`\n\n{_text(function)}\n"


def _plain(text: str) -> str:
    """Return a signature without quotes around types and without ``self``."""
    unquoted = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    unquoted = re.sub(r"\((?:self|cls)(: \w+)?(, )?", "(", unquoted.strip("'"))
    return _named(unquoted)


def _text(documented: Any, one: bool = False) -> str:
    """Return a docstring as Markdown; with ``one``, its first paragraph in one line."""
    text = inspect.getdoc(documented) or ""
    text = re.sub(r":(?:class|meth|func|attr):`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    if one:
        return " ".join(text.split("\n\n")[0].split())
    return text
