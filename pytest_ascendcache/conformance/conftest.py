"""Short names for the checks of this folder."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NetworkUnderTest,
    StaticKernelsUnderTest,
)
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain


@pytest.fixture(autouse=True)
def _capabilities(request: pytest.FixtureRequest) -> None:
    """A rule that needs what the toolchain lacks is not applicable."""
    marker = request.node.get_closest_marker("ascend_rule")
    needed = load_rules()[marker.args[0]].capabilities
    if not needed:
        return  # and an audit needs no toolchain at all
    toolchain: Toolchain = request.getfixturevalue("ascend_toolchain")
    for missing in sorted(needed - toolchain.capabilities):
        pytest.skip(f"{toolchain.name}: {missing.lacking}")


@pytest.fixture
def cache(ascend_cache: CacheUnderTest) -> CacheUnderTest:
    """An empty cache of the check's own."""
    return ascend_cache


@pytest.fixture
def network(ascend_network: NetworkUnderTest) -> NetworkUnderTest:
    """Ranks that run networks, in directories of the check's own."""
    return ascend_network


@pytest.fixture
def kernels(ascend_static_kernels: StaticKernelsUnderTest) -> StaticKernelsUnderTest:
    """op_compiler, packages and clients, in directories of the check's own."""
    return ascend_static_kernels


@pytest.fixture
def other_soc(request: pytest.FixtureRequest, cache: CacheUnderTest, add: OperatorSpec) -> str:
    """A SoC beside the default one; a toolchain need not compile for every chip."""
    soc = str(request.param)
    run = cache.elsewhere(cache.sandbox / "nowhere").attempt(add, soc=soc)
    if not run.succeeded:
        pytest.skip(f"the toolchain does not compile for {soc}")
    return soc


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
