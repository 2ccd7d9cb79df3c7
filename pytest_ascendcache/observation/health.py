"""How the runs of a toolchain end: accidents that do not happen again, and the end of all answers.

A run that crashes or does not end is repeated once. If it ends well then, that is an accident: it
says nothing about the promise whose check it belongs to. Three such runs in a row, and a plain
compile that ends no better, stop the run of the suite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pytest_ascendcache.contract.facts import Aspect, Ending, Fact, FactWitness, Subject
from pytest_ascendcache.contract.subjects import ONCE, STOPPED
from pytest_ascendcache.observation.gated_run import GatedRun
from pytest_ascendcache.toolchains import Toolchain, ToolchainError
from pytest_ascendcache.words import count

_SLOW, _MUCH = 60.0, 1_000_000
"""Seconds of a run, and bytes that it prints, that are worth a sentence."""
_ENOUGH = 3
"""Runs in a row that crash or do not end."""
_PLACES = ("--singleop", "--output", "--model", "--framework", "--input_format", "--soc_version")


class Accident(ToolchainError):
    """A run crashed or did not end, and changed the cache before: its check cannot go on."""


@dataclass
class Health:
    """What is known about the runs of one toolchain in this process. ``stopped`` says why nothing
    more is started; ``made`` are digests of files of a user's kind that the toolchain made."""

    stopped: str = ""
    made: set[str] = field(default_factory=set)
    _printed: int = 0
    _left_behind: int = 0
    _leaving: int = 0
    _slowest: float = 0.0
    _in_a_row: list[GatedRun[Any]] = field(default_factory=list)
    _untold: list[Fact] = field(default_factory=list)

    def note(self, run: GatedRun[Any]) -> None:
        """Note how a run ended, and what else it did."""
        self._printed = max(self._printed, run.result.printed)
        self._slowest = max(self._slowest, run.result.seconds)
        self._left_behind += run.result.left_behind
        self._leaving += run.result.left_behind > 0
        self._in_a_row = [*self._in_a_row, run] if run.accident else []

    @property
    def is_doubtful(self) -> bool:
        """Whether only a plain compile can tell if the toolchain still answers."""
        return len(self._in_a_row) >= _ENOUGH

    def recovered(self) -> None:
        """A plain compile ended."""
        self._in_a_row = []

    def stop(self, name: str) -> None:
        """A plain compile ended no better: nothing more is started."""
        first = self._in_a_row[0]
        how = "did not end" if first.accident is Ending.NO_END else "crashed"
        shown = [each for each in first.result.argv[1:] if not each.startswith(_PLACES)]
        options = " ".join(each for each in shown if "_cache_dir=" not in each) or "no options"
        self.stopped = (
            f"{name} stopped answering: {len(self._in_a_row)} runs in a row {how}, the first with "
            f"{options}; the rest was not tried"
        )
        self._untold.append(_fact(first, STOPPED, self.stopped))

    def happened(self, name: str, run: GatedRun[Any]) -> str:
        """Note an accident. Returns a sentence without a full stop."""
        what = f"{name} {'did not end' if run.accident is Ending.NO_END else 'crashed'}"
        self._untold.append(_fact(run, ONCE, what))
        return f"{what}, not again with the same options"

    def numbers(self) -> tuple[int, int, int, float]:
        """What :meth:`notices` tells, for another process to :meth:`add`."""
        return self._printed, self._left_behind, self._leaving, self._slowest

    def add(self, printed: int, left_behind: int, leaving: int, slowest: float) -> None:
        """Add the numbers of the same toolchain in another process."""
        self._printed, self._slowest = max(self._printed, printed), max(self._slowest, slowest)
        self._left_behind += left_behind
        self._leaving += leaving

    def notices(self, name: str) -> list[str]:
        """A sentence about each habit that users have to know, without a full stop."""
        notices = []
        if self._slowest >= _SLOW:
            notices.append(f"{name} is slow: a run took up to {self._slowest:.0f} s")
        if self._printed >= _MUCH:
            size = f"{self._printed / _MUCH:.0f} MB"
            notices.append(f"{name} prints up to {size} a run; the last 16 KB of it are kept")
        if self._left_behind:
            left = count(self._left_behind, "process", "processes")
            runs = count(self._leaving, "run")
            notices.append(f"{name} leaves processes behind: {left} after {runs}; they were ended")
        return notices

    def take(self) -> list[Fact]:
        """The accidents since the last call."""
        untold, self._untold = self._untold, []
        return untold


def _fact(run: GatedRun[Any], subject: Subject, detail: str) -> Fact:
    return Fact.of(
        Aspect.ENDING,
        run.accident or Ending.FAILURE,
        (Ending.SUCCESS,),
        subject=subject,
        witness=FactWitness.PROCESS,
        run=run.number,
        detail=detail,
    )


_KNOWN: WeakKeyDictionary[Toolchain, Health] = WeakKeyDictionary()


def health_of(toolchain: Toolchain) -> Health:
    """What is known about the runs of a toolchain, which is not a gate."""
    return _KNOWN.setdefault(toolchain, Health())
