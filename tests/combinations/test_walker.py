"""The walker changes one thing at a time, and no change ends the reference in a traceback."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from pytest_ascendcache.combinations.generated import generate
from pytest_ascendcache.combinations.walker import changes, walk
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.reference.kernels.compiler import KernelOptions, check
from pytest_ascendcache.reference.kernels.errors import KernelError

BASES = {each.type: each for each in generate(near=False)}
OPTIONS = KernelOptions(soc="Ascend910B1")


@pytest.mark.parametrize("base", BASES.values(), ids=lambda each: each.type)
def test_each_change_is_another_description(base: OperatorSpec) -> None:
    changed = [one for _, one in changes(base)]
    descriptions = {repr((one.inputs, one.outputs, one.attributes)) for one in changed}
    assert len(descriptions) == len(changed) > 20
    assert repr((base.inputs, base.outputs, base.attributes)) not in descriptions


@pytest.mark.parametrize("base", BASES.values(), ids=lambda each: each.type)
def test_a_changed_operator_is_compiled_or_refused(base: OperatorSpec) -> None:
    drawn = random.Random(base.type).sample([*changes(base)], 20)
    for _, one in drawn:
        with suppress(KernelError):
            check(one, OPTIONS)


def test_a_walk_visits_every_kind_once() -> None:
    kinds = [what for what, _ in walk(tuple(BASES.values()), seed=1)]
    assert len(set(kinds)) == len(kinds) > 150
    assert {what for base in BASES.values() for what, _ in changes(base)} == {*kinds}
