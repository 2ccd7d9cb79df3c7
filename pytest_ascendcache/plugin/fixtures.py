"""Fixtures for the built-in suite and for users' own tests. docs/api.md is made from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_ascendcache.plugin.stash import EVIDENCE, FAILED, ascend_session_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_ascendcache.audit import Audit
    from pytest_ascendcache.caches import FileSystem
    from pytest_ascendcache.nodes import NodeProfile, Nodes
    from pytest_ascendcache.observation import (
        CacheUnderTest,
        Evidence,
        NetworkControl,
        NetworkUnderTest,
        StaticKernelsUnderTest,
    )
    from pytest_ascendcache.observation.script import ScriptUnderTest
    from pytest_ascendcache.observation.shared_cache import SharedCache
    from pytest_ascendcache.operators import OperatorSpec
    from pytest_ascendcache.plugin.session import AscendSession
    from pytest_ascendcache.ranks import Rank
    from pytest_ascendcache.stress import Campaign
    from pytest_ascendcache.toolchains import Toolchain


@contextmanager
def _sandbox(
    request: pytest.FixtureRequest, session: AscendSession, evidence: Evidence, needed: str = ""
) -> Iterator[Path]:
    """A directory for one test, kept if it fails. It is skipped where the toolchain lacks the
    ``needed`` capability."""
    from pytest_ascendcache.contract import Capability

    toolchain = session.toolchain
    if needed and (capability := Capability[needed]) not in toolchain.capabilities:
        pytest.skip(f"{toolchain.name}: {capability.lacking}")
    sandbox = session.sandbox(request.node.name)
    evidence.sandbox = str(sandbox)
    yield sandbox
    if not request.node.stash.get(FAILED, False):
        session.discard(sandbox)


@pytest.fixture(scope="session")
def ascend_session(pytestconfig: pytest.Config) -> AscendSession:
    """The shared state of the session, which the fixtures below use."""
    return ascend_session_of(pytestconfig)


@pytest.fixture(scope="session")
def ascend_toolchain(ascend_session: AscendSession) -> Toolchain:
    """The toolchain that ``--ascend-toolchain`` names; the embedded reference by default. Whatever
    it starts is counted for the test that is running."""
    return ascend_session.gate


@pytest.fixture(scope="session")
def ascend_file_system(ascend_session: AscendSession) -> FileSystem:
    """The file system of the caches under test, and how it treats access times."""
    return ascend_session.file_system


@pytest.fixture
def ascend_evidence(request: pytest.FixtureRequest, ascend_session: AscendSession) -> Evidence:
    """What this test did and observed; part of the report if a promise is broken."""
    from pytest_ascendcache.observation import Evidence

    evidence = Evidence()
    request.node.stash[EVIDENCE] = evidence
    ascend_session.count_for(evidence)
    return evidence


@pytest.fixture
def ascend_cache(
    request: pytest.FixtureRequest, ascend_session: AscendSession, ascend_evidence: Evidence
) -> Iterator[CacheUnderTest]:
    """An empty cache directory for this test, with its own HOME and working directory.

    ``compile`` and ``warm`` run the toolchain and report what it delivered and what it did to each
    entry. The directory is kept if the test fails.
    """
    with _sandbox(request, ascend_session, ascend_evidence, "OPERATOR_CACHE") as sandbox:
        yield ascend_session.cache(sandbox, ascend_evidence)


@pytest.fixture
def ascend_audit(ascend_session: AscendSession, ascend_audited: Path) -> Audit:
    """The audit of one of the directories that ``--ascend-audit`` names."""
    return ascend_session.audits.of(ascend_audited)


@pytest.fixture
def ascend_stress(
    request: pytest.FixtureRequest, ascend_session: AscendSession, ascend_cache: CacheUnderTest
) -> Campaign:
    """The stress run that ``--ascend-stress`` describes, in this test's sandbox."""
    from pytest_ascendcache.plugin.options.campaigns import DEFAULT_STRESS_STEPS
    from pytest_ascendcache.plugin.options.table import DEFAULT_RANKS
    from pytest_ascendcache.plugin.users_language import write_now
    from pytest_ascendcache.stress import Campaign

    stress = ascend_session.settings.stress
    unbounded = stress.seconds is None and stress.steps is None
    directory = ascend_cache.sandbox / "stress"
    directory.mkdir()
    return Campaign(
        toolchain=ascend_cache.toolchain,
        directory=directory,
        history=stress.history or ascend_session.base / f"stress-{stress.seed}.jsonl",
        seed=stress.seed,
        seconds=stress.seconds,
        steps=DEFAULT_STRESS_STEPS if unbounded else stress.steps,
        ranks=ascend_session.settings.ranks or DEFAULT_RANKS,
        operators=stress.operators,
        replay=stress.replay,
        announce=partial(write_now, request.config),
    )


@pytest.fixture
def ascend_stress_on_nodes(ascend_stress: Campaign, ascend_mounts: tuple[Nodes, Nodes]) -> Campaign:
    """The stress run with its ranks on nodes that share a directory, and a separate history."""
    from dataclasses import replace

    nodes, _ = ascend_mounts
    history = ascend_stress.history
    history = history.with_suffix(f".{nodes.profile.value}{history.suffix}")
    return replace(ascend_stress, nodes=nodes, history=history)


@pytest.fixture
def ascend_mounts(
    ascend_session: AscendSession, ascend_node_profile: NodeProfile
) -> tuple[Nodes, Nodes]:
    """Nodes of the test's profile that share a directory, and nodes that all use one mount.

    The test is not applicable if this machine cannot provide the profile, and undecided if the
    control does not show that the mounts behave as the profile says.
    """
    from pytest_ascendcache.nodes import NodeProfile, NotShown, Unavailable
    from pytest_ascendcache.observation import NotDecidable

    profile = ascend_node_profile
    alone = profile.one_for_all or profile is NodeProfile.GIVEN
    try:
        if profile.one_for_all:
            # Without a second node there is nothing to judge: one node alone is not a pass.
            ascend_session.nodes(NodeProfile.NFS_NOLOCK)
        plain = ascend_session.nodes(profile if alone else NodeProfile.ONE_MOUNT)
        return ascend_session.nodes(profile), plain
    except Unavailable as reason:
        pytest.skip(f"nodes ({profile.value}): {reason}")
    except NotShown as reason:
        raise NotDecidable(str(reason)) from None


@pytest.fixture
def ascend_nodes(ascend_cache: CacheUnderTest, ascend_mounts: tuple[Nodes, Nodes]) -> SharedCache:
    """The cache of this test as several nodes see it that share it."""
    from pytest_ascendcache.nodes import NotShown
    from pytest_ascendcache.observation import NotDecidable, SharedCache

    try:
        return SharedCache(ascend_cache, *ascend_mounts)
    except NotShown as reason:
        raise NotDecidable(str(reason)) from None


@pytest.fixture(scope="session")
def ascend_network_control(ascend_session: AscendSession) -> NetworkControl | None:
    """The positive control of networks; None if the toolchain runs no networks.

    Its scope is the session, so that the ranks of a gang inherit it.
    """
    from pytest_ascendcache.contract import Capability

    if Capability.INCREMENTAL_BUILD not in ascend_session.toolchain.capabilities:
        return None
    return ascend_session.network_control


@pytest.fixture
def ascend_network(
    request: pytest.FixtureRequest,
    ascend_session: AscendSession,
    ascend_evidence: Evidence,
    ascend_network_control: NetworkControl | None,
) -> Iterator[NetworkUnderTest]:
    """Ranks that run networks with incremental build, in a directory for this test.

    ``run`` and ``together`` start ranks and report which kernels were compiled and which reused.
    """
    from pytest_ascendcache.observation import NetworkUnderTest

    needed = "INCREMENTAL_BUILD" if ascend_network_control is None else ""
    with _sandbox(request, ascend_session, ascend_evidence, needed) as sandbox:
        control = ascend_session.network_control
        ascend_evidence.control = control.reason
        yield NetworkUnderTest(ascend_session.toolchain, sandbox, control, ascend_evidence)


@pytest.fixture
def ascend_static_kernels(
    request: pytest.FixtureRequest, ascend_session: AscendSession, ascend_evidence: Evidence
) -> Iterator[StaticKernelsUnderTest]:
    """op_compiler, its packages and clients, with an operator package for this test.

    ``package`` compiles, ``install`` runs packages, ``run`` runs networks with static kernels.
    Programs other than the reference's may look at other processes of the machine, so their tests
    take turns, also with ``-n``.
    """
    from pytest_ascendcache.observation import StaticKernelsUnderTest

    with (
        _sandbox(request, ascend_session, ascend_evidence, "OP_COMPILER") as sandbox,
        ascend_session.alone(),
    ):
        toolchain, shelf = ascend_session.toolchain, ascend_session.package_shelf
        turns = ascend_session.turns
        yield StaticKernelsUnderTest(toolchain, sandbox, shelf, ascend_evidence, turns)


@pytest.fixture
def ascend_script(
    request: pytest.FixtureRequest, ascend_session: AscendSession, ascend_evidence: Evidence
) -> Iterator[ScriptUnderTest]:
    """The script of ``--ascend-toolchain=torchair:SCRIPT.py``, in directories for this test.

    All tests use one operator package and therefore take turns, also with ``-n``.
    """
    from pytest_ascendcache.observation.script import ScriptUnderTest
    from pytest_ascendcache.observation.static_processes import turn
    from pytest_ascendcache.toolchains.torchair import TorchairToolchain

    toolchain = ascend_session.toolchain
    if not isinstance(toolchain, TorchairToolchain):
        pytest.skip(f"{toolchain.name}: it is no script of --ascend-toolchain=torchair:SCRIPT.py")
    with _sandbox(request, ascend_session, ascend_evidence) as sandbox, turn(ascend_session.turns):
        yield ScriptUnderTest(toolchain, sandbox, ascend_evidence, ascend_session.script_runs)


@pytest.fixture(scope="session")
def ascend_operators() -> dict[str, OperatorSpec]:
    """Small operators that every toolchain knows, by name.

    Only ``sqrt`` is float16. Implementation modes and precision files do nothing for the others,
    which are float32; use ``operator("Exp", "float16", 8, 16)`` to see them act.
    """
    from pytest_ascendcache.operators.probes import probe_operators

    return probe_operators()


@pytest.fixture
def ascend_rank(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rank]:
    """This rank of the test's gang: all ranks run the test at the same time.

    ``@pytest.mark.ascend_ranks(n)`` sets the number of ranks, ``--ascend-ranks`` the number where
    the mark gives none. Ranks are processes of one test, or with ``-n`` tests on distinct workers.
    """
    from pytest_ascendcache.plugin.gangs.items import rank_of

    yield from rank_of(request, tmp_path_factory)
