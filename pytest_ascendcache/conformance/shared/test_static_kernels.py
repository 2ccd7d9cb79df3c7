"""Static kernels in an operator package that nodes share: one installs, another one runs.

Document K has packages install below ``ASCEND_OPP_PATH``, which clusters keep on shared storage.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ascendcache.caches import InstalledKernels, TornIndex
from pytest_ascendcache.conformance.kit.bystanders import holder
from pytest_ascendcache.conformance.kit.clients import NETWORK, OTHER, standing_client
from pytest_ascendcache.conformance.kit.nodes import profiles
from pytest_ascendcache.conformance.kit.packages import differences, faults_of
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.static_kernel import union
from pytest_ascendcache.faults import Act, Operation
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.nodes import profiles as every_profile
from pytest_ascendcache.observation import (
    IMPOSTOR,
    OWN,
    Interruption,
    NotDecidable,
    StaticKernelsUnderTest,
    probe_network,
    spread,
)
from pytest_ascendcache.observation.shared_cache import MOST, blame_nodes, remove_shared
from pytest_ascendcache.toolchains import Program, StaticRequest, StaticResult

Mounts = tuple[Nodes, Nodes]


def _need(kernels: StaticKernelsUnderTest, capability: Capability) -> None:
    if capability not in kernels.toolchain.capabilities:
        pytest.skip(f"{kernels.toolchain.name}: {capability.lacking}")


def _told(
    kernels: StaticKernelsUnderTest, mounts: Mounts, story: Callable[[Nodes, bool], None]
) -> None:
    nodes, plain = mounts
    blame_nodes(
        kernels.evidence,
        nodes.profile,
        lambda: story(nodes, False),
        lambda: story(plain, True),
    )


def _runs(kernels: StaticKernelsUnderTest, view: Path, expected: str, when: str) -> None:
    """A client on the node with this view, whose kernels have to be of this kind."""
    run = kernels.together(kernels.client(NETWORK, static=False, build=kernels.build, opp=view))[0]
    assert run.succeeded, f"{when} a client {run.result.failure}"
    assert run.kernels == {expected}, f"{when} it runs {', '.join(sorted(run.kernels))} kernels"


def _installs(kernels: StaticKernelsUnderTest, package: Path, view: Path) -> None:
    result = kernels.attempt(kernels.installation(package, view))
    assert result.succeeded, f"an install on the first node {result.failure}"


def _works(result: StaticResult, where: str) -> None:
    assert result.succeeded, f"{where} {result.failure}"


def _uninstall(kernels: StaticKernelsUnderTest, name: str, view: Path) -> StaticResult:
    """An installed package's ``uninstall.sh``, on the node with this view."""
    script = InstalledKernels(view).ai_core / name / "uninstall.sh"
    return kernels.attempt(StaticRequest(Program.PACKAGE, (str(script),), kernels.work, view))


def _installed(kernels: StaticKernelsUnderTest, opp: Path, packages: list[Path], when: str) -> None:
    """What is installed is these packages, whole, and the index is theirs."""
    there = InstalledKernels(opp)
    lost = sorted({each.stem for each in packages} - there.packages)
    assert not lost, f"{when} the package {lost[0]} is lost"
    more = sorted(there.packages - {each.stem for each in packages})
    assert not more, f"{when} the package {more[0]} is there again"
    try:
        wrong = differences(there.index(), union(kernels.alone(each) for each in packages))
    except TornIndex as error:
        wrong = [f"the index is torn: {error}"]
    assert not wrong, f"{when} {wrong[0]}"
    broken = faults_of(opp, {})
    assert not broken, f"{when} {broken[0]}"


@rule("shared/late-names")
@profiles(*(each for each in every_profile() if each is not NodeProfile.NO_LOCKS))
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_static_kernels_are_looked_up_too_early(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, directory: str
) -> None:
    _need(kernels, Capability.STATIC_KERNEL_CLIENT)
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
        _works(_uninstall(kernels, package.stem, first), "an uninstall on the first node")
        _runs(kernels, late, OWN, "after an uninstall on another node")

    _told(kernels, ascend_mounts, story)


@rule("shared/late-names")
@profiles(NodeProfile.NFS_DEFAULT, NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_a_node_that_looked_too_early_installs(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, directory: str
) -> None:
    """What it did not see being installed stays, whatever it installs and uninstalls itself."""
    package, other = kernels.package(*NETWORK.operators), kernels.package(*OTHER.operators)
    used = kernels.package(*probe_network("Neg").operators)
    kernels.install(package)
    names = [path.relative_to(kernels.opp) for path in sorted(kernels.opp.rglob("*"))]

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        first, late = views[0], views[0 if one_view else -1]
        there = [used] if directory == "used" else []
        for each in there:
            _installs(kernels, each, first)
        for each in names:
            (late / each).exists()
        _installs(kernels, package, first)
        result = kernels.attempt(kernels.installation(other, late))
        _works(result, "an install on a node that looked too early")
        _installed(kernels, backing, [*there, package, other], "after an install on each node")
        _works(_uninstall(kernels, other.stem, late), "an uninstall on the second node")
        _installed(kernels, backing, [*there, package], "after an uninstall on the second node")
        _works(
            kernels.attempt(kernels.installer(package, "uninstall", opp=late)),
            "an uninstall on a node that looked too early",
        )
        _installed(kernels, backing, there, "after an uninstall on each node")

    _told(kernels, ascend_mounts, story)


@rule("shared/late-names")
@profiles(NodeProfile.NFS_DEFAULT, NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
def test_a_node_that_looked_too_early_keeps_the_order(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts
) -> None:
    """It sees the directory of packages, and looked there for their list before another node wrote
    one: what it installs comes last, and of the others the last one comes last as before."""
    shared = probe_network("Neg").operators
    kinds = {"pk": "Abs", "a.kernel": "Exp", "later": "Relu"}
    packages = {
        name: kernels.package(*probe_network(kind).operators, *shared, name=name)
        for name, kind in kinds.items()
    }
    kernels.install(*packages.values())
    names = [path.relative_to(kernels.opp) for path in sorted(kernels.opp.rglob("*"))]
    last = packages.pop("later")

    def story(nodes: Nodes, one_view: bool) -> None:
        for order in (list(packages.values()), list(packages.values())[::-1]):
            backing, views = nodes.directory()
            first, late = views[0], views[0 if one_view else -1]
            beside = InstalledKernels(backing).ai_core / "README"
            beside.parent.mkdir(parents=True)
            beside.write_text("Packages of the team\n")
            for each in names:
                (late / each).exists()
            for each in order:
                _installs(kernels, each, first)
            result = kernels.attempt(kernels.installation(last, late))
            _works(result, "an install on a node that looked too early")
            _installed(kernels, backing, [*order, last], "after an install on each node")
            _works(_uninstall(kernels, last.stem, late), "an uninstall on the second node")
            _installed(kernels, backing, order, "after an uninstall on the second node")

    _told(kernels, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NO_LOCKS, NodeProfile.NFS_NOLOCK)
def test_nodes_install_in_turns_without_each_others_locks(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts
) -> None:
    packages = [kernels.package(*each.operators) for each in (NETWORK, OTHER)]

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        for number, package in enumerate(packages):
            view = views[0 if one_view else number % len(views)]
            result = kernels.attempt(kernels.installation(package, view))
            _works(result, f"install {number + 1}, each on another node,")
            _installed(kernels, backing, packages[: number + 1], f"after install {number + 1}")
        for number, package in enumerate(packages):
            view = views[0 if one_view else (number + 1) % len(views)]
            result = _uninstall(kernels, package.stem, view)
            _works(result, f"uninstall {number + 1}, on the node that did not install,")
            _installed(kernels, backing, packages[number + 1 :], f"after uninstall {number + 1}")

    _told(kernels, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NO_LOCKS, NodeProfile.NFS_NOLOCK)
def test_a_client_lives_beside_one_of_another_node(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts
) -> None:
    """Another client starts and ends while the first one's package is installed."""
    _need(kernels, Capability.STATIC_KERNEL_CLIENT)
    third = probe_network("Neg")

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        compiler = kernels.stand_in(*third.operators).path
        with standing_client(kernels, views[0]) as (package, goes_on):
            request = kernels.client(
                third, build=kernels.build, op_compiler=compiler, opp=views[0 if one_view else -1]
            )
            (second,) = kernels.together(request)
            there = InstalledKernels(backing).packages
            run = goes_on()
        assert second.succeeded, f"the second node's client {second.result.failure}"
        assert run.succeeded, f"the first node's client {run.result.failure}"
        assert there == {package}, "the package of a living process is gone"
        left = InstalledKernels(backing).packages
        assert not left, f"the package {min(left, default='')} outlives both clients"

    _told(kernels, ascend_mounts, story)


def _forget(backing: Path, views: tuple[Path, ...]) -> None:
    """An empty operator package, of which no node remembers a name: each has removed it itself."""
    remove_shared(backing / "opp")
    for view in views:
        (backing / "opp").mkdir()
        (view / "opp").rmdir()
    (backing / "opp").mkdir()


def _moments(command: Interruption[StaticResult], one_view: bool) -> list[Operation]:
    """Before which of its file operations a command is worth being held: renames, which put
    files in their places, and some of the others."""
    naming = [each for each in command.holdable if each.act.names]
    locks = [each.number for each in naming if each.act is Act.LOCK]
    if one_view:  # there the other would wait for a lock that is held
        naming = [each for each in naming if not locks or each.number <= locks[0]]
    if not naming:
        raise NotDecidable("no name operation was seen at which it could be held")
    moving = spread([each for each in naming if each.act in (Act.RENAME, Act.LINK)], MOST // 2)
    others = spread([each for each in naming if each not in moving], MOST - len(moving))
    chosen = sorted([*moving, *others], key=lambda each: each.number)
    return command.worthwhile(chosen)


@rule("shared/no-failure")
@profiles(NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
@pytest.mark.parametrize("second", ["install", "uninstall", "the-same"])
@pytest.mark.parametrize("first", ["install", "uninstall"])
def test_two_nodes_change_what_is_installed_at_once(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, first: str, second: str
) -> None:
    _need(kernels, Capability.FAULT_POINTS)
    stays, own, other = (
        kernels.package(*each.operators) for each in (probe_network("Neg"), NETWORK, OTHER)
    )
    before = [stays, *([own] if first == "uninstall" else [])]
    before += [other] if second == "uninstall" else []
    after = [stays, *([own] if first == "install" else [])]
    after += [other] if second == "install" else []

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        one, two = (view / "opp" for view in (views[0], views[0 if one_view else -1]))
        _forget(backing, views)
        for each in before:
            _installs(kernels, each, one)
        command = kernels.interruption(own, first, one)
        doing, package = (first, own) if second == "the-same" else (second, other)
        for at in _moments(command, one_view):
            _forget(backing, views)
            command.before.write(backing / "opp")
            where = f"one node {first}s and stands before {at}, another {doing}s"
            where += " the same" if second == "the-same" else ""
            with command.held(at) as held:
                done = kernels.attempt(kernels.installer(package, doing, opp=two))
                held.release()
                _works(held.result(), f"{where}; the first")
            _works(done, f"{where}; the second")
            _installed(kernels, backing / "opp", after, f"{where};")

    _told(kernels, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NFS_NOLOCK)
def test_a_node_takes_what_another_gives_up(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts
) -> None:
    """A process installs a package, and lives, while the last one that used it uninstalls it on
    another node: it stays until both have uninstalled it."""
    _need(kernels, Capability.FAULT_POINTS)
    package = kernels.package(*NETWORK.operators)

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        one, kernels.opp = (view / "opp" for view in (views[0], views[0 if one_view else -1]))
        _forget(backing, views)
        _installs(kernels, package, one)
        command = kernels.interruption(package, "uninstall", one)
        for at in _moments(command, one_view):
            _forget(backing, views)
            command.before.write(backing / "opp")
            where = f"one node uninstalls and stands before {at}, another installs the same"
            with command.held(at) as held, holder(kernels, package) as process:
                installed = process.begin()
                held.release()
                _works(held.result(), f"{where}; the first")
                assert installed == 0, f"{where}; the second ended with exit status {installed}"
                _installed(kernels, backing / "opp", [package], f"{where};")
                assert process.end() == 0, f"{where}; the second cannot uninstall"
            _installed(kernels, backing / "opp", [], f"{where}, and uninstalls;")

    _told(kernels, ascend_mounts, story)


@rule("shared/right-kernels")
@profiles(NodeProfile.NFS_DEFAULT, NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_a_client_runs_while_another_node_installs(
    kernels: StaticKernelsUnderTest, ascend_mounts: Mounts, doing: str
) -> None:
    """It gets kernels of packages that are whole, and those of one that nobody touches."""
    _need(kernels, Capability.FAULT_POINTS)
    _need(kernels, Capability.STATIC_KERNEL_CLIENT)
    stays, package = kernels.package(*OTHER.operators), kernels.package(*NETWORK.operators)

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        one, two = (view / "opp" for view in (views[0], views[0 if one_view else -1]))
        _forget(backing, views)
        _installs(kernels, stays, one)
        kernels.mark(backing / "opp")
        if doing == "uninstall":
            _installs(kernels, package, one)
        command = kernels.interruption(package, doing, one)
        for at in _moments(command, one_view):
            _forget(backing, views)
            command.before.write(backing / "opp")
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

    _told(kernels, ascend_mounts, story)
