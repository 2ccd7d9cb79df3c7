"""Covering arrays with constraints, and the count that proves one complete.

In an array of strength t every allowed combination of levels of t factors is in a row. Rows are
made greedily, the best of some candidates, as AETG does; :func:`coverage` counts independently of
that. Measured alternatives: facts ``feasibility`` section 5.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

Row = tuple[int, ...]
"""One level number for each factor, in the model's order."""

_Item = tuple[int, int]
"""The numbers of a factor and of one of its levels."""

_SEED = 20260
_CANDIDATES = {1: 1, 2: 20, 3: 12}
"""How many candidates compete for one row, by strength; 3 for other strengths."""


@dataclass(frozen=True)
class Factor:
    """Something that varies between combinations. The first level is the plain one."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Constraint:
    """Levels of some factors that exclude each other; ``allows`` takes one level of each factor."""

    factors: tuple[str, ...]
    allows: Callable[..., bool]
    because: str


@dataclass(frozen=True)
class Model:
    """Factors, and the constraints between their levels."""

    factors: tuple[Factor, ...]
    constraints: tuple[Constraint, ...] = ()

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {factor.name: number for number, factor in enumerate(self.factors)}

    @cached_property
    def _tied(self) -> list[frozenset[int]]:
        """Groups of factors that constraints tie together. Feasibility of groups is independent."""
        groups: list[frozenset[int]] = []
        for constraint in self.constraints:
            group = frozenset(self._numbers[name] for name in constraint.factors)
            apart = [each for each in groups if not each & group]
            groups = [*apart, group.union(*(each for each in groups if each & group))]
        return groups

    @cached_property
    def _known(self) -> dict[tuple[frozenset[int], tuple[_Item, ...]], bool]:
        return {}

    def levels(self, row: Row) -> dict[str, str]:
        return {
            factor.name: factor.levels[number]
            for factor, number in zip(self.factors, row, strict=True)
        }

    def row(self, levels: Mapping[str, str]) -> Row:
        """The row with these levels. Raises ``ValueError`` if a factor does not have its level."""
        return tuple(factor.levels.index(levels[factor.name]) for factor in self.factors)

    def allows(self, row: Row) -> bool:
        return self.is_feasible(enumerate(row))

    def is_feasible(self, items: Iterable[_Item]) -> bool:
        """Whether an allowed row with these levels exists."""
        chosen = dict(items)
        for group in self._tied:
            known = tuple((number, chosen[number]) for number in group if number in chosen)
            key = (group, known)
            if key not in self._known:
                self._known[key] = self._completes(dict(known), group)
            if not self._known[key]:
                return False
        return True

    def _completes(self, chosen: dict[int, int], group: frozenset[int]) -> bool:
        if not all(self._holds(constraint, chosen) for constraint in self.constraints):
            return False
        number = next((each for each in group if each not in chosen), None)
        if number is None:
            return True
        levels = range(len(self.factors[number].levels))
        return any(self._completes({**chosen, number: level}, group) for level in levels)

    def _holds(self, constraint: Constraint, chosen: Mapping[int, int]) -> bool:
        numbers = [self._numbers[name] for name in constraint.factors]
        if any(number not in chosen for number in numbers):
            return True
        return constraint.allows(*(self.factors[n].levels[chosen[n]] for n in numbers))

    def tuples(self, strength: int) -> Iterator[tuple[_Item, ...]]:
        """Every combination of levels of ``strength`` factors, feasible or not."""
        for numbers in combinations(range(len(self.factors)), strength):
            ranges = [range(len(self.factors[number].levels)) for number in numbers]
            for levels in product(*ranges):
                yield tuple(zip(numbers, levels, strict=True))


@dataclass(frozen=True)
class Coverage:
    """Counts of combinations of levels of ``strength`` factors."""

    strength: int
    covered: int
    feasible: int
    infeasible: int

    @property
    def is_complete(self) -> bool:
        return self.covered == self.feasible

    def __str__(self) -> str:
        what = {1: "levels", 2: "pairs", 3: "triples"}.get(self.strength, f"{self.strength}-tuples")
        return (
            f"{what} covered {self.covered} of {self.feasible} feasible, "
            f"{self.infeasible} infeasible"
        )


def coverage(model: Model, strength: int, rows: Iterable[Row]) -> Coverage:
    """Count what rows cover; rows that the model does not allow cover nothing."""
    covered: set[tuple[_Item, ...]] = set()
    for row in rows:
        if model.allows(row):
            covered.update(combinations(enumerate(row), strength))
    feasible = Counter(map(model.is_feasible, model.tuples(strength)))
    return Coverage(strength, len(covered), feasible[True], feasible[False])


def all_rows(model: Model) -> Iterator[Row]:
    """Every row the model allows, the last factor varying fastest."""
    rows = product(*(range(len(factor.levels)) for factor in model.factors))
    return filter(model.allows, rows)


def covering_array(
    model: Model, strength: int, given: Iterable[Row] = (), seed: int = _SEED
) -> list[Row]:
    """Rows that, with ``given`` rows, cover every feasible combination of ``strength`` factors, the
    same ones in every process."""
    choice = random.Random(seed)
    missing = _Missing(model, strength)
    for row in given:
        if model.allows(row):
            missing.strike(row)
    rows: list[Row] = []
    while missing.count:
        candidates = [
            _candidate(model, missing, choice) for _ in range(_CANDIDATES.get(strength, 3))
        ]
        best = max(candidates, key=missing.gain)
        missing.strike(best)
        rows.append(best)
    return rows


class _Missing:
    """Combinations that no row covers yet. ``levels`` maps all items of one but the last, and that
    one's factor, to the levels missing there. Dictionaries serve as sets, for their order."""

    def __init__(self, model: Model, strength: int) -> None:
        self.strength = strength
        self.count = 0
        self._with: defaultdict[_Item, dict[tuple[_Item, ...], None]] = defaultdict(dict)
        self.levels: defaultdict[tuple[tuple[_Item, ...], int], set[int]] = defaultdict(set)
        for each in model.tuples(strength):
            if model.is_feasible(each):
                self.count += 1
                for item in each:
                    self._with[item][each] = None
                for key, level in _keys(each):
                    self.levels[key].add(level)

    def gain(self, row: Row) -> int:
        """The number of missing combinations that a row would cover."""
        return sum(
            each in self._with[each[0]] for each in combinations(enumerate(row), self.strength)
        )

    def strike(self, row: Row) -> None:
        """Remove the combinations that a row covers."""
        for each in combinations(enumerate(row), self.strength):
            if each in self._with[each[0]]:
                self.count -= 1
                for item in each:
                    del self._with[item][each]
                for key, level in _keys(each):
                    self.levels[key].discard(level)

    def draw(self, choice: random.Random) -> tuple[_Item, ...]:
        """A missing combination with one of the items that are missing most often."""
        most = max(len(each) for each in self._with.values())
        items = [item for item, each in self._with.items() if len(each) == most]
        return choice.choice(list(self._with[choice.choice(items)]))


def _keys(whole: tuple[_Item, ...]) -> Iterator[tuple[tuple[tuple[_Item, ...], int], int]]:
    for index, (number, level) in enumerate(whole):
        yield (whole[:index] + whole[index + 1 :], number), level


def _candidate(model: Model, missing: _Missing, choice: random.Random) -> Row:
    """A row that covers a missing combination. The other factors, in random order, get the level
    that covers most with those chosen already."""
    chosen = dict(missing.draw(choice))
    rest = [number for number in range(len(model.factors)) if number not in chosen]
    choice.shuffle(rest)
    for number in rest:
        chosen[number] = _best_level(model, missing, chosen, number, choice)
    return tuple(chosen[number] for number in range(len(model.factors)))


def _best_level(
    model: Model, missing: _Missing, chosen: Mapping[int, int], number: int, choice: random.Random
) -> int:
    counts = [0] * len(model.factors[number].levels)
    for others in combinations(sorted(chosen.items()), missing.strength - 1):
        for level in missing.levels.get((others, number), ()):
            counts[level] += 1
    order = list(range(len(counts)))
    choice.shuffle(order)
    order.sort(key=lambda level: -counts[level])
    # A feasible combination has a feasible completion, so there is always such a level.
    return next(each for each in order if model.is_feasible([*chosen.items(), (number, each)]))
