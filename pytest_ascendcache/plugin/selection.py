"""``--ascend-budget`` and ``--ascend-smoke``: as many checks as fit, the most telling first.

What is left out is said: such a run judges a part of the suite, and tells which share of the known
defects that part notices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Capability, Edition, load_rules
from pytest_ascendcache.contract.editions import editions
from pytest_ascendcache.plugin.estimate import PER_CHECK
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.cover import Cover, candidates_of, cover, noticed_by
from pytest_ascendcache.words import count

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.option import Budget

NAME = "ascendcache-selecting"
"""The plugin's name."""

_LIMIT = "ascendcache_budget"
_CONTROL = 4
"""Runs of the positive control, which every process does that runs checks."""

_NAMED = 12
"""Rules that the end of a run names."""

_LEAST = 8
"""Runs that are to be left for checks."""


@dataclass(frozen=True)
class Limit:
    """What checks may cost: ``most`` in all, ``per_run`` and ``per_check`` in the same unit."""

    most: float
    per_run: float
    per_check: float


class Selecting:
    """Leaves of the suite what fits into the budget; a user's own tests all stay."""

    def __init__(self, config: pytest.Config, budget: Budget) -> None:
        self._config: Any = config
        self._budget = budget
        self._limit: Limit | None = None
        self.cover: Cover | None = None
        """What was chosen, when the tests are collected."""

    @property
    def header(self) -> str:
        """The line at the top of the run."""
        return f"a selection of checks ({self._budget.option}), not the suite"

    def pytest_sessionstart(self) -> None:
        """Find out what a run costs, where the budget is a time.

        Raises:
            pytest.UsageError: where it cannot be told, or no check fits.
        """
        self._limit = self._found_limit()

    def _found_limit(self) -> Limit:
        if hasattr(self._config, "workerinput"):
            return Limit(*self._config.workerinput[_LIMIT])
        workers = len(self._config.getoption("tx", None) or "1")
        given = self._budget
        if given.seconds is None:
            left = given.runs - _CONTROL * workers
            if left < _LEAST:
                raise pytest.UsageError(
                    f"{given.option}: with {count(workers, 'worker')} the positive control alone "
                    f"takes {_CONTROL * workers} runs; give at least "
                    f"--ascend-budget={_CONTROL * workers + _LEAST}runs."
                )
            return Limit(left, 1.0, 0.0)
        session = ascend_session_of(self._config)
        needed = {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT}
        if not needed <= session.toolchain.capabilities:
            raise pytest.UsageError(
                f"{given.option} is a time, and what a run of {session.toolchain.name} takes "
                "cannot be measured beforehand; give a number of runs, such as 100runs."
            )
        if self._config.option.collectonly:
            raise pytest.UsageError(
                f"{given.option} is a time, and --collect-only runs nothing that could be "
                "measured; give a number of runs, such as 100runs."
            )
        control = session.control
        if not control.compiles:
            raise pytest.UsageError(f"{given.option}: no run can be measured: {control.reason}.")
        limit = Limit(given.seconds * workers, control.seconds, PER_CHECK)
        rest = limit.most - _CONTROL * workers * control.seconds
        if rest < control.seconds + PER_CHECK:
            least = (_CONTROL * workers + 1) * control.seconds / workers + PER_CHECK
            raise pytest.UsageError(
                f"{given.option}: a run of {session.toolchain.name} takes {control.seconds:.2g} s "
                f"as measured, so that no check fits; give at least {least:.0f}s."
            )
        return Limit(rest, limit.per_run, limit.per_check)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        assert self._limit is not None
        limit = self._limit
        node.workerinput[_LIMIT] = (limit.most, limit.per_run, limit.per_check)

    @pytest.hookimpl(trylast=True)  # among what other options select
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        limit = self._limit or self._found_limit()
        capabilities = ascend_session_of(config).toolchain.capabilities
        mine: list[pytest.Item] = []
        rules: dict[str, str] = {}
        for item in items:
            marker = item.get_closest_marker("ascend_rule")
            if marker is None or not item.nodeid.startswith(SUITE_NODES):
                mine.append(item)
            else:
                rules[item.nodeid.removeprefix(SUITE_NODES)] = marker.args[0]
        candidates = candidates_of(rules, capabilities, limit.per_run, limit.per_check)
        known = noticed_by(matrix.read(), {each.check for each in candidates})
        self.cover = cover(candidates, known, limit.most, self._put_first(rules))
        kept = {SUITE_NODES + each for each in self.cover.chosen}
        dropped = [each for each in items if each not in mine and each.nodeid not in kept]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [each for each in items if each in mine or each.nodeid in kept]
        first = {SUITE_NODES + each for each in self.cover.ahead}
        items.sort(key=lambda each: each.nodeid not in first)
        if hasattr(config, "workerinput"):
            self._config.workeroutput[NAME] = asdict(self.cover)

    def _put_first(self, rules: Mapping[str, str]) -> frozenset[str]:
        """Of these checks (with their rules) those that the baseline gives reason to ask again:
        they were unsettled there, or their rules are promised otherwise in today's editions."""
        baseline = settings_of(self._config).reports.baseline
        if baseline is None:
            return frozenset()
        judged_by = {str(each): each for each in editions()}
        then = [judged_by[each] for each in baseline.editions if each in judged_by]
        now = ascend_session_of(self._config).judged_by.editions
        products = {each.product for each in then}
        before = _promises(then)
        today = _promises([each for each in now if each.product in products])
        changed = {rule for rule, promise in today.items() if before.get(rule) != promise}
        return frozenset(
            check
            for check, rule in rules.items()
            if (rule, SUITE_NODES + check) in baseline.unsettled or rule in changed
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {}).get(NAME)
        if found is not None:
            named = {each: tuple(found[each]) for each in ("chosen", "silent", "ahead")}
            self.cover = Cover(**{**found, **named})

    def document(self) -> dict[str, Any]:
        """What the report says of it; empty where nothing was collected."""
        if self.cover is None:
            return {}
        return {
            "budget": self._budget.option,
            "checks": len(self.cover.chosen),
            "of_checks": self.cover.candidates,
            "defects_noticed": self.cover.noticed,
            "defects_known": self.cover.known,
            "rules_left_out": list(self.cover.silent),
            "put_first": list(self.cover.ahead),
        }

    def lines(self) -> Iterator[str]:
        """What the end of the run says: what was left out, and what that may miss."""
        found = self.cover
        if found is None:
            return
        yield (
            f"{self._budget.option}: {len(found.chosen)} of {count(found.candidates, 'check')} "
            f"were run; they notice at least {found.noticed} of {found.known} known defects "
            f"({found.share:.0%})"
        )
        if found.ahead:
            yield f"put first because of the baseline: {count(len(found.ahead), 'check')}"
        if found.silent:
            rules = count(len(found.silent), "rule")
            if len(found.silent) > _NAMED:
                yield f"not judged at all: {rules}, which a report (--ascend-report) names"
            else:
                yield f"not judged at all: {rules}: {', '.join(found.silent)}"


def _promises(by: Sequence[Edition]) -> dict[str, tuple[object, str]]:
    """What each rule promises in these editions: its level and statement."""
    return {id_: (rule.level, rule.statement) for id_, rule in load_rules(*by).items()}


def join_selecting(config: pytest.Config) -> None:
    """Register what a budget needs, where one is given."""
    budget = settings_of(config).budget
    if budget is not None:
        config.pluginmanager.register(Selecting(config, budget), NAME)


def selecting_of(config: pytest.Config) -> Selecting | None:
    """The plugin of this run, where there is a budget."""
    found: Selecting | None = config.pluginmanager.getplugin(NAME)
    return found
