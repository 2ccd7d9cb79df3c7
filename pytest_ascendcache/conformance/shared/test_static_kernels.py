"""Static kernels in an operator package that nodes share: one installs, another one runs.

Document K has packages install below ``ASCEND_OPP_PATH``, which clusters keep on shared storage.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.conformance.kit.clients import NETWORK, OTHER
from pytest_ascendcache.conformance.kit.nodes import profiles
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.nodes import profiles as every_profile
from pytest_ascendcache.observation import (
    IMPOSTOR,
    OWN,
    NotDecidable,
    StaticKernelsUnderTest,
)
from pytest_ascendcache.observation.shared_cache import blame_nodes
from pytest_ascendcache.toolchains import Program, StaticRequest


def _runs(kernels: StaticKernelsUnderTest, view: Path, expected: str, when: str) -> None:
    """A client on the node with this view, whose kernels have to be of this kind."""
    run = kernels.together(kernels.client(NETWORK, static=False, build=kernels.build, opp=view))[0]
    assert run.succeeded, f"{when} a client {run.result.failure}"
    assert run.kernels == {expected}, f"{when} it runs {', '.join(sorted(run.kernels))} kernels"


def _installs(kernels: StaticKernelsUnderTest, package: Path, view: Path) -> None:
    result = kernels.attempt(kernels.installation(package, view))
    assert result.succeeded, f"an install on the first node {result.failure}"


@rule("shared/late-names")
@profiles(*(each for each in every_profile() if each is not NodeProfile.NO_LOCKS))
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_static_kernels_are_looked_up_too_early(
    kernels: StaticKernelsUnderTest, ascend_mounts: tuple[Nodes, Nodes], directory: str
) -> None:
    toolchain = kernels.toolchain
    if Capability.STATIC_KERNEL_CLIENT not in toolchain.capabilities:
        pytest.skip(f"{toolchain.name}: {Capability.STATIC_KERNEL_CLIENT.lacking}")
    nodes, plain = ascend_mounts
    package, other = kernels.package(*NETWORK.operators), kernels.package(*OTHER.operators)
    # What an install makes, found out elsewhere.
    kernels.install(package)
    names = [path.relative_to(kernels.opp) for path in sorted(kernels.opp.rglob("*"))]

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        first, late = views[0], views[0 if one_view else -1]
        if directory == "used":
            _installs(kernels, other, first)
        _runs(kernels, late, OWN, "before anything is installed")
        early = [each for each in names if not (late / each).exists()]
        _installs(kernels, package, first)
        there = [each for each in early if (backing / each).exists()]
        if not there:
            raise NotDecidable("the install made none of the names that were looked up")
        seen = any((late / each).exists() for each in there)
        if nodes.profile.early_names_stay and not one_view and seen:
            raise NotDecidable("names that were looked up too early are seen at once")
        _runs(kernels, late, OWN, "on a node that looked for its files before they were made")
        nodes.later()
        kernels.mark(backing)
        _runs(kernels, late, IMPOSTOR, "once the names are seen")
        script = InstalledKernels(first).ai_core / package.stem / "uninstall.sh"
        removal = StaticRequest(Program.PACKAGE, (str(script),), kernels.work, first)
        removed = kernels.attempt(removal)
        assert removed.succeeded, f"an uninstall on the first node {removed.failure}"
        _runs(kernels, late, OWN, "after an uninstall on another node")

    blame_nodes(
        kernels.evidence,
        nodes.profile,
        lambda: story(nodes, False),
        lambda: story(plain, True),
    )
