"""Former names of checks, so that files from earlier versions remain usable.

The names are listed in ``renamed_checks.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib

_SUITE = "pytest_ascendcache/conformance/"
_FILE = Path(__file__).with_name("renamed_checks.toml")


@cache
def renamed() -> Mapping[str, Mapping[str, str]]:
    """``modules`` maps former to present paths, relative to the suite; ``checks`` maps former to
    present ``path::function``, both with the present path."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def present_name(check: str) -> str:
    """The present node id of a check of the suite. Other node ids are returned unchanged."""
    if not check.startswith(_SUITE):
        return check
    former = renamed()
    path, colons, name = check.removeprefix(_SUITE).partition("::")
    function, bracket, parameters = name.partition("[")
    path = former["modules"].get(path, path)
    function = f"{path}{colons}{function}"
    return f"{_SUITE}{former['checks'].get(function, function)}{bracket}{parameters}"


def names_in_module(check: str) -> tuple[str, ...]:
    """A check's names within its module (``test_x[case]``): the present one, then former ones."""
    name = check.partition("::")[2] or check
    function, bracket, parameters = name.partition("[")
    former = [
        old.partition("::")[2]
        for old, new in renamed()["checks"].items()
        if new.partition("::")[2] == function
    ]
    return (name, *(f"{each}{bracket}{parameters}" for each in former))
