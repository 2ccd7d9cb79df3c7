"""What a row of the table of options says, and the kinds of value there are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any


class Group(Enum):
    """The headings of ``pytest --help`` and docs/options.md, in their order."""

    JUDGED = "what is judged"
    CHECKS = "which checks run, and how strictly"
    REPORTS = "reports"
    STRESS = "stress"
    EXISTING = "existing caches and releases"
    LOOKING = "looking around, without judging"


class Access(Enum):
    """What a run does with the file that an option names."""

    NONE = "nothing"
    READS = "reads"
    WRITES = "writes"
    CONTINUES = "reads and writes"

    @property
    def writes(self) -> bool:
        """Whether the file is written."""
        return self in (Access.WRITES, Access.CONTINUES)


@dataclass(frozen=True)
class Kind:
    """What the text of a value must be (``expected``, in words) and how it is read.

    ``read`` takes the text and the directory that relative paths start from, and raises
    ``ValueError`` where the text is not what is expected.
    """

    expected: str
    read: Callable[[str, Path], Any]


@dataclass(frozen=True)
class Option:
    """One option. Parsing, help, docs/options.md, ini keys, repeat lines follow from it.

    An option without ``kind`` is a flag. ``access`` is what becomes of the file it names. With
    ``ini`` a project can fix it in its pytest configuration. ``repeats``: it belongs into the
    command that repeats a check. ``asks``: typed on the command line it asks for the suite, as
    ``--ascend-cache`` does. ``names_toolchain``: it decides which toolchain is judged; ``about`` is
    the only one that it goes with. ``alone`` is its value where it is given without one.
    """

    name: str
    group: Group
    help: str
    metavar: str = ""
    kind: Kind | None = None
    default: Any = None
    repeatable: bool = False
    access: Access = Access.NONE
    ini: bool = False
    repeats: bool = True
    asks: bool = False
    names_toolchain: bool = False
    about: str = ""
    alone: str = ""

    @property
    def key(self) -> str:
        """The option's name in pytest's configuration: ``ascend_soc``."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def usage(self) -> str:
        """The option as it is typed: ``--ascend-soc=NAME``."""
        if self.alone:
            return f"{self.name}[={self.metavar}]"
        return f"{self.name}={self.metavar}" if self.kind else self.name

    @property
    def described(self) -> str:
        """The help text, with what else the table knows."""
        return self.told(str)

    def told(self, say: Callable[[str], str]) -> str:
        """The same in the language that ``say`` brings a sentence into."""
        more = [say("repeatable")] if self.repeatable else []
        more += [f"ini: {self.key}"] if self.ini else []
        return f"{say(self.help)} [{'; '.join(more)}]" if more else say(self.help)


def whole(least: int, most: int) -> Kind:
    """A whole number within limits, both included."""

    def read(text: str, _: Path) -> int:
        # int() also takes digits of other alphabets and underscores.
        if not re.fullmatch(r"[0-9]{1,20}", text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return Kind(f"a whole number from {least} to {most}", read)


def seconds(most: float) -> Kind:
    """A time in seconds, greater than 0."""

    def read(text: str, _: Path) -> float:
        # float() also takes digits of other alphabets and underscores.
        if not re.fullmatch(r"[0-9.eE+-]{1,20}", text):
            raise ValueError(text)
        number = float(text)
        if not (math.isfinite(number) and 0 < number <= most):
            raise ValueError(text)
        return number

    return Kind(f"a number of seconds greater than 0 and at most {most:.0f}", read)


def duration(most: float) -> Kind:
    """A time in seconds, or with its unit."""
    plain = seconds(most)

    def read(text: str, base: Path) -> float:
        found = re.fullmatch(r"([0-9]{1,6})([smh])", text)
        in_seconds = f"{int(found[1]) * _UNITS[found[2]]:.0f}" if found else text
        number: float = plain.read(in_seconds, base)
        return number

    return Kind(f"a time such as 90, 90s, 10m or 2h, at most {most:.0f} seconds", read)


def one_of(*names: str) -> Kind:
    """One of a few words."""

    def read(text: str, _: Path) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return Kind(f"one of {', '.join(names)}", read)


@dataclass(frozen=True)
class Budget:
    """What checks may cost: a time in ``seconds``, or a number of ``runs`` of the toolchain.

    ``option`` is how it was asked for, for messages.
    """

    option: str
    runs: int = 0
    seconds: float | None = None


SMOKE = Budget("--ascend-smoke", runs=60)
"""The first selection."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _amount(text: str, _: Path) -> Budget:
    found = re.fullmatch(r"([0-9]{1,6})(runs|s|m|h)", text)
    if found is None:
        raise ValueError(text)
    number, unit, option = int(found[1]), found[2], f"--ascend-budget={text}"
    if unit == "runs":
        if number < _LEAST_RUNS:
            raise ValueError(text)
        return Budget(option, runs=number)
    if not number:
        raise ValueError(text)
    return Budget(option, seconds=number * _UNITS[unit])


_LEAST_RUNS = 20
"""Runs that a budget has at least: the positive control takes some in each process."""


def _named(text: str, base: Path) -> Path:
    return base / text


def _command(text: str, base: Path) -> str:
    """A path, or a name that PATH is searched for."""
    return str(base / text) if "/" in text else text


def _list_of_deviations(text: str, base: Path) -> str:
    """The name of a list of the package, or a path."""
    from pytest_ascendcache.contract.deviations import builtin_lists

    return text if text in builtin_lists() else str(base / text)


def _chip(text: str, _: Path) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        raise ValueError(text)
    return text


BUDGET = Kind(
    f"a time such as 90s, 10m or 2h, or at least {_LEAST_RUNS} runs, such as 100runs", _amount
)
TEXT = Kind("a name", lambda text, _: text)
CHIP = Kind("the name of a chip such as Ascend910B1", _chip)
FILE = Kind("a file", _named)
LIST = Kind("a TOML file or the name of a list", _list_of_deviations)
DIRECTORY = Kind("a directory", _named)
COMMAND = Kind("a program", _command)
