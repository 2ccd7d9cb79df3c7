"""A plugin for pytest that judges one mutant, the most telling checks first.

First come checks named with ``--first``, then those whose rules begin with ``--about``, then, but
for ``--only-about``, all others; never those of ``--without``. Of each kind the first are those
that notice the most seeded defects for their runs. The run ends with the first check that fails or
warns, or when too many have waited and could not tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.cover import candidates_of, cover, noticed_by

BROKEN = ("fail", "warn")
"""What notices: a check that could not tell has noticed nothing."""

_PATIENCE, _LONG = 12, 5.0
"""Undecided checks, of more seconds than that each, after which no other is asked: they wait in
vain for their whole time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first", action="append", default=[], metavar="CHECK")
    parser.addoption("--about", action="append", default=[], metavar="RULES")
    parser.addoption("--only-about", action="store_true")
    parser.addoption("--without", action="append", default=[], metavar="CHECK")


def telling(rules: dict[str, str]) -> list[str]:
    """Checks (with the rules they judge), the most telling first."""
    known = noticed_by(matrix.read(), set(rules))
    candidates = candidates_of(rules, frozenset(Capability))
    return list(cover(candidates, known, float("inf")).chosen)


def order(
    rules: dict[str, str], first: Sequence[str], about: Sequence[str], only: bool
) -> list[str]:
    """The checks to be run (with the rules they judge), in their order."""
    asked = [each for each in first if each in rules]
    near = {each: rule for each, rule in rules.items() if rule.startswith(tuple(about))}
    far = {each: rule for each, rule in rules.items() if each not in near}
    return list(dict.fromkeys([*asked, *telling(near), *([] if only else telling(far))]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = {each.nodeid.removeprefix(SUITE_NODES): each for each in items}
    rules = {
        name: str(marker.args[0])
        for name, item in named.items()
        if (marker := item.get_closest_marker("ascend_rule")) is not None
        and name not in config.getoption("--without")
    }
    asked = [config.getoption(each) for each in ("--first", "--about", "--only-about")]
    items[:] = [named[each] for each in order(rules, *asked)]


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_Stop(session))


class _Stop:
    """Ends the run when enough is known."""

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
