"""Fixtures, for the built-in suite and for users' own tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


def _needs(capability: str, session: AscendSession) -> None:
    """A test that needs what the toolchain lacks is not applicable."""
    from pytest_ascendcache.contract import Capability

    needed = Capability[capability]
    if needed not in session.toolchain.capabilities:
        pytest.skip(f"{session.toolchain.name}: {needed.lacking}")


@contextmanager
def _sandbox(
    request: pytest.FixtureRequest, session: AscendSession, evidence: Evidence
) -> Iterator[Path]:
    """A directory of a test's own, which is kept when the test fails."""
    sandbox = session.sandbox(request.node.name)
    evidence.sandbox = str(sandbox)
    yield sandbox
    if not request.node.stash.get(FAILED, False):
        session.discard(sandbox)


@pytest.fixture(scope="session")
def ascend_session(pytestconfig: pytest.Config) -> AscendSession:
    """Shared state of the session; for the fixtures below."""
    return ascend_session_of(pytestconfig)


@pytest.fixture(scope="session")
def ascend_toolchain(ascend_session: AscendSession) -> Toolchain:
    """The toolchain ``--ascend-toolchain`` names; the embedded reference by default."""
    return ascend_session.toolchain


@pytest.fixture(scope="session")
def ascend_file_system(ascend_session: AscendSession) -> FileSystem:
    """The file system caches under test are on, and how it treats access times."""
    return ascend_session.file_system


@pytest.fixture
def ascend_evidence(request: pytest.FixtureRequest) -> Evidence:
    """What this test did and saw; ends up in the report when its promise is broken."""
    from pytest_ascendcache.observation import Evidence

    evidence = Evidence()
    request.node.stash[EVIDENCE] = evidence
    return evidence


@pytest.fixture
def ascend_cache(
    request: pytest.FixtureRequest, ascend_session: AscendSession, ascend_evidence: Evidence
) -> Iterator[CacheUnderTest]:
    """An empty cache directory of this test's own, with HOME and working directory.

    ``compile`` and ``warm`` run the toolchain and tell what it delivered and what became of
    each entry. The directory is kept when the test fails.
    """
    _needs("OPERATOR_CACHE", ascend_session)
    with _sandbox(request, ascend_session, ascend_evidence) as sandbox:
        yield ascend_session.cache(sandbox, ascend_evidence)


@pytest.fixture
def ascend_audit(ascend_session: AscendSession, ascend_audited: Path) -> Audit:
    """What was found in one of the directories ``--ascend-audit`` names."""
    return ascend_session.audits.of(ascend_audited)


@pytest.fixture
def ascend_stress(ascend_session: AscendSession, ascend_cache: CacheUnderTest) -> Campaign:
    """The stress run ``--ascend-stress`` and its siblings ask for, in this test's sandbox."""
    from pytest_ascendcache.plugin.options.stress import DEFAULT_STRESS_STEPS
    from pytest_ascendcache.plugin.options.table import DEFAULT_RANKS
    from pytest_ascendcache.stress import Campaign

    asked = ascend_session.settings.stress
    unbounded = asked.seconds is None and asked.steps is None
    directory = ascend_cache.sandbox / "stress"
    directory.mkdir()
    return Campaign(
        toolchain=ascend_session.toolchain,
        directory=directory,
        history=asked.history or ascend_session.base / f"stress-{asked.seed}.jsonl",
        seed=asked.seed,
        seconds=asked.seconds,
        steps=DEFAULT_STRESS_STEPS if unbounded else asked.steps,
        ranks=ascend_session.settings.ranks or DEFAULT_RANKS,
        operators=asked.operators,
        replay=asked.replay,
    )


@pytest.fixture
def ascend_stress_on_nodes(ascend_stress: Campaign, ascend_mounts: tuple[Nodes, Nodes]) -> Campaign:
    """The same with its ranks on nodes that share a directory; its history is a file of its own."""
    from dataclasses import replace

    nodes, _ = ascend_mounts
    history = ascend_stress.history
    own = history.with_suffix(f".{nodes.profile.value}{history.suffix}")
    return replace(ascend_stress, nodes=nodes, history=own)


@pytest.fixture
def ascend_mounts(
    ascend_session: AscendSession, ascend_node_profile: NodeProfile
) -> tuple[Nodes, Nodes]:
    """Nodes of a profile that share a directory, and nodes that all use one mount.

    A profile that this machine cannot have is not applicable; one whose control does not show
    what it is undecided.
    """
    from pytest_ascendcache.nodes import NodeProfile, NotShown, Unavailable
    from pytest_ascendcache.observation import NotDecidable

    profile = ascend_node_profile
    alone = profile.one_for_all or profile is NodeProfile.GIVEN
    try:
        if profile.one_for_all:
            # Where no two nodes can be had nothing is judged: one of them alone is no pass.
            ascend_session.nodes(NodeProfile.NFS_NOLOCK)
        plain = ascend_session.nodes(profile if alone else NodeProfile.ONE_MOUNT)
        return ascend_session.nodes(profile), plain
    except Unavailable as reason:
        pytest.skip(f"nodes ({profile.value}): {reason}")
    except NotShown as reason:
        raise NotDecidable(str(reason)) from None


@pytest.fixture
def ascend_nodes(ascend_cache: CacheUnderTest, ascend_mounts: tuple[Nodes, Nodes]) -> SharedCache:
    """The cache of this test as the nodes of a profile see it, which share it."""
    from pytest_ascendcache.nodes import NotShown
    from pytest_ascendcache.observation import NotDecidable, SharedCache

    try:
        return SharedCache(ascend_cache, *ascend_mounts)
    except NotShown as reason:
        raise NotDecidable(str(reason)) from None


@pytest.fixture(scope="session")
def ascend_network_control(ascend_session: AscendSession) -> NetworkControl | None:
    """What may be taken for granted of networks; ``None`` where the toolchain runs none.

    It is of the session, so that ranks of a gang inherit it.
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
    """Ranks that run networks with incremental build, in a directory of this test's own.

    ``run`` and ``together`` start ranks and tell which kernels were compiled, which reused.
    """
    if ascend_network_control is None:
        _needs("INCREMENTAL_BUILD", ascend_session)
    with _sandbox(request, ascend_session, ascend_evidence) as sandbox:
        yield ascend_session.networks(sandbox, ascend_evidence)


@pytest.fixture
def ascend_static_kernels(
    request: pytest.FixtureRequest, ascend_session: AscendSession, ascend_evidence: Evidence
) -> Iterator[StaticKernelsUnderTest]:
    """op_compiler, its packages and clients, with an operator package of this test's own.

    ``package`` compiles, ``install`` runs packages, ``run`` runs networks with static kernels.
    """
    _needs("OP_COMPILER", ascend_session)
    with _sandbox(request, ascend_session, ascend_evidence) as sandbox:
        yield ascend_session.static_kernels(sandbox, ascend_evidence)


@pytest.fixture
def ascend_script(
    request: pytest.FixtureRequest, ascend_session: AscendSession, ascend_evidence: Evidence
) -> Iterator[ScriptUnderTest]:
    """The script of ``--ascend-torchair-script``, in directories of this test's own.

    Its operator package is one for all tests, which therefore take turns, also with ``-n``.
    """
    from pytest_ascendcache.observation.static_kernel import turn
    from pytest_ascendcache.toolchains.torchair import TorchairToolchain

    toolchain = ascend_session.toolchain
    if not isinstance(toolchain, TorchairToolchain):
        pytest.skip(f"{toolchain.name}: there is no --ascend-torchair-script")
    with (
        _sandbox(request, ascend_session, ascend_evidence) as sandbox,
        turn(ascend_session.turns),
    ):
        yield ascend_session.script(toolchain, sandbox, ascend_evidence)


@pytest.fixture(scope="session")
def ascend_operators() -> dict[str, OperatorSpec]:
    """Small operators every toolchain knows, by name."""
    from pytest_ascendcache.operators.probes import probe_operators

    return probe_operators()


@pytest.fixture
def ascend_rank(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rank]:
    """This rank of the test's gang: the test runs once per rank, at the same time.

    ``@pytest.mark.ascend_ranks(n)`` says how many ranks there are; ``--ascend-ranks`` where it
    gives no number. Ranks are processes of one test, or with ``-n`` tests on distinct workers.
    """
    from pytest_ascendcache.plugin.gangs.items import rank_of

    yield from rank_of(request, tmp_path_factory)
