"""The fixtures of the suite's checks. A user's own tests do not see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.caches import KERNEL_META
from pytest_ascendcache.conformance.kit.states import take_debug_config
from pytest_ascendcache.conformance.kit.together import Caches, Together
from pytest_ascendcache.conformance.kit.vocabulary import OTHER_SOC, needs
from pytest_ascendcache.contract import Capability, Edition, Rule, load_rules
from pytest_ascendcache.contract import other_soc as another_chip
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NetworkUnderTest,
    StaticKernelsUnderTest,
)
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain

__all__ = [
    "add",
    "applicable",
    "cache",
    "edition",
    "exp",
    "kernels",
    "mul",
    "network",
    "other_soc",
    "probes",
    "together",
    "toolchain",
]


def _rule_of(request: pytest.FixtureRequest) -> Rule:
    return load_rules()[request.node.get_closest_marker("ascend_rule").args[0]]


@pytest.fixture(autouse=True)
def applicable(request: pytest.FixtureRequest) -> None:
    """Skip a check if the toolchain lacks a capability that its rule needs, and a check of ranks if
    its folder is about another cache layout than the toolchain's."""
    rule = _rule_of(request)
    of_ranks = "ascend_network" in request.fixturenames
    if not rule.capabilities and not of_ranks:
        return  # an audit has no toolchain
    toolchain: Toolchain = request.getfixturevalue("ascend_toolchain")
    if reason := getattr(toolchain, "unusable", ""):
        pytest.skip(f"{toolchain.name}: {reason}")
    needs(toolchain, *sorted(rule.capabilities))
    other = getattr(toolchain, "network_layout", KERNEL_META) is not KERNEL_META
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    if of_ranks and folder != "shared" and (folder == "mindspore") != other:
        pytest.skip(f"{toolchain.name}: keeps what it compiled in another layout")


@pytest.fixture
def cache(request: pytest.FixtureRequest, ascend_cache: CacheUnderTest) -> CacheUnderTest:
    """An empty cache."""
    needs(ascend_cache.toolchain, Capability.CANN_LAYOUT)
    if Capability.DEBUG_CONFIG in _rule_of(request).capabilities:
        take_debug_config(ascend_cache)
    return ascend_cache


@pytest.fixture(scope="session")
def together(ascend_session: Caches) -> Together:
    """Stories that hold all cases of a check, so that the cases share runs."""
    return Together(ascend_session)


@pytest.fixture
def network(ascend_network: NetworkUnderTest) -> NetworkUnderTest:
    """Ranks that run networks, with an empty cache."""
    return ascend_network


@pytest.fixture
def kernels(ascend_static_kernels: StaticKernelsUnderTest) -> Iterator[StaticKernelsUnderTest]:
    """op_compiler, packages and clients, with an empty operator package directory."""
    with ascend_static_kernels.alone_on_the_machine():
        yield ascend_static_kernels


@pytest.fixture
def other_soc(request: pytest.FixtureRequest, cache: CacheUnderTest, add: OperatorSpec) -> str:
    """Another chip than the one under test. Skips if the toolchain does not compile for it."""
    soc = another_chip(cache.toolchain.soc, getattr(request, "param", OTHER_SOC))
    if reason := cache.lacks(soc, add):
        pytest.skip(f"{cache.toolchain.name}: {reason}")
    return soc


@pytest.fixture
def edition(request: pytest.FixtureRequest) -> Edition:
    """The edition of CANN's documents that the session judges by."""
    cann: Edition = request.getfixturevalue("ascend_session").judged_by.cann
    return cann


@pytest.fixture
def toolchain(ascend_toolchain: Toolchain) -> Toolchain:
    return ascend_toolchain


@pytest.fixture
def add(ascend_operators: dict[str, OperatorSpec]) -> OperatorSpec:
    """Element-wise, float32, no attributes."""
    return ascend_operators["add"]


@pytest.fixture
def mul(ascend_operators: dict[str, OperatorSpec]) -> OperatorSpec:
    """Element-wise, float32, the shape of ``add``."""
    return ascend_operators["mul"]


@pytest.fixture
def exp(ascend_operators: dict[str, OperatorSpec]) -> OperatorSpec:
    """Element-wise, float32."""
    return ascend_operators["exp"]


@pytest.fixture
def probes(ascend_operators: dict[str, OperatorSpec]) -> tuple[OperatorSpec, ...]:
    """Every probe operator."""
    return tuple(ascend_operators.values())
