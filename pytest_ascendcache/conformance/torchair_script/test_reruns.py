"""Document K: a user's script runs again in a directory, where a client may keep packages."""

from __future__ import annotations

from pathlib import Path

from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.conformance.torchair_script.fixtures import (
    folders,
    keys_asked,
    keys_of,
    served,
)
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.observation.script import ScriptUnderTest, WatchedRun
from pytest_ascendcache.toolchains.torchair import Card


@rule("static-kernel/one-binary-per-shape")
def test_another_run_in_the_same_directory(script: ScriptUnderTest) -> None:
    """For each shape, the run either compiles or uses a kept package, but does not do both. What it
    compiles is what runs."""
    work = script.directory("work")
    before = served(script.attempt(1, work=work))
    known = folders(work)
    run = script.attempt(1, work=work)
    assert run.ended.succeeded, f"the second run {run.ended.ending}"
    missing = _dumped_since(known, run) - run.compiler.keys()
    assert missing == set(), script.evidence.found(
        Delivery.NOTHING, f"in the second run {len(missing)} operators have no kernel installed"
    )
    index, asked = run.compiler.index(), keys_asked(run)
    old = [each for each in run.compiler.installed if each not in run.compiler.made]
    stale = {key for key in asked if index.get(key) in old}
    assert stale == set(), script.evidence.found(
        Delivery.STALE, f"{len(stale)} operators run kernels of an earlier run"
    )
    idle = [each for each in old if each not in index.values()]
    assert idle == [], "packages of an earlier run are installed, and nothing of them runs"
    if any(work.glob("*/static_kernel_cache/*.json")):
        again = asked & keys_asked(before)
        assert again == set(), f"{len(again)} operators were compiled that a package is kept of"


@rule("static-kernel/one-binary-per-shape")
def test_other_cards_in_the_same_directory(script: ScriptUnderTest) -> None:
    """A package kept for one card is not used for another, whose operators differ."""
    cards = script.toolchain.cards
    served(script.run(cards))
    work = script.directory("work")
    served(script.attempt(1, work=work))
    known = folders(work)
    run = script.attempt([Card("1")] * cards, work=work)
    assert run.ended.succeeded, f"the cards {run.ended.ending}"
    missing = _dumped_since(known, run) - run.compiler.keys(ever=True)
    assert missing == set(), script.evidence.found(
        Delivery.NOTHING, f"{len(missing)} operators of other cards have no kernel installed"
    )


@rule("static-kernel/failed-operator")
def test_a_damaged_package_that_was_kept_is_made_anew(script: ScriptUnderTest) -> None:
    """The next run in that directory compiles anew, or ends with an error."""
    work = script.directory("work")
    before = served(script.attempt(1, work=work))
    for path in before.compiler.made.values():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    known = folders(work)
    run = script.attempt(1, work=work)
    if run.ended.succeeded:
        missing = _dumped_since(known, run) - run.compiler.keys(ever=True)
        assert missing == set(), f"{len(missing)} operators have no kernel from then on"


def _dumped_since(known: list[Path], run: WatchedRun) -> set[tuple[str, str]]:
    """Types and keys of the operators that a run dumped into new folders."""
    new = [each for each in folders(run.work) if each not in known]
    assert new, "it dumped nothing"
    return set().union(*map(keys_of, new))
