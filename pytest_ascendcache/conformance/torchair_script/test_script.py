"""Document K, judged from what a user's own script leaves: ``--ascend-torchair-script``."""

from __future__ import annotations

import pytest

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.conformance.kit.clients import packages, trees
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.static_kernel import LOCAL_WORLD_SIZE, PACKAGE_NAME
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.script import ScriptUnderTest
from pytest_ascendcache.toolchains.torchair import ScriptRun


@pytest.fixture(autouse=True)
def _capabilities() -> None:
    """The script is what these checks need, and they are only there with one."""


@pytest.fixture
def script(ascend_script: ScriptUnderTest) -> ScriptUnderTest:
    """The user's script, in directories of the check's own."""
    return ascend_script


def _compiled(run: ScriptRun) -> None:
    """A script that compiles nothing where it should is not about static kernels."""
    if not packages(run.work):
        raise NotDecidable(
            "the script left no package in its working directory: it has to compile static "
            "kernels, with the default build directory"
        )


@rule("static-kernel/output-tree")
def test_what_one_card_leaves(script: ScriptUnderTest) -> None:
    run = script.run()
    _compiled(run)
    found = trees(run.work)
    assert found, "there is no folder of a compile where the document has it"
    for names, folder, pid in found:
        full = {path.name for path in (folder / f"{pid}_debug").glob("*.json")}
        target = {
            path.name
            for suffix in names.target
            for path in (folder / f"{pid}{suffix}").glob("*.json")
        }
        assert full, f"{folder.name} has not all operators in {pid}_debug"
        assert target, f"{folder.name} has no target operators"
    at_home = {path for _, folder, _ in found for path in folder.glob("*.run")}
    assert at_home == set(packages(run.work)), "a package is elsewhere"


@rule("static-kernel/package-names")
def test_names_of_packages(script: ScriptUnderTest) -> None:
    run = script.run()
    _compiled(run)
    odd = [path.name for path in packages(run.work) if not PACKAGE_NAME.fullmatch(path.name)]
    assert odd == []


@rule("static-kernel/uninstalled-at-exit")
def test_nothing_stays_installed(script: ScriptUnderTest) -> None:
    opp = script.toolchain.opp
    if opp is None:
        pytest.skip("ASCEND_OPP_PATH is not set: nobody knows where packages are installed")
    before = InstalledKernels(opp).packages
    run = script.run()
    _compiled(run)
    left = InstalledKernels(opp).packages - before
    assert sorted(left) == [], "packages outlive the script that installed them"


@rule("static-kernel/first-card")
def test_the_first_card_compiles_for_all(script: ScriptUnderTest) -> None:
    cards = script.toolchain.cards
    run = script.run(cards)
    _compiled(run)
    if run.callers is None:
        pytest.skip("there is no op_compiler on PATH whose callers could be seen")
    callers = sorted(set(run.callers))
    assert len(callers) == 1, f"{len(callers)} of {cards} cards call op_compiler: {callers}"
    assert callers[0] == "0" or not callers[0].isdigit(), f"card {callers[0]} calls op_compiler"


@rule("static-kernel/local-world-size")
def test_cards_without_a_fitting_number(script: ScriptUnderTest, ascend_evidence: Evidence) -> None:
    """One after the other, on cards that are seen to compile when the number fits."""
    cards = script.toolchain.cards
    _compiled(script.run(cards))
    for value in (None, "0", "two", str(cards + 1)):
        run = script.attempt(cards, value)
        assert packages(run.work) == [], f"with {value}, kernels were compiled"
        for number, output in enumerate(run.outputs):
            assert LOCAL_WORLD_SIZE in output, f"with {value}, card {number} does not say why"
        if run.succeeded:
            reading = f"with {LOCAL_WORLD_SIZE} {value} the script goes on without static kernels"
            ascend_evidence.readings.append(reading)
