"""Families of operators: one type with the parameters that its operators differ in."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

from pytest_ascendcache.operators import OperatorSpec

_NEARLY_EQUAL, _REDRAWN = 2, 2
"""Neighbours for each parameter that changes a little, and parameters that are drawn again."""
MOST_ELEMENTS = 8192
"""The most elements of one tensor, except for the one long dimension of a family."""
STEP = 1 / 16
"""The distance of two numbers of a list. float16 holds all of them, and the numbers halfway."""

Values = Mapping[str, Any]
Draw = Callable[[random.Random], Any]
Build = Callable[[str, Values], OperatorSpec | None]
"""Makes an operator of a type from the values of its parameters, or ``None`` if they fit none."""

_EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31)
_LONG = (4093, 4096, 4099, 5003)


@dataclass(frozen=True)
class Family:
    """Operators of one type: how each parameter is drawn, and how values become an operator.
    ``corners`` are values that chance seldom brings together; every pass has each of them."""

    type: str
    parameters: Mapping[str, Draw]
    build: Build
    corners: tuple[Values, ...] = ()

    def base(self, rng: random.Random) -> tuple[dict[str, Any], OperatorSpec]:
        """Random values, and their operator."""
        while True:
            values = {name: draw(rng) for name, draw in self.parameters.items()}
            operator = self.build(self.type, values)
            if operator is not None:
                return values, operator

    def in_corners(self, values: Values) -> Iterator[OperatorSpec]:
        """The operators with ``values`` overridden by those of each corner."""
        for corner in self.corners:
            operator = self.build(self.type, {**values, **corner})
            if operator is not None:
                yield operator

    def neighbours(self, values: Values, rng: random.Random) -> Iterator[OperatorSpec]:
        """Operators with one parameter changed: shapes, orders and lists a little, in two ways; of
        the other parameters two are drawn again."""
        base = self.build(self.type, values)
        for name in sorted(_NEAR.keys() & self.parameters):
            near = list(_NEAR[name](values[name]))
            candidates = rng.sample(near, len(near))
            yield from islice(self._changed(base, values, name, candidates), _NEARLY_EQUAL)
        others = sorted(self.parameters.keys() - _NEAR.keys())
        for name in rng.sample(others, min(len(others), _REDRAWN)):
            drawn = [self.parameters[name](rng) for _ in range(8)]
            yield from islice(self._changed(base, values, name, drawn), 1)

    def _changed(
        self, base: OperatorSpec | None, values: Values, name: str, candidates: Iterable[Any]
    ) -> Iterator[OperatorSpec]:
        for candidate in candidates:
            operator = self.build(self.type, {**values, name: candidate})
            if operator is not None and operator != base:
                yield operator


def family(
    type_name: str, build: Build, corners: tuple[Values, ...] = (), **parameters: Any
) -> Family:
    """A family whose ``parameters`` are sequences of values to choose from, or draws."""
    draws = {name: each if callable(each) else one_of(*each) for name, each in parameters.items()}
    return Family(type_name, draws, build, corners)


def one_of(*values: Any) -> Draw:
    return lambda rng: rng.choice(values)


def shapes(long: bool = True) -> Draw:
    """Draws a shape of 1 to 8 dimensions; extents are short, odd, prime, or 1, and if ``long`` one
    of up to 3 may be long."""

    def draw(rng: random.Random) -> tuple[int, ...]:
        rank = rng.randint(1, 8)
        if long and rank < 4 and rng.random() < 0.15:
            shape = [1] * rank
            shape[rng.randrange(rank)] = rng.choice(_LONG)
            return tuple(shape)
        shape = [rng.choice(_EXTENTS) for _ in range(rank)]
        while prod(shape) > MOST_ELEMENTS:
            longest = max(range(rank), key=shape.__getitem__)
            shape[longest] = rng.choice(_EXTENTS[:5])
        return tuple(shape)

    return draw


def _near_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes that a careless key confuses with this one: with a 1 more, less or elsewhere, two
    extents exchanged, or one extent longer."""
    for place in range(len(shape) + 1):
        if len(shape) < 8:
            yield (*shape[:place], 1, *shape[place:])
    for place, extent in enumerate(shape):
        rest = (*shape[:place], *shape[place + 1 :])
        if extent == 1 and rest:
            yield rest
            yield (*rest[:1], 1, *rest[1:])
            yield (*rest, 1)
        yield (*rest[:place], extent + 1, *rest[place:])
        yield (extent, *rest)


def _near_orders(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Orders with two neighbouring places exchanged."""
    for place in range(len(order) - 1):
        yield (*order[:place], order[place + 1], order[place], *order[place + 2 :])


def _near_lists(numbers: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    """Lists with one number moved by half a step, the last one missing, or one more."""
    for place in range(len(numbers)):
        yield (*numbers[:place], numbers[place] + STEP / 2, *numbers[place + 1 :])
    yield numbers[:-1]
    yield (*numbers, numbers[-1] + STEP)


_NEAR: Mapping[str, Callable[[Any], Iterator[Any]]] = {
    "shape": _near_shapes,
    "perm": _near_orders,
    "boundaries": _near_lists,
}
"""Parameters that change a little. The other parameters are drawn again."""
