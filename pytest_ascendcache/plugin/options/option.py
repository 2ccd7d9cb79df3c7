"""What a row of the table of options declares, and the kinds of value an option can take."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any


class Access(Enum):
    """What a run does with the file that an option names."""

    NONE = "nothing"
    READS = "reads"
    WRITES = "writes"
    CONTINUES = "reads and writes"

    @property
    def writes(self) -> bool:
        """Whether the run writes to the file."""
        return self in (Access.WRITES, Access.CONTINUES)


@dataclass(frozen=True)
class ValueKind:
    """How the text of a value is read, and a description of the values it accepts.

    ``read`` takes the text and the directory that relative paths start from. It raises
    ``ValueError`` for a text that does not fit ``expected``. ``access`` is what a run does with a
    file that the value names.
    """

    expected: str
    read: Callable[[str, Path], Any]
    access: Access = Access.NONE


@dataclass(frozen=True)
class Option:
    """One option. Parsing, help, docs/options.md, ini keys and repeat commands follow from it.

    Attributes:
        usage: the option as the user types it: ``--ascend-soc=NAME``; ``[=TEXT]`` where the value
            may be left out; without dashes it is a setting of the ini file alone.
        kind: how the value is read; an option without one is a flag, in the ini file a boolean.
        repeatable: the option may be given several times; its value is then a tuple.
        ini: a project can set the option in its pytest configuration.
        repeats: the option is part of the command that repeats a check.
        asks: typed on the command line, the option implies ``--ascend-cache``.
        about: the only toolchain that the option applies to; the option then chooses it.
        alone: the value of the option where it is given without one.
    """

    usage: str
    help: str
    kind: ValueKind | None = None
    default: Any = None
    repeatable: bool = False
    ini: bool = False
    repeats: bool = True
    asks: bool = False
    about: str = ""
    alone: str = ""

    @property
    def name(self) -> str:
        """The option without its value: ``--ascend-soc``."""
        return self.usage.partition("=")[0].rstrip("[")

    @property
    def is_typed(self) -> bool:
        """Whether the option can be typed; a setting of the ini file takes ``-o KEY=VALUE``."""
        return self.usage.startswith("--")

    def words(self, *texts: str) -> list[str]:
        """The option on a command line, with one of its values if it has any."""
        if self.is_typed:
            return ["=".join((self.name, *texts))]
        return ["-o", "=".join((self.name, *(texts if self.kind else ["true"])))]

    @property
    def access(self) -> Access:
        """What a run does with the file that the option names."""
        return self.kind.access if self.kind else Access.NONE

    @property
    def names_toolchain(self) -> bool:
        """Whether the option decides which toolchain is judged."""
        return bool(self.about) or self.name == "--ascend-toolchain"

    @property
    def key(self) -> str:
        """The option's name in pytest's configuration: ``ascend_soc``."""
        return self.name.lstrip("-").replace("-", "_")

    def description(self, translate: Callable[[str], str] = str) -> str:
        """The help text, and whether the option is repeatable."""
        text = translate(self.help)
        return f"{text} [{translate('repeatable')}]" if self.repeatable else text


def whole(least: int, most: int) -> ValueKind:
    """A whole number within limits, both included."""

    def read(text: str, _: Path) -> int:
        # int() also takes digits of other alphabets and underscores.
        if not re.fullmatch(r"[0-9]{1,20}", text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return ValueKind(f"a whole number from {least} to {most}", read)


def seconds(most: float) -> ValueKind:
    """A time in seconds, greater than 0."""

    def read(text: str, _: Path) -> float:
        # float() also takes digits of other alphabets and underscores.
        if not re.fullmatch(r"[0-9.eE+-]{1,20}", text):
            raise ValueError(text)
        if not 0 < float(text) <= most:
            raise ValueError(text)
        return float(text)

    return ValueKind(f"a number of seconds greater than 0 and at most {most:.0f}", read)


def one_of(*names: str) -> ValueKind:
    """One of a few names."""
    # ``index`` raises ``ValueError`` for any other text.
    return ValueKind(f"one of {', '.join(names)}", lambda text, _: names[names.index(text)])


@dataclass(frozen=True)
class Budget:
    """What the checks of a run may cost: a time in ``seconds``, or a number of toolchain ``runs``.

    ``option`` is the option that set it, with its value, for messages.
    """

    option: str
    runs: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class Selection:
    """What ``--ascend-select`` asks for: a ``budget``, or the ``whole`` suite, for the combinations
    that ``matrix`` names."""

    whole: bool = False
    matrix: str = "pairwise"
    budget: Budget | None = None


@dataclass(frozen=True)
class StressLength:
    """How long a stress run lasts."""

    seconds: float | None = None
    steps: int | None = None


CORE, WHOLE, SMOKE_RUNS = "core", "whole", 60
"""Names of ``--ascend-select``, and the runs of a quick first selection."""

SMOKE = f"--ascend-select={SMOKE_RUNS}runs"
"""A quick first selection, as the user types it."""

_SELECTIONS = {
    CORE: Selection(),
    WHOLE: Selection(whole=True),
    "triples": Selection(whole=True, matrix="triples"),
    "full": Selection(whole=True, matrix="full"),
}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LEAST_RUNS = 20
"""The smallest budget: the positive control alone takes several runs in each process."""
_LONGEST = 5 * 7 * 24 * 3600.0
_MOST_NODES = 16


def _amount(text: str, unit: str) -> tuple[int, float | None]:
    """A number of ``unit``, or a time in seconds."""
    match = re.fullmatch(rf"([0-9]{{1,9}})({unit}|s|m|h)", text)
    if match is None or int(match[1]) < 1:
        raise ValueError(text)
    number, given = int(match[1]), match[2]
    if given == unit:
        return number, None
    if number * _UNITS[given] > _LONGEST:
        raise ValueError(text)
    return 0, number * _UNITS[given]


def _selection(text: str, _: Path) -> Selection:
    if text in _SELECTIONS:
        return _SELECTIONS[text]
    runs, in_seconds = _amount(text, "runs")
    if in_seconds is None and runs < _LEAST_RUNS:
        raise ValueError(text)
    return Selection(budget=Budget(f"--ascend-select={text}", runs, in_seconds))


def _stress(text: str, base: Path) -> StressLength | Path:
    try:
        steps, in_seconds = _amount(text, "steps")
    except ValueError:
        if "/" not in text and not Path(text).suffix[1:2].isalpha():
            raise
        return base / text
    return StressLength(in_seconds, steps or None)


def _nodes(text: str, base: Path) -> int | Path:
    if "/" in text or (base / text).is_dir():
        return base / text
    number: int = whole(2, _MOST_NODES).read(text, base)
    return number


def _path(text: str, base: Path) -> Path:
    return base / text


def _list_of_deviations(text: str, base: Path) -> str:
    """The name of a list that comes with the package, or a path."""
    from pytest_ascendcache.contract.deviations import builtin_lists

    return text if text in builtin_lists() else str(base / text)


def _chip(text: str, _: Path) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        raise ValueError(text)
    return text


SELECTION = ValueKind(
    f"one of {', '.join(_SELECTIONS)}, a time such as 90s, 10m or 2h, or at least {_LEAST_RUNS} "
    "runs, such as 100runs",
    _selection,
)
STRESS = ValueKind(
    "a time such as 90s, 10m or 2h, a number of steps such as 500steps, or the history.jsonl of "
    "an earlier run",
    _stress,
    Access.READS,
)
NODES = ValueKind(f"a whole number from 2 to {_MOST_NODES}, or a directory", _nodes)
TEXT = ValueKind("a name", lambda text, _: text)
CHIP = ValueKind("the name of a chip such as Ascend910B1", _chip)
INPUT = ValueKind("a file", _path, Access.READS)
OUTPUT = ValueKind("a file", _path, Access.WRITES)
JOURNAL = ValueKind("a file", _path, Access.CONTINUES)
LIST = ValueKind("a TOML file or the name of a list", _list_of_deviations, Access.READS)
DIRECTORY = ValueKind("a directory", _path)
COMMAND = ValueKind(
    "a program", lambda text, base: str(base / text) if "/" in text else text, Access.READS
)
"""A path, or a name to be looked up on PATH."""
