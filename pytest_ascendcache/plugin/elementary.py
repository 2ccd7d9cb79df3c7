"""Elementary checks come first; what rests on a broken one is not run.

An elementary check asks whether an option, variable or file does anything at all. Where it does
not, each check of a rule that rests on it would fail in a way of its own. Such a check is counted
as undecided, with the rule that it needs (``Evidence.needs``), and belongs to that rule's cause.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.conformance.costs import is_elementary
from pytest_ascendcache.contract import Verdict, foundations
from pytest_ascendcache.contract.facts import Aspect
from pytest_ascendcache.contract.subjects import RUNS_END
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.health import health_of
from pytest_ascendcache.plugin.stash import EVIDENCE, ascend_session_of, settings_of

_BROKEN = (Verdict.FAIL.value, Verdict.WARN.value)


class Elementary:
    """Orders the checks of a run, and leaves out those that cannot tell anything; not with a seeded
    defect, which each rule has to show that it notices."""

    def __init__(self, config: pytest.Config) -> None:
        settings = settings_of(config)
        self._asks_all = settings.defect is not None
        self._broken: dict[str, None] = {}
        """Rules whose elementary check was broken, in order."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        yield  # other plugins order and select first
        folders = list(dict.fromkeys(map(_folder, items)))
        items.sort(key=lambda each: _turn(each, folders))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave a check out whose rule, or what that rests on, is broken already."""
        marker = item.get_closest_marker("ascend_rule")
        if marker is None or self._asks_all:
            return
        if stopped := _stopped(item):
            item.stash[EVIDENCE] = Evidence(needs=RUNS_END)
            raise NotDecidable(f"not judged: {stopped}")
        rests_on = {marker.args[0], *foundations(marker.args[0])}
        if needed := next((each for each in self._broken if each in rests_on), ""):
            item.stash[EVIDENCE] = Evidence(needs=needed)
            raise NotDecidable(f"not judged: it needs {needed}, which is broken")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = getattr(report, "ascend_record", None)
        if record is None or not _is_elementary(report.nodeid):
            return
        # Where not every edition makes the promise, its breach is undecided, but known.
        known = any(
            each["aspect"] != Aspect.UNDECIDED.value for each in record["evidence"]["facts"]
        )
        if record["verdict"] in _BROKEN or (record["verdict"] == Verdict.UNDECIDED.value and known):
            self._broken[record["rule"]] = None


def _stopped(item: pytest.Item) -> str:
    """Why nothing more is started that the check needs; empty if it can run."""
    toolchain = ascend_session_of(item.config).made_toolchain
    uses = {"ascend_toolchain", "ascend_cache"} & {*getattr(item, "fixturenames", ())}
    return health_of(toolchain).stopped if toolchain is not None and uses else ""


def _folder(item: pytest.Item) -> str:
    return item.nodeid.removeprefix(SUITE_NODES).partition("/")[0]


def _turn(item: pytest.Item, folders: list[str]) -> tuple[int, int]:
    """The turn of a check: elementary ones first, by document, each after those it rests on."""
    marker = item.get_closest_marker("ascend_rule")
    if marker is None or not _is_elementary(item.nodeid):
        return len(folders), 0
    return folders.index(_folder(item)), len(foundations(marker.args[0]))


def _is_elementary(node: str) -> bool:
    return node.startswith(SUITE_NODES) and is_elementary(node.removeprefix(SUITE_NODES))
