"""Every short history of a cache: each action of an alphabet right after each other one.

Nearly all faults of file systems show in short histories, if all are tried (Mohan et al., *Finding
Crash-Consistency Bugs with Bounded Black-Box Crash Testing*, OSDI 2018).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.between_runs import YEAR
from pytest_ascendcache.conformance.kit.life import Life, staged_version
from pytest_ascendcache.conformance.kit.neighbours import NEIGHBOURS, operator_of
from pytest_ascendcache.conformance.kit.own_entries import named
from pytest_ascendcache.conformance.kit.vocabulary import DISABLE, ENABLE, FORCE, OTHER_SOC
from pytest_ascendcache.contract import Capability, DebugConfig, SelectMode, other_soc
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.toolchains import StagedChange

_FIRST, _NEAR = named(NEIGHBOURS[1], "one")
_OTHER = NEIGHBOURS[3][0].named("one")
_TWO_MODES = operator_of("Exp", (4, 32), dtype="float16", name="one_of_two")
_DAMAGES = {each.name: each for each in DAMAGES}


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


def _versions(life: Life) -> Callable[[], None]:
    """An action: another version of the operator package than before, and its first run."""
    numbers = count(1)

    def stage() -> StagedChange:
        place = life.cache.sandbox / f"version{next(numbers)}"
        place.mkdir()
        return staged_version(life, _FIRST, place)

    staged = [stage()]

    def change() -> None:
        if staged:
            staged.pop().apply()
        else:
            staged.append(stage())
        life.run("enable of another version", (_OTHER,), ENABLE, upgraded=True)

    return change


def _alphabet(life: Life) -> dict[str, Callable[[], None]]:
    """The actions, as far as the toolchain has what they need."""
    run, cache = life.run, life.cache
    actions: dict[str, Callable[[], None]] = {
        "enable": lambda: run("enable", (_FIRST, _OTHER), ENABLE),
        "enable of a neighbour": lambda: run("enable of a neighbour", (_NEAR,), ENABLE),
        "force": lambda: run("force", (_FIRST,), FORCE),
        "force of two": lambda: run("force of two", (_NEAR, _OTHER), FORCE),
        "disable": lambda: run("disable", (_FIRST, _OTHER), DISABLE),
        "no mode": lambda: run("no mode", (_NEAR,), None),
        "debug level": lambda: run("a debug level", (_FIRST, _OTHER), ENABLE, debug_level=2),
        "object damaged": lambda: life.between.damage(_FIRST, _DAMAGES["object-code-flipped"]),
        "object lost": lambda: life.between.damage(_NEAR, _DAMAGES["object-missing"]),
        "metadata lost": lambda: life.between.damage(_OTHER, _DAMAGES["metadata-missing"]),
        "a year passes": lambda: life.between.age(-YEAR),
    }
    if Capability.SINGLE_OP_DEBUG in cache.toolchain.capabilities:
        listed: dict[str, Any] = {"debug_config": DebugConfig(("ccec_g",), (_OTHER.name,))}
        actions["a list"] = lambda: run("a list", (_FIRST, _OTHER), ENABLE, **listed)
        actions["force and a list"] = lambda: run("force and a list", (_OTHER,), FORCE, **listed)
    chip = other_soc(cache.toolchain.soc, OTHER_SOC)
    if not cache.lacks(chip, _FIRST):
        actions["another chip"] = lambda: run("another chip", (_FIRST,), ENABLE, soc=chip)
        actions["force there"] = lambda: run("force there", (_OTHER,), FORCE, soc=chip)
    if life.entries.has_two(_TWO_MODES):
        for mode in (SelectMode.HIGH_PRECISION_FOR_ALL, SelectMode.HIGH_PERFORMANCE_FOR_ALL):
            actions[mode.value] = partial(
                run, mode.value, (_TWO_MODES, _FIRST), ENABLE, select_implmode=mode
            )
    if Capability.VERSION_STAMP in cache.toolchain.capabilities:
        actions["another version"] = _versions(life)
    return actions
