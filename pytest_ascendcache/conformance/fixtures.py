"""What the suite's checks are given, under short names; no test of a user's own sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.caches import KERNEL_META
from pytest_ascendcache.conformance.kit.states import take_debug_config
from pytest_ascendcache.conformance.kit.together import Caches, Together
from pytest_ascendcache.conformance.kit.vocabulary import OTHER_SOC
from pytest_ascendcache.contract import Capability, Edition, Rule, load_rules
from pytest_ascendcache.contract import other_soc as beside
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NetworkUnderTest,
    NotDecidable,
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
    "of_this_layout",
    "other_soc",
    "probes",
    "sqrt",
    "together",
    "toolchain",
]


def _rule_of(request: pytest.FixtureRequest) -> Rule:
    return load_rules()[request.node.get_closest_marker("ascend_rule").args[0]]


@pytest.fixture(autouse=True)
def applicable(request: pytest.FixtureRequest) -> None:
    """A rule that needs what the toolchain lacks is not applicable."""
    rule = _rule_of(request)
    # An audit needs no toolchain, and what no edition changes needs none either.
    if rule.differs and (why := request.getfixturevalue("ascend_session").judged_by.unsure(rule)):
        raise NotDecidable(why)
    needed = rule.capabilities
    if not needed:
        return  # and an audit needs no toolchain at all
    toolchain: Toolchain = request.getfixturevalue("ascend_toolchain")
    if reason := getattr(toolchain, "unusable", ""):
        pytest.skip(f"{toolchain.name}: {reason}")
    for missing in sorted(needed - toolchain.capabilities):
        pytest.skip(f"{toolchain.name}: {missing.lacking}")


@pytest.fixture
def cache(request: pytest.FixtureRequest, ascend_cache: CacheUnderTest) -> CacheUnderTest:
    """An empty cache of the check's own."""
    toolchain = ascend_cache.toolchain
    if Capability.CANN_LAYOUT not in toolchain.capabilities:
        pytest.skip(f"{toolchain.name}: {Capability.CANN_LAYOUT.lacking}")
    if Capability.DEBUG_CONFIG in _rule_of(request).capabilities:
        take_debug_config(ascend_cache)
    return ascend_cache


@pytest.fixture(scope="session")
def together(ascend_session: Caches) -> Together:
    """Stories that have all cases of a check in them; the cases share their runs."""
    return Together(ascend_session)


@pytest.fixture
def network(ascend_network: NetworkUnderTest) -> NetworkUnderTest:
    """Ranks that run networks, in directories of the check's own."""
    return ascend_network


@pytest.fixture(autouse=True)
def of_this_layout(request: pytest.FixtureRequest) -> None:
    """Checks of ranks' ``kernel_meta`` say nothing of another layout, nor the other way round."""
    if "ascend_network" not in request.fixturenames:
        return
    toolchain: Toolchain = request.getfixturevalue("ascend_toolchain")
    if reason := getattr(toolchain, "unusable", ""):
        pytest.skip(f"{toolchain.name}: {reason}")
    other = getattr(toolchain, "network_layout", KERNEL_META) is not KERNEL_META
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    if folder != "shared" and (folder == "mindspore") != other:
        pytest.skip(f"{toolchain.name}: keeps what it compiled in another layout")


@pytest.fixture
def kernels(ascend_static_kernels: StaticKernelsUnderTest) -> Iterator[StaticKernelsUnderTest]:
    """op_compiler, packages and clients, in directories of the check's own."""
    with ascend_static_kernels.alone_on_the_machine():
        yield ascend_static_kernels


@pytest.fixture
def other_soc(request: pytest.FixtureRequest, cache: CacheUnderTest, add: OperatorSpec) -> str:
    """A chip beside the one under test; a toolchain need not compile for every chip."""
    soc = beside(cache.toolchain.soc, getattr(request, "param", OTHER_SOC))
    if reason := cache.lacks(soc, add):
        pytest.skip(f"{cache.toolchain.name}: {reason}")
    return soc


@pytest.fixture
def edition(request: pytest.FixtureRequest) -> Edition:
    """The edition of CANN's documents that is judged by."""
    judged_by: Edition = request.getfixturevalue("ascend_session").judged_by.cann
    return judged_by


@pytest.fixture
def toolchain(ascend_toolchain: Toolchain) -> Toolchain:
    """The toolchain under test."""
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
def sqrt(ascend_operators: dict[str, OperatorSpec]) -> OperatorSpec:
    """Element-wise, float16."""
    return ascend_operators["sqrt"]


@pytest.fixture
def exp(ascend_operators: dict[str, OperatorSpec]) -> OperatorSpec:
    """Element-wise, float32."""
    return ascend_operators["exp"]


@pytest.fixture
def probes(ascend_operators: dict[str, OperatorSpec]) -> tuple[OperatorSpec, ...]:
    """Every probe operator."""
    return tuple(ascend_operators.values())
