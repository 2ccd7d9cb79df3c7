"""Which checks of the suite run: its core, or the checks that fit into a budget.

The core judges a toolchain unless the options ask for more or for less; a budget judges a part of
the suite. The end of the run says what was left out, and which share of the known defects the rest
catches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Capability, Edition, load_rules
from pytest_ascendcache.contract.editions import editions
from pytest_ascendcache.observation import CONTROL_RUNS
from pytest_ascendcache.plugin.options.parts import DOCUMENTS
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.core import Core, core_of
from pytest_ascendcache.qualification.cover import Cover, candidates_of, cover, noticed_by
from pytest_ascendcache.words import count

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.option import Budget

NAME = "ascendcache-selecting"
"""The name under which pytest knows the plugin."""

_LIMIT = "ascendcache_budget"
_LEAST = 8
"""Runs that a budget must leave for checks."""


@dataclass(frozen=True)
class Limit:
    """What checks may cost: ``most`` in all and ``per_run``, in the same unit."""

    most: float
    per_run: float


_OF_FIXTURES = {
    "ascend_cache": Capability.OPERATOR_CACHE,
    "lives": Capability.OPERATOR_CACHE,
    "cell_runs": Capability.OPERATOR_CACHE,
    "ascend_network": Capability.INCREMENTAL_BUILD,
    "ascend_static_kernels": Capability.OP_COMPILER,
}


class Selecting(ABC):
    """Deselects checks of the suite; a user's own tests all stay.

    ``pytest_collection_modifyitems`` asks the subclass to ``_choose``, which returns a
    :class:`Core` or :class:`Cover`. In an xdist run every worker chooses the same and sends its
    choice to the controller, which prints ``lines`` and writes ``document``. Checks are named
    below the suite.
    """

    header = ""
    """The line at the top of the run."""

    does_without: frozenset[str] = frozenset()
    """Checks (node ids) whose absence does not make the run a part of the suite."""

    _kind: type[Core] | type[Cover]

    def __init__(self, config: pytest.Config) -> None:
        self._config: Any = config
        self._choice: Any = None
        self._needs: dict[str, frozenset[Capability]] = {}
        """What the fixtures of each check need of a toolchain."""

    @pytest.hookimpl(trylast=True)  # selects from what other options leave
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        rules: dict[str, str] = {}
        for item in items:
            marker = item.get_closest_marker("ascend_rule")
            if marker is not None and self._chooses_from(item.nodeid):
                check = item.nodeid.removeprefix(SUITE_NODES)
                rules[check] = marker.args[0]
                needs = {_OF_FIXTURES.get(each) for each in getattr(item, "fixturenames", ())}
                self._needs[check] = frozenset(filter(None, needs))
        self._choice = self._choose(rules)
        left_out = {SUITE_NODES + each for each in rules if each not in self._choice.chosen}
        dropped = [each for each in items if each.nodeid in left_out]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
        first = {SUITE_NODES + each for each in getattr(self._choice, "ahead", ())}
        items[:] = [each for each in items if each.nodeid not in left_out]
        items.sort(key=lambda each: each.nodeid not in first)
        if hasattr(config, "workerinput"):
            self._config.workeroutput[NAME] = asdict(self._choice)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        choice = getattr(node, "workeroutput", {}).get(NAME)
        if choice is not None:
            self._choice = self._kind(**choice)

    def _chooses_from(self, check: str) -> bool:
        """Whether a check (by node id) can be left out."""
        return check.startswith(SUITE_NODES)

    @abstractmethod
    def _choose(self, rules: Mapping[str, str]) -> Core | Cover:
        """The choice among checks, which come with their rules."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The choice as plain data for the report, by key."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """The lines at the end of the run: what was left out, and what that may miss."""

    def _to_ask_again(self, rules: Mapping[str, str]) -> frozenset[str]:
        """The checks that were unsettled in the baseline, or whose rules today's editions
        change."""
        baseline = settings_of(self._config).baseline
        if baseline is None:
            return frozenset()
        known = {str(each): each for each in editions()}
        then = [known[each] for each in baseline.editions if each in known]
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
    """Runs only the core of the suite."""

    header = "the core of the suite; all of it: --ascend-select=whole"
    _kind = Core

    def _chooses_from(self, check: str) -> bool:
        return check.startswith(tuple(f"{SUITE_NODES}{folder}/" for folder in DOCUMENTS))

    def _choose(self, rules: Mapping[str, str]) -> Core:
        capabilities = ascend_session_of(self._config).toolchain.capabilities
        core = core_of(rules, capabilities, self._to_ask_again(rules))
        self.does_without = frozenset(
            SUITE_NODES + each for each in rules if each not in core.chosen
        )
        return core

    def document(self) -> dict[str, Any]:
        core: Core | None = self._choice
        if core is None:
            return {}
        suite = {
            "part": "core",
            "checks": len(core.chosen),
            "of_checks": core.checks,
            "defects_noticed": core.noticed,
            "defects_known": core.known,
            "summary": next(self.lines()),
        }
        return {"suite": suite}

    def lines(self) -> Iterator[str]:
        core: Core | None = self._choice
        if core is not None:
            yield (
                f"the core of the suite: {len(core.chosen)} of {count(core.checks, 'check')}, "
                f"which catch {core.noticed} of {core.known} known defects; more data types, "
                "moments and environments: --ascend-select=whole"
            )


class Budgeting(Selecting):
    """Runs the checks that fit into a budget, those that catch the most known defects."""

    _kind = Cover

    def __init__(self, config: pytest.Config, budget: Budget) -> None:
        super().__init__(config)
        self._budget = budget
        self._limit: Limit | None = None
        self.header = f"a selection of checks ({budget.option}), not the whole suite"

    def pytest_sessionstart(self) -> None:
        """Measure what a run of the toolchain costs, where the budget is a time."""
        self._limit = self._compute_limit()

    def _compute_limit(self) -> Limit:
        """Raises ``pytest.UsageError`` if a run cannot be measured, or no check fits the budget."""
        if hasattr(self._config, "workerinput"):
            return Limit(*self._config.workerinput[_LIMIT])
        workers = len(self._config.getoption("tx", None) or "1")
        budget = self._budget
        if budget.seconds is None:
            left = budget.runs - CONTROL_RUNS * workers
            if left < _LEAST:
                raise pytest.UsageError(
                    f"{budget.option}: with {count(workers, 'worker')} the positive control alone "
                    f"takes {CONTROL_RUNS * workers} runs; give at least "
                    f"--ascend-select={CONTROL_RUNS * workers + _LEAST}runs."
                )
            return Limit(left, 1.0)
        session = ascend_session_of(self._config)
        needed = {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT}
        if not needed <= session.toolchain.capabilities:
            raise pytest.UsageError(
                f"{budget.option} is a time, but what a run of {session.toolchain.name} takes "
                "cannot be measured beforehand; give a number of runs, such as 100runs."
            )
        if self._config.option.collectonly:
            raise pytest.UsageError(
                f"{budget.option} is a time, but --collect-only runs nothing that could be "
                "measured; give a number of runs, such as 100runs."
            )
        control = session.control
        if not control.compiles:
            raise pytest.UsageError(f"{budget.option}: no run can be measured: {control.reason}.")
        rest = budget.seconds * workers - CONTROL_RUNS * workers * control.seconds
        if rest < control.seconds:
            least = (CONTROL_RUNS * workers + 1) * control.seconds / workers
            raise pytest.UsageError(
                f"{budget.option}: a run of {session.toolchain.name} takes {control.seconds:.2g} s "
                f"as measured, so no check fits; give at least {least:.0f}s."
            )
        return Limit(rest, control.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        assert self._limit is not None
        node.workerinput[_LIMIT] = astuple(self._limit)

    def _choose(self, rules: Mapping[str, str]) -> Cover:
        limit = self._limit or self._compute_limit()
        capabilities = ascend_session_of(self._config).toolchain.capabilities
        fitting = {each: rules[each] for each in rules if self._needs[each] <= capabilities}
        candidates = candidates_of(fitting, capabilities, limit.per_run)
        known = noticed_by(matrix.read(), {each.check for each in candidates})
        return cover(candidates, known, limit.most, self._to_ask_again(rules), limit.per_run)

    def document(self) -> dict[str, Any]:
        choice: Cover | None = self._choice
        if choice is None:
            return {"selection": {}}
        selection = {
            "budget": self._budget.option,
            "checks": len(choice.chosen),
            "of_checks": choice.candidates,
            "defects_noticed": choice.noticed,
            "defects_known": choice.known,
            "rules_left_out": list(choice.silent),
            "put_first": list(choice.ahead),
        }
        return {"selection": selection}

    def lines(self) -> Iterator[str]:
        choice: Cover | None = self._choice
        if choice is None:
            return
        yield (
            f"{self._budget.option}: {len(choice.chosen)} of {count(choice.candidates, 'check')} "
            f"were run; they catch at least {choice.noticed} of {choice.known} known defects "
            f"({choice.share:.0%})"
        )
        if choice.ahead:
            yield f"run first because of the baseline: {count(len(choice.ahead), 'check')}"


def _promises(by: Sequence[Edition]) -> dict[str, tuple[object, str]]:
    """What each rule promises in these editions: its level and statement."""
    return {id_: (rule.level, rule.statement) for id_, rule in load_rules(*by).items()}


def join_selecting(config: pytest.Config) -> None:
    """Register the plugin that selects checks, if the options ask for a selection."""
    settings = settings_of(config)
    if settings.budget is not None:
        config.pluginmanager.register(Budgeting(config, settings.budget), NAME)
    elif settings.takes_core:
        config.pluginmanager.register(TakingCore(config), NAME)


def selecting_of(config: pytest.Config) -> Selecting | None:
    """The plugin that selects checks, if this run has one."""
    plugin: Selecting | None = config.pluginmanager.getplugin(NAME)
    return plugin
