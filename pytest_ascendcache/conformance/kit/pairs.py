"""Every short history of a cache: each action of an alphabet right after each other one.

Nearly all faults of file systems show in short histories, if all are tried (Mohan et al., *Finding
Crash-Consistency Bugs with Bounded Black-Box Crash Testing*, OSDI 2018).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.between_runs import YEAR
from pytest_ascendcache.conformance.kit.life import Life, staged_version
from pytest_ascendcache.conformance.kit.neighbours import NEIGHBOURS, operator_of
from pytest_ascendcache.conformance.kit.own_entries import named
from pytest_ascendcache.conformance.kit.vocabulary import DISABLE, ENABLE, FORCE, OTHER_SOC
from pytest_ascendcache.contract import CacheMode, Capability, DebugConfig, SelectMode, other_soc
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.operators import OperatorSpec

_FIRST, _NEAR = named(NEIGHBOURS[1], "one")
_OTHER = NEIGHBOURS[3][0].named("one")
_TWO_MODES = operator_of("Exp", (4, 32), dtype="float16", name="one_of_two")
_DAMAGES = {each.name: each for each in DAMAGES}

_Asked = tuple[str, tuple[tuple[OperatorSpec, ...], CacheMode | None], dict[str, Any]]


def de_bruijn(count: int, length: int) -> Iterator[int]:
    """Numbers below ``count`` in an order in which, read in a circle, every word of ``length``
    numbers stands once: the Lyndon words of lengths that divide it, in order."""
    word = [-1]
    while word:
        word[-1] += 1
        if length % len(word) == 0:
            yield from word
        word = (word * length)[:length]
        while word and word[-1] == count - 1:
            word.pop()


def pairs(life: Life) -> None:
    """Each action after each other one; see :func:`_alphabet`."""
    short_histories(life, length=2)


def triples(life: Life) -> None:
    """Each action after each two others."""
    short_histories(life, length=3)


def short_histories(life: Life, length: int) -> None:
    """Every history of ``length`` actions, in an order that the session's seed draws."""
    actions = [*_alphabet(life).values()]
    random.Random(seeded(5)).shuffle(actions)
    order = [*de_bruijn(len(actions), length)]
    for number in (*order, *order[: length - 1]):
        actions[number]()
    for _ in range(2):
        life.run("enable at last", (_FIRST, _NEAR, _OTHER), ENABLE)


def _alphabet(life: Life) -> dict[str, Callable[[], None]]:
    """The actions, as far as the toolchain has what they need."""
    runs = _runs(life)
    between = life.between
    actions: dict[str, Callable[[], None]] = {
        **{what: partial(life.run, what, *asked, **more) for what, asked, more in runs},
        "object damaged": partial(between.damage, _FIRST, _DAMAGES["object-code-flipped"]),
        "object lost": partial(between.damage, _NEAR, _DAMAGES["object-missing"]),
        "metadata lost": partial(between.damage, _OTHER, _DAMAGES["metadata-missing"]),
        "a year passes": partial(between.age, -YEAR),
    }
    cache = life.cache
    if Capability.VERSION_STAMP in cache.toolchain.capabilities:
        change = staged_version(life, _FIRST, cache.sandbox)
        firsts = itertools.cycle(runs)
        there = [each for each in runs if "soc" in each[2]]

        def upgrade() -> None:
            """Another version, and its first run, which is any. Entries of another chip are of the
            version before: whether they are served is seen when that chip's turn comes."""
            for _, _, more in there[:1]:
                life.run("both on another chip", (_FIRST, _OTHER), ENABLE, **more)
            change.apply()
            what, asked, more = next(firsts)
            life.run(f"{what}, first of a version", *asked, upgraded=True, **more)

        actions["another version"] = upgrade
    return actions


def _runs(life: Life) -> list[_Asked]:
    """The runs: what each is called, its operators and mode, and its options."""
    cache = life.cache
    runs: list[_Asked] = [
        ("enable", ((_FIRST, _OTHER), ENABLE), {}),
        ("enable of a neighbour", ((_NEAR,), ENABLE), {}),
        ("force", ((_FIRST,), FORCE), {}),
        ("force of two", ((_NEAR, _OTHER), FORCE), {}),
        ("disable", ((_FIRST, _OTHER), DISABLE), {}),
        ("no mode", ((_NEAR,), None), {}),
        ("a debug level", ((_FIRST, _OTHER), ENABLE), {"debug_level": 2}),
    ]
    if Capability.SINGLE_OP_DEBUG in cache.toolchain.capabilities:
        listed = {"debug_config": DebugConfig(("ccec_g",), (_OTHER.name,))}
        runs.append(("a list", ((_FIRST, _OTHER), ENABLE), listed))
        runs.append(("force and a list", ((_OTHER,), FORCE), listed))
    chip = other_soc(cache.toolchain.soc, OTHER_SOC)
    if not cache.lacks(chip, _FIRST):
        runs.append(("another chip", ((_FIRST,), ENABLE), {"soc": chip}))
        runs.append(("force there", ((_OTHER,), FORCE), {"soc": chip}))
    if life.entries.has_two(_TWO_MODES):
        for mode in (SelectMode.HIGH_PRECISION_FOR_ALL, SelectMode.HIGH_PERFORMANCE_FOR_ALL):
            runs.append((mode.value, ((_TWO_MODES, _FIRST), ENABLE), {"select_implmode": mode}))
    return runs
