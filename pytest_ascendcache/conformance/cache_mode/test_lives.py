"""Documents C and I: one cache through many runs, each judged by all that was before.

A story of a few runs says more of a promise; a life has promises meet, for the fewest runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_ascendcache.conformance.kit import lives as stories
from pytest_ascendcache.conformance.kit.aging_life import aging
from pytest_ascendcache.conformance.kit.life import Aspect, Life
from pytest_ascendcache.conformance.kit.lives import Caches, Lives
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.toolchains import Toolchain

RULES = {
    Aspect.OUTCOMES: "combinations/outcome",
    Aspect.KERNELS: "cache-mode/transparent",
    Aspect.NUMBERS: "combinations/numbers",
    Aspect.MODES: "impl-mode/precision-file",
    Aspect.TYPES: "impl-mode/type-list",
    Aspect.TABLES: "impl-mode/for-all",
    Aspect.INERT: "cache-mode/disable-is-inert",
    Aspect.HEALING: "robust/heals-damaged-entry",
    Aspect.AGING: "aging/oldest-first",
    Aspect.SOURCES: "aging/ini-beats-environment",
    Aspect.HALVES: "aging/ini-needs-both-keys",
    Aspect.BAD: "aging/bad-values",
    Aspect.OFF: "aging/minus-one",
    Aspect.RENEWS: "aging/hit-renews",
    Aspect.CHIPS: "aging/per-soc",
    Aspect.CREATED: "aging/creates-ini",
    Aspect.ORPHANS: "aging/orphans",
    Aspect.MOUNT: "aging/works-on-relatime",
    Aspect.SHARED: "cache-mode/key-ignores-names",
    Aspect.SPARED: "cache-mode/force-spares-other-soc",
    Aspect.PURGED: "cache-mode/force-purges-soc",
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


def asks(*aspects: Aspect) -> pytest.MarkDecorator:
    """A case for each aspect, of its own rule; all of them look at the same runs."""
    cases = [pytest.param(each, marks=rule(RULES[each]), id=each.value) for each in aspects]
    return pytest.mark.parametrize("aspect", cases)


@asks(
    Aspect.OUTCOMES,
    Aspect.KERNELS,
    Aspect.PRIVATE,
    Aspect.PLACE,
    Aspect.INERT,
    Aspect.SHARED,
    Aspect.SPARED,
    Aspect.PURGED,
)
def test_a_cache_lives_through_every_mode(
    lives: Lives, ascend_evidence: Evidence, aspect: Aspect
) -> None:
    _judge(lives, stories.modes, ascend_evidence, aspect)


@asks(
    Aspect.OUTCOMES,
    Aspect.KERNELS,
    Aspect.NUMBERS,
    Aspect.MODES,
    Aspect.TYPES,
    Aspect.TABLES,
)
def test_a_cache_lives_with_both_implementations(
    lives: Lives, ascend_evidence: Evidence, aspect: Aspect
) -> None:
    _judge(lives, stories.implementations, ascend_evidence, aspect)


@asks(
    Aspect.OUTCOMES,
    Aspect.KERNELS,
    Aspect.HEALING,
    Aspect.AGING,
    Aspect.UPGRADE,
    Aspect.PRIVATE,
    Aspect.LINKS,
    Aspect.NAMES,
    Aspect.PLACE,
)
def test_a_cache_lives_through_accidents(
    lives: Lives, ascend_evidence: Evidence, aspect: Aspect
) -> None:
    _judge(lives, stories.accidents, ascend_evidence, aspect)


@asks(
    Aspect.OUTCOMES,
    Aspect.KERNELS,
    Aspect.AGING,
    Aspect.SOURCES,
    Aspect.HALVES,
    Aspect.BAD,
    Aspect.OFF,
    Aspect.RENEWS,
    Aspect.CHIPS,
    Aspect.CREATED,
    Aspect.ORPHANS,
    Aspect.MOUNT,
)
def test_a_cache_lives_within_changing_limits(
    lives: Lives, ascend_evidence: Evidence, aspect: Aspect
) -> None:
    _judge(lives, aging, ascend_evidence, aspect)


def _judge(lives: Lives, story: Callable[[Life], None], evidence: Evidence, aspect: Aspect) -> None:
    life = lives.life(story, evidence)
    toolchain = life.cache.toolchain
    if aspect is Aspect.UPGRADE and Capability.VERSION_STAMP not in toolchain.capabilities:
        pytest.skip(f"{toolchain.name}: {Capability.VERSION_STAMP.lacking}")
    evidence.ran(life.witness(aspect))
    message = life.message(aspect)
    if message:
        pytest.fail(message)
    if aspect in life.undecided:
        raise NotDecidable(life.undecided[aspect])
    if aspect not in life.judged:
        raise NotDecidable(f"the cache never came to where its {aspect.value} can be seen")
