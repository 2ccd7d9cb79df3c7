"""Draws rounds and operators: each depends on nothing but the seed and its number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import DAMAGES, Action
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.stress.history import (
    SHARED,
    Compile,
    Disturbance,
    Doing,
    Fault,
    Round,
    Setting,
    StressHarm,
    StressJob,
)

_HOT = 3
"""A round uses this many operators, or 1 / _HOT of all if that is more: few, so that ranks meet."""
_LATER = 4
"""Every round of this many ends with a compile that runs alone."""

_MODES = (CacheMode.ENABLE,) * 7 + (CacheMode.FORCE,) * 2 + (CacheMode.DISABLE,)
_SETTINGS = (Setting.PLAIN,) * 5 + (Setting.PRECISION, Setting.PERFORMANCE) * 2 + (Setting.DEBUG,)
_JOBS = (0, 0, 1, 2, 3)
"""Numbers of jobs in a round, drawn at random."""
_DOINGS = (Doing.INSTALL,) * 3 + (Doing.UNINSTALL,) * 2 + (Doing.RUN,) * 2 + (Doing.BUILD,) * 3
_HARMS = (
    (StressHarm.DAMAGE,) * 4
    + (StressHarm.AGE,) * 3
    + (StressHarm.DELETE,) * 2
    + (StressHarm.CLEAR,)
)


@dataclass(frozen=True)
class Schedule:
    """The rounds of a seed.

    ``actions`` are the faults that can be injected into compiles, ``strikes`` those for installers.
    ``settings`` have repeatable kernels. With ``asks_later``, which needs a toolchain that reuses
    marked entries, some rounds end with a compile that runs alone. ``doings`` are the kinds of job
    that the toolchain can do, with ``networks`` networks.
    """

    seed: int
    ranks: int
    operators: int
    actions: frozenset[Action] = frozenset()
    settings: frozenset[Setting] = frozenset(Setting)
    asks_later: bool = True
    doings: frozenset[Doing] = frozenset()
    networks: int = 0
    strikes: frozenset[Action] = frozenset()

    def rounds(self) -> Iterator[Round]:
        """All rounds, endlessly."""
        return map(self.round, count())

    def round(self, number: int) -> Round:
        """Round ``number``, independent of all others."""
        chance = random.Random(f"{self.seed}/{number}")
        most = max(_HOT, self.operators // _HOT)
        hot = chance.sample(range(self.operators), min(most, self.operators))
        disturbances = tuple(
            self._disturbance(chance)
            for _ in range(chance.choice((0, 0, 1, 1, 2)) if number else 0)
        )
        aged = {each.cache for each in disturbances if each.harm is StressHarm.AGE}
        acting = sorted(chance.sample(range(self.ranks), chance.randint(1, self.ranks)))
        compiles = [self._compile(chance, rank, hot, aged) for rank in acting]
        later = None
        if self.asks_later and number % _LATER == _LATER - 1:
            shared = any(each.shared for each in compiles)
            later = Compile(acting[-1], tuple(hot), CacheMode.ENABLE, shared=shared)
        jobs = self._jobs(random.Random(f"{self.seed}/{number}/jobs"))
        builds = [each for each in jobs if each.doing is Doing.BUILD]
        rebuild = builds[-1] if builds and number % _LATER == _LATER - 2 else None
        return Round(number, disturbances, tuple(compiles), later, jobs, rebuild)

    def _jobs(self, chance: random.Random) -> tuple[StressJob, ...]:
        """The jobs of a round, one at most for each rank."""
        if not self.doings:
            return ()
        jobs = []
        for rank in chance.sample(range(self.ranks), min(chance.choice(_JOBS), self.ranks)):
            doing = chance.choice([each for each in _DOINGS if each in self.doings])
            moved = chance.random() < 0.25
            of = chance.randrange(self.ranks) if moved else rank
            action = chance.choice((Action.KILL, Action.HOLD))
            fault = Fault(action, chance.randrange(1000))
            struck = chance.random() < 0.2 and doing in (Doing.INSTALL, Doing.UNINSTALL)
            injected = fault if struck and action in self.strikes else None
            jobs.append(StressJob(rank, doing, chance.randrange(self.networks), of, injected))
        return tuple(jobs)

    def _disturbance(self, chance: random.Random) -> Disturbance:
        cache = SHARED if chance.random() < 0.7 else f"rank{chance.randrange(self.ranks)}"
        harm = chance.choice(_HARMS)
        damage = chance.choice(DAMAGES).name if harm is StressHarm.DAMAGE else ""
        return Disturbance(harm, cache, chance.randrange(1000), damage)

    def _compile(self, chance: random.Random, rank: int, hot: list[int], aged: set[str]) -> Compile:
        operators = tuple(chance.sample(hot, chance.randint(1, len(hot))))
        setting = chance.choice(_SETTINGS)
        shared = chance.random() < 0.75
        return Compile(
            rank=rank,
            operators=operators,
            mode=chance.choice(_MODES),
            setting=setting if setting in self.settings else Setting.PLAIN,
            shared=shared,
            limited=(SHARED if shared else f"rank{rank}") in aged,
            fault=self._fault(chance),
        )

    def _fault(self, chance: random.Random) -> Fault | None:
        action = chance.choice((Action.KILL, Action.TEAR, Action.HOLD, Action.HOLD))
        fault = Fault(action, chance.randrange(1000))
        return fault if chance.random() < 0.25 and action in self.actions else None


_TYPES = (
    ("Add", 2, "float32"),
    ("Exp", 1, "float16"),
    ("Mul", 2, "float32"),
    ("Sqrt", 1, "float16"),
)
"""Type, number of inputs, data type. The float16 ones have an implementation for each mode."""


def population(count: int) -> tuple[OperatorSpec, ...]:
    """``count`` small operators, all different. The n-th is the same for every count."""
    operators = []
    for number in range(count):
        kind, inputs, dtype = _TYPES[number % len(_TYPES)]
        tensor = TensorDesc.of(dtype, 4, 8 + number)
        name = f"{kind.lower()}_{number}"
        operators.append(OperatorSpec(kind, (tensor,) * inputs, (tensor,), name=name))
    return tuple(operators)
