"""A plugin for pytest that judges one mutant, with the checks most likely to notice it first.

Checks named with ``--first`` run first, then those whose rules begin with ``--about``, then all
others unless ``--only-about``; never those of ``--without``. Within each group, checks that notice
the most seeded defects per run come first. The run ends with the first check that fails or warns,
or when too many checks waited and could not decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.cover import candidates_of, cover, noticed_by

BROKEN = ("fail", "warn")
"""The verdicts that notice a mutant. An undecided check notices nothing."""

_PATIENCE, _LONG = 12, 5.0
"""The run ends after this many undecided checks that each took more than this many seconds: they
wait in vain until their timeout."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first", action="append", default=[], metavar="CHECK")
    parser.addoption("--about", action="append", default=[], metavar="RULES")
    parser.addoption("--only-about", action="store_true")
    parser.addoption("--without", action="append", default=[], metavar="CHECK")


def telling(rules: dict[str, str]) -> list[str]:
    """Sort checks, given with their rules, by how many seeded defects they notice per run."""
    known = noticed_by(matrix.read(), set(rules))
    candidates = candidates_of(rules, frozenset(Capability))
    return list(cover(candidates, known, float("inf")).chosen)


def order(
    rules: dict[str, str], first: Sequence[str], about: Sequence[str], only: bool
) -> list[str]:
    """Return the checks to run in their order; ``rules`` has the rule of each check."""
    named = [each for each in first if each in rules]
    near = {each: rule for each, rule in rules.items() if rule.startswith(tuple(about))}
    far = {each: rule for each, rule in rules.items() if each not in near}
    return list(dict.fromkeys([*named, *telling(near), *([] if only else telling(far))]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = {each.nodeid.removeprefix(SUITE_NODES): each for each in items}
    rules = {
        name: str(marker.args[0])
        for name, item in named.items()
        if (marker := item.get_closest_marker("ascend_rule")) is not None
        and name not in config.getoption("--without")
    }
    options = [config.getoption(each) for each in ("--first", "--about", "--only-about")]
    items[:] = [named[each] for each in order(rules, *options)]


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_Stop(session))


class _Stop:
    """Ends the run when the mutant's answer is known."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._undecided = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        verdict = getattr(report, "ascend_verdict", "")
        self._undecided += verdict == "undecided" and report.duration > _LONG
        if verdict in BROKEN:
            self._session.shouldfail = f"{report.nodeid} is {verdict}"
        elif self._undecided == _PATIENCE:
            self._session.shouldfail = f"{_PATIENCE} checks waited and are undecided"
