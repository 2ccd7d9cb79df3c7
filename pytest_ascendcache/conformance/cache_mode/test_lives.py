"""Documents C and I: one cache through many runs, each judged by all that was before.

A story of a few runs says more of a promise; a life has promises meet, for the fewest runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_ascendcache.conformance.kit.life import Aspect
from pytest_ascendcache.conformance.kit.lives import Caches, Lives, questions
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.toolchains import Toolchain

RULES = {
    Aspect.OUTCOMES: "combinations/outcome",
    Aspect.KERNELS: "cache-mode/transparent",
    Aspect.NUMBERS: "combinations/numbers",
    Aspect.HEALING: "robust/heals-damaged-entry",
    Aspect.AGING: "aging/oldest-first",
    Aspect.UPGRADE: "robust/upgrade-stamp",
    Aspect.PRIVATE: "security/private-modes",
    Aspect.LINKS: "security/no-symlink-follow",
    Aspect.NAMES: "security/no-path-escape",
    Aspect.PLACE: "cache-mode/directory-precedence",
}


@pytest.fixture(scope="session")
def lives(ascend_session: Caches, ascend_toolchain: Toolchain) -> Iterator[Lives]:
    """Lives of this session; checks of one life share its runs."""
    found = Lives(ascend_session, ascend_toolchain)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("name", "aspect"),
    [
        pytest.param(name, aspect, marks=rule(RULES[aspect]), id=f"{name}-{aspect.value}")
        for name, aspect in questions()
    ],
)
def test_a_cache_lives_through_it(
    lives: Lives, ascend_evidence: Evidence, name: str, aspect: Aspect
) -> None:
    life = lives.life(name, ascend_evidence)
    ascend_evidence.ran(life.witness(aspect))
    message = life.message(aspect)
    if message:
        pytest.fail(message)
    if aspect in life.undecided:
        raise NotDecidable(life.undecided[aspect])
    if aspect not in life.judged:
        raise NotDecidable(f"the cache never came to where its {aspect.value} can be seen")
