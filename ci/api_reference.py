"""Makes docs/api.md, the page about the public interface, from docstrings."""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from typing import Any

from pytest_ascendcache import contract, observation, operators, toolchains
from pytest_ascendcache.plugin import fixtures, hookspecs

_HEAD = """\
# Public interface

What tests and toolchains of your own may rest on; everything else may change at any time (see
[CONTRIBUTING](../CONTRIBUTING.md#what-is-public)). The [guide](guide.md) shows fixtures in use,
[own toolchains](own-toolchain.md) the base classes. Made from docstrings by `ci/docs`.
"""
_PUBLIC: dict[Any, tuple[str, ...]] = {
    observation: (
        "CacheUnderTest",
        "Run",
        "NetworkUnderTest",
        "NetworkRun",
        "StaticKernelsUnderTest",
        "ClientRun",
        "Evidence",
        "NotDecidable",
    ),
    operators: ("OperatorSpec", "TensorDesc"),
    contract: ("CacheMode", "CompileOptions", "Outcome", "Delivered", "Fate", "Capability"),
    toolchains: (
        "Toolchain",
        "BaseToolchain",
        "CommandToolchain",
        "CompileRequest",
        "CompileResult",
        "ToolchainError",
    ),
}


def api_reference() -> str:
    """Return the page: fixtures, hooks and classes with their docstrings."""
    names = sorted(name for name, value in vars(fixtures).items() if _is_fixture(value))
    parts = [_HEAD, "## Fixtures\n", *map(_fixture, names)]
    parts += ["## Hook\n", _function(hookspecs.pytest_ascendcache_toolchain)]
    for module, public in _PUBLIC.items():
        parts += [f"## `{module.__name__}`\n", *(_class(getattr(module, each)) for each in public)]
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


def _class(kind: type) -> str:
    lines = [f"### `{kind.__name__}`\n\n{_text(kind)}\n"]
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        ours = getattr(member, "__module__", "") or ""
        if name.startswith("_") or not inspect.getdoc(getattr(kind, name)):
            continue
        if isinstance(member, (property, cached_property)):
            lines.append(f"* `{name}`: {_text(member, one=True)}")
        elif inspect.isfunction(member) and ours.startswith("pytest_ascendcache"):
            signature = _plain(str(inspect.signature(member)))
            lines.append(f"* `{name}{signature}`: {_text(member, one=True)}")
    return "\n".join(lines) + "\n"


def _function(function: Any) -> str:
    signature = _plain(str(inspect.signature(function)))
    return f"### `{function.__name__}{signature}`\n\n{_text(function)}\n"


def _plain(text: str) -> str:
    """Return a signature without quotes around types and without ``self``."""
    unquoted = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return re.sub(r"\(self(: \w+)?(, )?", "(", unquoted.strip("'"))


def _text(documented: Any, one: bool = False) -> str:
    """Return a docstring as Markdown; with ``one``, its first paragraph in one line."""
    text = inspect.getdoc(documented) or ""
    text = re.sub(r":(?:class|meth|func|attr):`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    if one:
        return " ".join(text.split("\n\n")[0].split())
    return text
