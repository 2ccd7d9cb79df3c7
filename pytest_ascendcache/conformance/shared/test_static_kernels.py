"""Static kernels in an operator package that nodes share (``ASCEND_OPP_PATH``, document K): one
node installs, another runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.conformance.kit.bystanders import holder
from pytest_ascendcache.conformance.kit.clients import NETWORK, OTHER, standing_client
from pytest_ascendcache.conformance.kit.packages import are_installed
from pytest_ascendcache.conformance.kit.vocabulary import needs, profiles, rule
from pytest_ascendcache.conformance.shared.fixtures import Mounts, Views, play
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import Act, Operation
from pytest_ascendcache.nodes import NodeProfile
from pytest_ascendcache.nodes import profiles as every_profile
from pytest_ascendcache.observation import (
    IMPOSTOR,
    OWN,
    Interruption,
    StaticKernelsUnderTest,
    probe_network,
    spread,
)
from pytest_ascendcache.observation.shared_cache import MOST
from pytest_ascendcache.toolchains import Program, StaticRequest, StaticResult


def _runs(kernels: StaticKernelsUnderTest, view: Path, expected: str, when: str) -> None:
    """A client on the node with this view succeeds, with kernels of the ``expected`` origin."""
    run = kernels.together(kernels.client(NETWORK, static=False, build=kernels.build, opp=view))[0]
    assert run.succeeded, f"{when} a client {run.result.failure}"
    assert run.kernels == {expected}, f"{when} it runs {', '.join(sorted(run.kernels))} kernels"


def _installs(kernels: StaticKernelsUnderTest, package: Path, view: Path) -> None:
    result = kernels.attempt(kernels.installation(package, view))
    assert result.succeeded, f"an install on the first node {result.failure}"


def _works(result: StaticResult, where: str) -> None:
    assert result.succeeded, f"{where} {result.failure}"


def _uninstall(kernels: StaticKernelsUnderTest, name: str, view: Path) -> StaticResult:
    """Run an installed package's ``uninstall.sh`` on the node with this view."""
    script = InstalledKernels(view).ai_core / name / "uninstall.sh"
    return kernels.attempt(StaticRequest(Program.PACKAGE, (str(script),), kernels.work, view))


def _names_made(kernels: StaticKernelsUnderTest, *packages: Path) -> list[Path]:
    """The names that installs make, found by installing elsewhere."""
    kernels.install(*packages)
    return [path.relative_to(kernels.opp) for path in sorted(kernels.opp.rglob("*"))]


@rule("shared/late-names")
@profiles(*(each for each in every_profile() if each is not NodeProfile.NO_LOCKS))
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_static_kernels_are_looked_up_too_early(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, directory: str
) -> None:
    needs(kernels.toolchain, Capability.STATIC_KERNEL_CLIENT)
    package, other = kernels.package(*NETWORK.operators), kernels.package(*OTHER.operators)
    names = _names_made(kernels, package)

    def story(views: Views) -> None:
        first, late = views.first, views.other
        if directory == "used":
            _installs(kernels, other, first)
        _runs(kernels, late, OWN, "before anything is installed")
        early = [each for each in names if not (late / each).exists()]
        _installs(kernels, package, first)
        views.check_early(early, "the install made none of the names that were looked up")
        _runs(kernels, late, OWN, "on a node that looked for its files before they were made")
        views.nodes.later()
        kernels.mark(views.backing)
        _runs(kernels, late, IMPOSTOR, "once the names are seen")
        _works(_uninstall(kernels, package.stem, first), "an uninstall on the first node")
        _runs(kernels, late, OWN, "after an uninstall on another node")

    play(kernels.evidence, ascend_mounts, story)


@rule("shared/late-names")
@profiles(NodeProfile.NFS_DEFAULT, NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_a_node_that_looked_too_early_installs(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, directory: str
) -> None:
    """Packages whose installation it did not see stay, whatever it installs or uninstalls."""
    package, other = kernels.package(*NETWORK.operators), kernels.package(*OTHER.operators)
    used = kernels.package(*probe_network("Neg").operators)
    names = _names_made(kernels, package)

    def story(views: Views) -> None:
        backing, first, late = views.backing, views.first, views.other
        before = [used] if directory == "used" else []
        for each in before:
            _installs(kernels, each, first)
        early = [each for each in names if not (late / each).exists()]
        _installs(kernels, package, first)
        views.check_early(early, "the install made none of the names that were looked up")
        result = kernels.attempt(kernels.installation(other, late))
        _works(result, "an install on a node that looked too early")
        are_installed(kernels, [*before, package, other], "after an install on each node", backing)
        _works(_uninstall(kernels, other.stem, late), "an uninstall on the second node")
        are_installed(kernels, [*before, package], "after an uninstall on the second node", backing)
        _works(
            kernels.attempt(kernels.installer(package, "uninstall", opp=late)),
            "an uninstall on a node that looked too early",
        )
        are_installed(kernels, before, "after an uninstall on each node", backing)

    play(kernels.evidence, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NO_LOCKS, NodeProfile.NFS_NOLOCK)
def test_nodes_install_in_turns_without_each_others_locks(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts
) -> None:
    packages = [kernels.package(*each.operators) for each in (NETWORK, OTHER)]

    def story(views: Views) -> None:
        backing = views.backing
        for number, package in enumerate(packages):
            result = kernels.attempt(kernels.installation(package, views.on(number)))
            _works(result, f"install {number + 1}, each on another node,")
            are_installed(kernels, packages[: number + 1], f"after install {number + 1}", backing)
        for number, package in enumerate(packages):
            result = _uninstall(kernels, package.stem, views.on(number + 1))
            _works(result, f"uninstall {number + 1}, on the node that did not install,")
            are_installed(kernels, packages[number + 1 :], f"after uninstall {number + 1}", backing)

    play(kernels.evidence, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NO_LOCKS, NodeProfile.NFS_NOLOCK)
def test_a_client_lives_beside_one_of_another_node(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts
) -> None:
    """Another client starts and ends while the first one's package is installed."""
    needs(kernels.toolchain, Capability.STATIC_KERNEL_CLIENT)
    third = probe_network("Neg")

    def story(views: Views) -> None:
        compiler = kernels.stand_in(*third.operators).path
        with standing_client(kernels, views.first) as (package, goes_on):
            request = kernels.client(
                third, build=kernels.build, op_compiler=compiler, opp=views.other
            )
            (second,) = kernels.together(request)
            meanwhile = InstalledKernels(views.backing).packages
            run = goes_on()
        assert second.succeeded, f"the second node's client {second.result.failure}"
        assert run.succeeded, f"the first node's client {run.result.failure}"
        assert meanwhile == {package}, "the package of a living process is gone"
        left = InstalledKernels(views.backing).packages
        assert not left, f"the package {min(left, default='')} outlives both clients"

    play(kernels.evidence, ascend_mounts, story)


def _moments(views: Views, command: Interruption[StaticResult]) -> Iterator[Operation]:
    """Holds a command before renames, which publish files, and before some other operations, each
    time from the state before the command."""
    naming = views.holdable_names(command)
    moving = spread([each for each in naming if each.act in (Act.RENAME, Act.LINK)], MOST // 2)
    others = spread([each for each in naming if each not in moving], MOST - len(moving))
    chosen = sorted([*moving, *others], key=lambda each: each.number)
    for operation in command.worthwhile(chosen):
        views.forget("opp")
        command.before.write(views.backing / "opp")
        yield operation


@rule("shared/no-failure")
@profiles(NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
@pytest.mark.parametrize("second", ["install", "uninstall", "the-same"])
@pytest.mark.parametrize("first", ["install", "uninstall"])
def test_two_nodes_change_what_is_installed_at_once(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, first: str, second: str
) -> None:
    needs(kernels.toolchain, Capability.FAULT_POINTS)
    stays, own, other = (
        kernels.package(*each.operators) for each in (probe_network("Neg"), NETWORK, OTHER)
    )
    before = [stays, *([own] if first == "uninstall" else [])]
    before += [other] if second == "uninstall" else []
    after = [stays, *([own] if first == "install" else [])]
    after += [other] if second == "install" else []

    def story(views: Views) -> None:
        one, two = views.first / "opp", views.other / "opp"
        views.forget("opp")
        for each in before:
            _installs(kernels, each, one)
        command = kernels.interruption(own, first, one)
        doing, package = (first, own) if second == "the-same" else (second, other)
        for at in _moments(views, command):
            where = f"one node {first}s and stands before {at}, another {doing}s"
            where += " the same" if second == "the-same" else ""
            with command.held(at) as held:
                done = kernels.attempt(kernels.installer(package, doing, opp=two))
                held.release()
                ended = held.result()
            # Of two that do the same, one may find it done.
            if second != "the-same" or not (ended.succeeded or done.succeeded):
                _works(ended, f"{where}; the first")
                _works(done, f"{where}; the second")
            are_installed(kernels, after, f"{where};", views.backing / "opp")

    play(kernels.evidence, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NFS_NOLOCK)
def test_a_node_takes_what_another_gives_up(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts
) -> None:
    """A process installs a package while its last user, on another node, uninstalls it. The package
    stays until the new process has uninstalled it too."""
    needs(kernels.toolchain, Capability.FAULT_POINTS)
    package = kernels.package(*NETWORK.operators)

    def story(views: Views) -> None:
        one, kernels.opp = views.first / "opp", views.other / "opp"
        views.forget("opp")
        _installs(kernels, package, one)
        command = kernels.interruption(package, "uninstall", one)
        for at in _moments(views, command):
            where = f"one node uninstalls and stands before {at}, another installs the same"
            with command.held(at) as held, holder(kernels, package) as process:
                installed = process.begin()
                held.release()
                ended = held.result()  # it may refuse, because the package is in use again
                has_ended = ended.returncode is not None and ended.returncode >= 0
                assert has_ended, f"{where}; the first {ended.ending}"
                assert installed == 0, f"{where}; the second ended with exit status {installed}"
                are_installed(kernels, [package], f"{where};", views.backing / "opp")
                assert process.end() == 0, f"{where}; the second cannot uninstall"
            are_installed(kernels, [], f"{where}, and uninstalls;", views.backing / "opp")

    play(kernels.evidence, ascend_mounts, story)


@rule("shared/right-kernels")
@profiles(NodeProfile.NFS_DEFAULT, NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_a_client_runs_while_another_node_installs(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, doing: str
) -> None:
    """It gets kernels of whole packages, and those of a package that does not change."""
    needs(kernels.toolchain, Capability.FAULT_POINTS, Capability.STATIC_KERNEL_CLIENT)
    stays, package = kernels.package(*OTHER.operators), kernels.package(*NETWORK.operators)

    def story(views: Views) -> None:
        one, two = views.first / "opp", views.other / "opp"
        views.forget("opp")
        _installs(kernels, stays, one)
        kernels.mark(views.backing / "opp")
        if doing == "uninstall":
            _installs(kernels, package, one)
        command = kernels.interruption(package, doing, one)
        for at in _moments(views, command):
            where = f"another node {doing}s and stands before {at}:"
            with command.held(at) as held:
                networks = (NETWORK, OTHER)
                request = kernels.client(*networks, static=False, build=kernels.build, opp=two)
                (run,) = kernels.together(request)
                held.release()
                _works(held.result(), f"{where} it")
            assert run.succeeded, f"{where} a client {run.result.failure}"
            touched, untouched = (set(run.origins(each).values()) for each in range(2))
            assert touched == {OWN}, f"{where} a client runs {', '.join(sorted(touched))} kernels"
            assert untouched == {IMPOSTOR}, f"{where} a client does not run what is installed"

    play(kernels.evidence, ascend_mounts, story)
