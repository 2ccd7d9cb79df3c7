"""Document K: a user's script next to packages that others have installed."""

from __future__ import annotations

from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.conformance.torchair_script.fixtures import served
from pytest_ascendcache.observation.script import ScriptUnderTest

_MANY = 16
"""So many that a script cannot pick its own package by chance."""


@rule("static-kernel/uninstalled-at-exit")
def test_packages_installed_by_hand_stay(script: ScriptUnderTest) -> None:
    with script.strangers(_MANY) as places:
        run = script.attempt()
        gone = [each.name for each in places if not each.exists()]
    assert run.ended.succeeded, f"beside packages of others the script {run.ended.ending}"
    served(run)
    assert gone == [], f"{len(gone)} packages that others installed were uninstalled"
    assert sorted(run.left) == [], "the script's own packages stay"
