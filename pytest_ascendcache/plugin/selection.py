"""Which checks of the suite are run: its core, or what fits into a budget, the most telling first.

What is left out is said, and which share of the known defects the rest notices. The core is what
judges a toolchain unless more is asked for; a budget judges a part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Capability, Edition, load_rules
from pytest_ascendcache.contract.editions import editions
from pytest_ascendcache.observation import CONTROL_RUNS
from pytest_ascendcache.plugin.estimate import PER_CHECK
from pytest_ascendcache.plugin.options.settings import DOCUMENTS
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.core import Core, core_of
from pytest_ascendcache.qualification.cover import Cover, candidates_of, cover, noticed_by
from pytest_ascendcache.words import count

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.option import Budget

NAME = "ascendcache-selecting"
"""The plugin's name."""

_LIMIT = "ascendcache_budget"
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


class Selecting(ABC):
    """Leaves of the suite what is chosen; a user's own tests all stay."""

    header = ""
    """The line at the top of the run."""

    does_without: frozenset[str] = frozenset()
    """Checks (node ids) without which the rest is still said to be the suite."""

    def __init__(self, config: pytest.Config) -> None:
        self._config: Any = config

    @pytest.hookimpl(trylast=True)  # among what other options select
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        rules: dict[str, str] = {}
        for item in items:
            marker = item.get_closest_marker("ascend_rule")
            if marker is not None and self._chooses(item.nodeid):
                rules[item.nodeid.removeprefix(SUITE_NODES)] = marker.args[0]
        chosen = self._choose(rules)
        left_out = {SUITE_NODES + each for each in rules if each not in chosen}
        dropped = [each for each in items if each.nodeid in left_out]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
        items[:] = [each for each in items if each.nodeid not in left_out]
        first = {SUITE_NODES + each for each in self._first()}
        items.sort(key=lambda each: each.nodeid not in first)
        if hasattr(config, "workerinput"):
            self._config.workeroutput[NAME] = asdict(self._found())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {}).get(NAME)
        if found is not None:
            self._take(found)

    def _chooses(self, check: str) -> bool:
        """Whether a check (by node id) is one of those that are chosen from."""
        return check.startswith(SUITE_NODES)

    @abstractmethod
    def _choose(self, rules: Mapping[str, str]) -> Collection[str]:
        """Those of the checks (named below the suite, with their rules) that are run."""

    def _first(self) -> Collection[str]:
        """Those that are run before all others."""
        return ()

    @abstractmethod
    def _found(self) -> Any:
        """What was chosen, as a worker sends it to the controller."""

    @abstractmethod
    def _take(self, found: Mapping[str, Any]) -> None:
        """Take what a worker sent."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """What the report says of it, by key; empty where nothing was collected."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """What the end of the run says: what was left out, and what that may miss."""

    def _reasons(self, rules: Mapping[str, str]) -> frozenset[str]:
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


class TakingCore(Selecting):
    """Leaves the core of the suite."""

    header = "the core of the suite; all of it: --ascend-suite=whole"

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self._core: Core | None = None

    def _chooses(self, check: str) -> bool:
        return check.startswith(tuple(f"{SUITE_NODES}{folder}/" for folder in DOCUMENTS))

    def _choose(self, rules: Mapping[str, str]) -> Collection[str]:
        capabilities = ascend_session_of(self._config).toolchain.capabilities
        self._core = core_of(rules, capabilities, self._reasons(rules))
        self.does_without = frozenset(
            SUITE_NODES + each for each in rules if each not in self._core.chosen
        )
        return self._core.chosen

    def _found(self) -> Core | None:
        return self._core

    def _take(self, found: Mapping[str, Any]) -> None:
        self._core = Core(**found)

    def document(self) -> dict[str, Any]:
        found = self._core
        if found is None:
            return {}
        counted = {"checks": len(found.chosen), "of_checks": found.checks}
        noticed = {"defects_noticed": found.noticed, "defects_known": found.known}
        return {"suite": {"part": "core", **counted, **noticed, "told": _told(found)}}

    def lines(self) -> Iterator[str]:
        if self._core is not None:
            yield _told(self._core)


def _told(core: Core) -> str:
    return (
        f"the core of the suite: {len(core.chosen)} of {count(core.checks, 'check')}, "
        f"which notice {core.noticed} of {core.known} known defects; more types, moments "
        "and surroundings: --ascend-suite=whole"
    )


class Budgeting(Selecting):
    """Leaves of the suite what fits into the budget."""

    def __init__(self, config: pytest.Config, budget: Budget) -> None:
        super().__init__(config)
        self._budget = budget
        self._limit: Limit | None = None
        self._cover: Cover | None = None
        self.header = f"a selection of checks ({budget.option}), not the suite"

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
            left = given.runs - CONTROL_RUNS * workers
            if left < _LEAST:
                raise pytest.UsageError(
                    f"{given.option}: with {count(workers, 'worker')} the positive control alone "
                    f"takes {CONTROL_RUNS * workers} runs; give at least "
                    f"--ascend-budget={CONTROL_RUNS * workers + _LEAST}runs."
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
        rest = limit.most - CONTROL_RUNS * workers * control.seconds
        if rest < control.seconds + PER_CHECK:
            least = (CONTROL_RUNS * workers + 1) * control.seconds / workers + PER_CHECK
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

    def _choose(self, rules: Mapping[str, str]) -> Collection[str]:
        limit = self._limit or self._found_limit()
        capabilities = ascend_session_of(self._config).toolchain.capabilities
        candidates = candidates_of(rules, capabilities, limit.per_run, limit.per_check)
        known = noticed_by(matrix.read(), {each.check for each in candidates})
        self._cover = cover(candidates, known, limit.most, self._reasons(rules))
        return self._cover.chosen

    def _first(self) -> Collection[str]:
        return () if self._cover is None else self._cover.ahead

    def _found(self) -> Cover | None:
        return self._cover

    def _take(self, found: Mapping[str, Any]) -> None:
        named = {each: tuple(found[each]) for each in ("chosen", "silent", "ahead")}
        self._cover = Cover(**{**found, **named})

    def document(self) -> dict[str, Any]:
        found = self._cover
        if found is None:
            return {"selection": {}}
        selection = {
            "budget": self._budget.option,
            "checks": len(found.chosen),
            "of_checks": found.candidates,
            "defects_noticed": found.noticed,
            "defects_known": found.known,
            "rules_left_out": list(found.silent),
            "put_first": list(found.ahead),
        }
        return {"selection": selection}

    def lines(self) -> Iterator[str]:
        found = self._cover
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
    """Register what chooses among the checks, where not all that are named are run."""
    settings = settings_of(config)
    if settings.budget is not None:
        config.pluginmanager.register(Budgeting(config, settings.budget), NAME)
    elif settings.takes_core:
        config.pluginmanager.register(TakingCore(config), NAME)


def selecting_of(config: pytest.Config) -> Selecting | None:
    """The plugin of this run, where not all that are named are run."""
    found: Selecting | None = config.pluginmanager.getplugin(NAME)
    return found
