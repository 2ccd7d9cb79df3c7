"""Attacks known from the operator cache, made on ranks' kernels and on static kernel packages:
``attacks.toml`` names the check for each, or says why there is none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pytest_ascendcache.caches import InstalledKernels, Snapshot
from pytest_ascendcache.conformance.kit.clients import refused
from pytest_ascendcache.conformance.kit.packages import agrees, operator, whole
from pytest_ascendcache.conformance.kit.vocabulary import needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Delivery, Later, Place
from pytest_ascendcache.faults import Action, CrashKind, damage_named
from pytest_ascendcache.observation import (
    IMPOSTOR,
    Evidence,
    NetworkUnderTest,
    NotDecidable,
    StaticKernelsUnderTest,
    probe_network,
    spread,
)

_STATES = 8
_DAMAGES = (
    "object-header-flipped",
    "object-third-flipped",
    "object-late-flipped",
    "object-cut-in-half",
    "object-one-byte-short",
)
"""Damage to an object that may crash a program that loads it."""


def _packages(kernels: StaticKernelsUnderTest, count: int) -> list[Path]:
    """Packages of one operator each. Their names begin alike."""
    kinds = {"pk": "Abs", "pk2": "Neg", "pk3": "Exp"}
    return [
        kernels.package(operator(kind), name=name) for name, kind in list(kinds.items())[:count]
    ]


@rule("robust/power-loss")
@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_after_a_power_loss_no_installed_package_is_lost(
    kernels: StaticKernelsUnderTest, doing: str
) -> None:
    """What is read before the next install is whole: the vendor's lookup finds a kernel of the
    package that was installed before, and a whole kernel or none of the other. The next install
    repairs what was lost."""
    needs(kernels.toolchain, Capability.FAULT_POINTS)
    kernels.evidence.crash = CrashKind.POWER_LOSS.value
    stays, other = _packages(kernels, 2)
    kernels.install(stays)
    always = kernels.installed.index()
    if doing == "uninstall":
        kernels.install(other)
    interruption = kernels.interruption(other, doing)
    states = interruption.states(CrashKind.POWER_LOSS)
    for state in states:
        interruption.enter(state)
        whole(kernels, always, f"after a {state}")
    for state in spread(states, _STATES):
        interruption.enter(state)
        result = kernels.attempt(kernels.installer(other))
        assert result.succeeded, f"{state.when} an install {result.ending}: {result.output[-200:]}"
        agrees(kernels, (stays, other), f"after a {state}")


@rule("robust/power-loss")
def test_what_was_uninstalled_before_a_power_loss_does_not_come_back(
    kernels: StaticKernelsUnderTest,
) -> None:
    """The uninstall may be undone as a whole. If the index no longer names the package, the install
    of another one does not bring it back either."""
    needs(kernels.toolchain, Capability.FAULT_POINTS)
    kernels.evidence.crash = CrashKind.POWER_LOSS.value
    stays, gone, comes = _packages(kernels, 3)
    kernels.install(stays)
    always = kernels.installed.index()
    kernels.install(gone)
    interruption = kernels.interruption(gone, "uninstall")
    for state in interruption.lost_when_done():
        interruption.enter(state)
        where = f"uninstalled, then {state}"
        whole(kernels, always, where)
        offered = {
            str(each["binPath"]).split("/")[0] for each in kernels.installed.index().values()
        }
        if gone.stem in kernels.installed.packages - offered:
            result = kernels.attempt(kernels.installer(comes))
            installed = (stays, comes) if result.succeeded else (stays,)
            agrees(kernels, installed, f"{where}: the install of another package {result.ending}")


@rule("robust/power-loss")
@pytest.mark.parametrize(
    "kind", [CrashKind.MID_WRITE, CrashKind.POWER_LOSS], ids=lambda kind: kind.name
)
def test_a_package_that_op_compiler_left_is_whole_or_refused(
    kernels: StaticKernelsUnderTest, kind: CrashKind
) -> None:
    """At whichever moment op_compiler ends: what it leaves installs all of its kernels, or is
    refused and installs none. The next run makes a package in the same directory."""
    needs(kernels.toolchain, Capability.FAULT_POINTS)
    kernels.evidence.crash = kind.value
    output, operators = kernels.directory("packages"), (operator("Abs"), operator("Neg"))
    request = kernels.compilation(kernels.dump(*operators), output)
    compiling = kernels.recorded(output, request)
    needed = {each[1] for each in kernels.alone(kernels.package(*operators))}
    left: set[bytes] = set()
    for state in compiling.states(kind):
        compiling.enter(state)
        for package in [each for each in output.glob("*.run") if each.read_bytes() not in left]:
            left.add(package.read_bytes())
            opp = kernels.directory("opp")
            installation = kernels.installation(package, opp)
            # What nobody may execute yet is refused by the system.
            installed = os.access(package, os.X_OK) and kernels.attempt(installation).succeeded
            has = {each[1] for each in InstalledKernels(opp).index()}
            assert has == (needed if installed else set()), kernels.evidence.found(
                Delivery.ANOTHER, f"after a {state} {package.name} installs {len(has)} kernels"
            )
    assert kernels.attempt(request).succeeded, kernels.evidence.found(
        Later.FAILS, "op_compiler fails in a directory where another run was cut short"
    )


@rule("security/verify-before-load")
def test_a_rank_does_not_run_an_object_with_another_digest(network: NetworkUnderTest) -> None:
    """Another operator's object is whole and loads without a crash: only its digest shows it."""
    needs(network.toolchain, Capability.INCREMENTAL_BUILD)
    both = probe_network("Square", "Exp")
    network.run(both)
    square, exp = sorted(network.kernels(0).values(), key=lambda each: each.is_of("Exp"))
    square.object_path.write_bytes(exp.object_path.read_bytes())
    run = network.attempt(network.request(both))
    assert run.wrong == {}, "the kernel of another operator was run"


@rule("security/verify-before-load")
def test_a_rank_does_not_load_a_damaged_object(network: NetworkUnderTest) -> None:
    """The damage may crash the process that loads the object. The digest shows it before, and the
    rank compiles it again or refuses it."""
    needs(network.toolchain, Capability.INCREMENTAL_BUILD)
    square = probe_network("Square")
    network.run(square)
    loaded = []
    for damage in map(damage_named, _DAMAGES):
        (kernel,) = network.kernels(0).values()
        good = kernel.object_path.read_bytes()
        damage.apply(kernel)
        run = network.attempt(network.request(square))
        if run.wrong or run.returncode is None or run.returncode < 0:
            loaded.append(f"{damage.name}: the rank {run.result.ending}")
        if run.wrong or not run.succeeded:
            kernel.object_path.write_bytes(good)
    assert loaded == [], "a damaged object was loaded"


@rule("security/no-path-escape")
@pytest.mark.parametrize("how", ["relative", "absolute"])
def test_a_name_in_the_index_leads_nowhere(kernels: StaticKernelsUnderTest, how: str) -> None:
    """Whole kernels of an operator, outside of all packages. A network that runs what is installed
    must not run them, whatever the index says."""
    needs(kernels.toolchain, Capability.STATIC_KERNEL_CLIENT)
    network = probe_network("Square")
    kernels.install(kernels.package(*network.operators))
    kernels.mark()
    if kernels.run(network, static=False).kernels != {IMPOSTOR}:
        raise NotDecidable("a network does not run what is installed")
    installed, outside = kernels.installed, kernels.directory("outside")
    for path in installed.index_files:
        index = json.loads(path.read_bytes())
        for entry in (each for kind in index.values() for each in kind["staticList"]):
            for file in (kernel := installed.kernel(entry)).parent.glob(f"{kernel.stem}.*"):
                shutil.copy2(file, outside)
            there = outside / kernel.name
            relative = os.path.relpath(there, installed.ai_core)
            entry["binPath"] = relative if how == "relative" else str(there)
        path.write_text(json.dumps(index))
    run = kernels.together(kernels.client(network, static=False, build=kernels.build))[0]
    if not run.succeeded:
        refused(run)  # an index that it does not trust
        return
    assert IMPOSTOR not in run.kernels, kernels.evidence.found(
        Delivery.UNVERIFIED, "a kernel outside of the directory of packages was run"
    )


@rule("robust/disk-full")
@pytest.mark.parametrize("action", [Action.ENOSPC, Action.EIO], ids=lambda each: each.name)
def test_a_failing_disk_loses_no_installed_package(
    kernels: StaticKernelsUnderTest, action: Action
) -> None:
    """A failing install reports failure, and a package installed before stays whole."""
    needs(kernels.toolchain, action)
    stays, other = _packages(kernels, 2)
    kernels.install(stays)
    interruption = kernels.interruption(other, "install")
    changes = [each for each in interruption.operations if each.act.changes]
    for operation in spread(changes, _STATES):
        result = interruption.strike(action, operation)
        where = f"{action.value} at {operation}"
        assert result.returncode is not None, f"{where}: the install does not end"
        installed = (stays, other) if result.returncode == 0 else (stays,)
        agrees(kernels, installed, f"{where}: the install {result.ending}")


@rule("security/no-symlink-follow")
@pytest.mark.parametrize("link", ["kernel", "directory", "package", "chip"])
def test_uninstalling_leaves_what_links_point_to(
    kernels: StaticKernelsUnderTest, link: str
) -> None:
    """The package is uninstalled, another one is installed, and then all are uninstalled."""
    goes, stays, comes = _packages(kernels, 3)
    kernels.install(goes, stays)
    outside = kernels.directory("outside")
    _lead_out(kernels, goes, outside, link)
    before = Snapshot.take(outside)
    _uninstall(kernels, goes)
    kernels.attempt(kernels.installation(comes))
    _uninstall(kernels, stays)
    _uninstall(kernels, comes)
    # A user who links a directory of a chip means its index to be written there.
    judged = "shapes.json" if link == "chip" else ""
    changed = _changed(kernels.evidence, before, outside, judged)
    assert changed == {}, "what a link points to was changed"


def _uninstall(kernels: StaticKernelsUnderTest, package: Path) -> None:
    if package.stem in kernels.installed.packages:
        kernels.attempt(kernels.removal(package.stem))


def _changed(
    evidence: Evidence, before: Snapshot, outside: Path, judged: str = ""
) -> dict[str, str]:
    """The changes outside of the cache of paths that end so, by path: harm in any case."""
    disturbed = before.disturbed(Snapshot.take(outside))
    changes = {path: each.value for path, each in disturbed.items() if path.endswith(judged)}
    for path, change in changes.items():
        evidence.saw(Place.TOUCHED, f"outside of the cache {path} was {change}")
    return changes


def _lead_out(kernels: StaticKernelsUnderTest, package: Path, outside: Path, link: str) -> None:
    """Move a part of a package to ``outside``, and put a link in its place."""
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
@pytest.mark.parametrize("damage", ["object-header-flipped", "object-code-flipped"])
def test_a_rank_leaves_what_links_point_to(network: NetworkUnderTest, damage: str) -> None:
    """A link to a damaged kernel elsewhere is not written through."""
    needs(network.toolchain, Capability.INCREMENTAL_BUILD)
    square = probe_network("Square")
    network.run(square)
    (kernel,) = network.kernels(0).values()
    damage_named(damage).apply(kernel)
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
