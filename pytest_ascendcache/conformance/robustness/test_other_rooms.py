"""Attacks on the operator cache, made on the rooms beside it: ranks' kernels and packages.

``attacks.toml`` says of each attack and each room which check makes it, or why none does.
"""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.conformance.kit.packages import differences, operator
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.static_kernel import union
from pytest_ascendcache.faults import DAMAGES, Action, CrashKind, Damage
from pytest_ascendcache.observation import (
    Evidence,
    NetworkUnderTest,
    StaticKernelsUnderTest,
    probe_network,
    spread,
)

_STATES = 8
_DAMAGES = {
    "object-header-flipped",
    "object-third-flipped",
    "object-late-flipped",
    "object-cut-in-half",
    "object-one-byte-short",
}
"""What is done to an object that a loader may come to grief over."""


@rule("robust/power-loss")
@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_after_a_power_loss_no_installed_package_is_lost(
    kernels: StaticKernelsUnderTest, doing: str
) -> None:
    """The next install makes good whatever was lost; a package that was installed before stays."""
    if Capability.FAULT_POINTS not in kernels.toolchain.capabilities:
        pytest.skip(f"{kernels.toolchain.name}: {Capability.FAULT_POINTS.lacking}")
    kernels.evidence.crash = CrashKind.POWER_LOSS.value
    stays, other = (
        kernels.package(operator(kind), name=name) for kind, name in (("Abs", "pk"), ("Neg", "pk2"))
    )
    kernels.install(stays)
    if doing == "uninstall":
        kernels.install(other)
    interruption = kernels.interruption(other, doing)
    wanted = union(kernels.alone(each) for each in (stays, other))
    for state in spread(interruption.states(CrashKind.POWER_LOSS), _STATES):
        interruption.enter(state)
        result = kernels.attempt(kernels.installer(other))
        assert result.succeeded, f"{state.when} an install {result.ending}: {result.output[-200:]}"
        assert differences(kernels.installed.index(), wanted) == [], f"after a {state.when}"
        assert kernels.installed.packages == {stays.stem, other.stem}, f"after a {state.when}"


@rule("security/private-modes")
def test_nothing_of_a_package_is_world_writable(kernels: StaticKernelsUnderTest) -> None:
    kinds = {"pk": "Abs", "pk2": "Neg"}
    kernels.install(*(kernels.package(operator(kind), name=name) for name, kind in kinds.items()))
    root = kernels.installed.ai_core
    found = [path for path in root.rglob("*") if not path.is_symlink()]
    assert found, "nothing is installed"
    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in found}
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o002} == {}


@rule("security/verify-before-load")
def test_a_rank_does_not_run_an_object_with_another_digest(network: NetworkUnderTest) -> None:
    """The object of another operator is whole, and loading it crashes nothing: only its digest
    tells."""
    if Capability.INCREMENTAL_BUILD not in network.toolchain.capabilities:
        pytest.skip(f"{network.toolchain.name}: {Capability.INCREMENTAL_BUILD.lacking}")
    both = probe_network("Square", "Exp")
    network.run(both)
    kernels = {each.operator_type: each for each in network.kernels(0).values()}
    kernels["square"].object_path.write_bytes(kernels["exp"].object_path.read_bytes())
    run = network.run(both)
    assert run.wrong == {}, "the kernel of another operator was run"
    left = {stem: each.problems() for stem, each in network.kernels(0).items()}
    assert not any(left.values()), f"it is not made good: {left}"


@rule("security/verify-before-load")
def test_a_rank_does_not_load_a_damaged_object(network: NetworkUnderTest) -> None:
    """An object that was written by the toolchain, and damaged since in some way that may well
    end the process that loads it. The digest tells before that."""
    if Capability.INCREMENTAL_BUILD not in network.toolchain.capabilities:
        pytest.skip(f"{network.toolchain.name}: {Capability.INCREMENTAL_BUILD.lacking}")
    square = probe_network("Square")
    network.run(square)
    loaded = []
    for damage in filter(lambda each: each.name in _DAMAGES, DAMAGES):
        (kernel,) = network.kernels(0).values()
        damage.apply(kernel)
        run = network.attempt(network.request(square))
        if run.wrong or not run.succeeded:
            loaded.append(f"{damage.name}: the rank {run.result.ending}")
            network.run(square)
    assert loaded == [], "a damaged object was loaded"


@rule("robust/disk-full")
@pytest.mark.parametrize("action", [Action.ENOSPC, Action.EIO], ids=lambda each: each.name)
def test_a_failing_disk_loses_no_installed_package(
    kernels: StaticKernelsUnderTest, action: Action
) -> None:
    """An install that fails says so, and what was installed before is still whole."""
    if action not in kernels.toolchain.fault_route().actions:
        pytest.skip(f"{kernels.toolchain.name}: no errors can be brought into its installs")
    stays, other = (
        kernels.package(operator(kind), name=name) for kind, name in (("Abs", "pk"), ("Neg", "pk2"))
    )
    kernels.install(stays)
    alone = {each: kernels.alone(each) for each in (stays, other)}
    interruption = kernels.interruption(other, "install")
    changes = [each for each in interruption.operations if each.act.changes]
    for operation in spread(changes, _STATES):
        result = interruption.strike(action, operation)
        where = f"{action.value} at {operation}"
        assert result.returncode is not None, f"{where}: the install does not end"
        there = (stays, other) if result.returncode == 0 else (stays,)
        wanted = union(alone[each] for each in there)
        assert differences(kernels.installed.index(), wanted) == [], (
            f"{where}: the install {result.ending}"
        )


@rule("security/no-symlink-follow")
@pytest.mark.parametrize("link", ["kernel", "directory", "package", "chip"])
def test_uninstalling_leaves_what_links_point_to(
    kernels: StaticKernelsUnderTest, link: str
) -> None:
    """While the package goes, the next one is installed, and all go."""
    goes, stays, comes = (
        kernels.package(operator(kind), name=name)
        for kind, name in (("Abs", "pk"), ("Neg", "pk2"), ("Exp", "pk3"))
    )
    kernels.install(goes, stays)
    outside = kernels.directory("outside")
    _lead_out(kernels, goes, outside, link)
    before = Snapshot.take(outside)
    for package, ask in (
        (goes, "remove"),
        (comes, "install"),
        (stays, "remove"),
        (comes, "remove"),
    ):
        if ask == "install":
            kernels.attempt(kernels.installation(package))
        elif package.stem in kernels.installed.packages:
            kernels.attempt(kernels.removal(package.stem))
    assert _changed(kernels.evidence, before, outside) == {}, "what a link points to was changed"


def _changed(evidence: Evidence, before: Snapshot, outside: Path) -> dict[str, str]:
    """What became of files outside, by path; that is the harm, whatever follows."""
    changes = {path: each.value for path, each in before.disturbed(Snapshot.take(outside)).items()}
    for path, change in changes.items():
        evidence.saw(Harm.OUTSIDE_TOUCHED, f"outside of the cache {path} was {change}")
    return changes


def _lead_out(kernels: StaticKernelsUnderTest, package: Path, outside: Path, link: str) -> None:
    """Put a link to ``outside`` where a package has a part, and the part itself there."""
    installed = kernels.installed
    if link == "chip":
        place = installed.ai_core / "config" / installed.chips[0]
    elif link == "kernel":
        (entry,) = (each for key, each in kernels.alone(package).items() if "/d=0," in key[1])
        place = installed.kernel(entry)
    else:
        place = installed.ai_core / package.stem
    if link == "directory":
        shutil.copytree(place, outside / "copy")
        (place / "more").symlink_to(outside / "copy")
        return
    shutil.move(place, outside / place.name)
    if link == "chip":
        (outside / place.name / "shape_info").mkdir(exist_ok=True)
        (outside / place.name / "shape_info" / "shapes.json").write_text("{}")
    place.symlink_to(outside / place.name)


@rule("security/no-symlink-follow")
@pytest.mark.parametrize("damage", DAMAGES[:2], ids=lambda each: each.name)
def test_a_rank_leaves_what_links_point_to(network: NetworkUnderTest, damage: Damage) -> None:
    """A kernel that is a link to a damaged one elsewhere is built anew in its own place."""
    if Capability.INCREMENTAL_BUILD not in network.toolchain.capabilities:
        pytest.skip(f"{network.toolchain.name}: {Capability.INCREMENTAL_BUILD.lacking}")
    square = probe_network("Square")
    network.run(square)
    (kernel,) = network.kernels(0).values()
    damage.apply(kernel)
    outside = network.sandbox / "outside"
    outside.mkdir()
    for path in (kernel.object_path, kernel.metadata_path):
        if path.exists():
            shutil.move(path, outside)
            path.symlink_to(outside / path.name)
    before = Snapshot.take(outside)
    run = network.attempt(network.request(square))
    assert run.wrong == {}, "the damaged kernel was run"
    assert _changed(network.evidence, before, outside) == {}, "what a link points to was changed"
