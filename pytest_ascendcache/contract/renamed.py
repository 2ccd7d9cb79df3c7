"""Former names of checks, so that files of earlier versions are still understood.

The names are data: ``renamed_checks.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib

_SUITE = "pytest_ascendcache/conformance/"
_FILE = Path(__file__).with_name("renamed_checks.toml")


@dataclass(frozen=True)
class Renamed:
    """``modules``: former path to present path, relative to the suite. ``checks``: former to
    present ``path::function``, both in the present module."""

    modules: Mapping[str, str]
    checks: Mapping[str, str]

    @classmethod
    @lru_cache(maxsize=1)
    def read(cls) -> Renamed:
        """The names that come with the package."""
        content = tomllib.loads(_FILE.read_text(encoding="utf-8"))
        return cls(content["modules"], content["checks"])


def present_name(check: str) -> str:
    """The node id a check of the suite has now; any other node id stays as it is."""
    if not check.startswith(_SUITE):
        return check
    renamed = Renamed.read()
    path, colons, name = check.removeprefix(_SUITE).partition("::")
    function, bracket, parameters = name.partition("[")
    path = renamed.modules.get(path, path)
    function = f"{path}{colons}{function}"
    return f"{_SUITE}{renamed.checks.get(function, function)}{bracket}{parameters}"


def names_in_module(check: str) -> tuple[str, ...]:
    """What a check is called within its module, ``test_x[case]``: the present name, then former
    ones."""
    name = check.partition("::")[2] or check
    function, bracket, parameters = name.partition("[")
    former = [
        old.partition("::")[2]
        for old, new in Renamed.read().checks.items()
        if new.partition("::")[2] == function
    ]
    return (name, *(f"{each}{bracket}{parameters}" for each in former))
