"""Every promise of the judged documents is accounted for: it was judged, or a line says why not."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

import pytest

from pytest_ascendcache.contract import Rule, Verdict
from pytest_ascendcache.plugin.stash import settings_of
from pytest_ascendcache.reports.records import VerdictRecord
from pytest_ascendcache.toolchains import Toolchain

_RULES = "ascendcache_rules"


class Accounting:
    """The plugin that knows which rules the suite asks about, before anything is left out."""

    def __init__(self, config: pytest.Config) -> None:
        self._config: Any = config
        self._rules: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        marks = (each.get_closest_marker("ascend_rule") for each in items)
        self._rules = {mark.args[0] for mark in marks if mark is not None and mark.args}
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput[_RULES] = sorted(self._rules)
        yield

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._rules.update(getattr(node, "workeroutput", {}).get(_RULES, ()))

    def not_judged(
        self,
        records: Iterable[VerdictRecord],
        rules: Mapping[str, Rule],
        toolchain: Toolchain | None,
    ) -> list[dict[str, str]]:
        """The rules without a verdict, in the documents' order, each with its document and the
        reason, which is empty for a rule that was not selected. Nothing where the user named
        checks."""
        if any("::" in each for each in self._config.args) or toolchain is None:
            return []
        asked = self._rules & {*(settings_of(self._config).selected_rules or self._rules)}
        said: dict[str, str] = {}
        judged = set()
        for each in records:
            if each.verdict is Verdict.NOT_APPLICABLE:
                said[each.rule] = each.message
            else:
                judged.add(each.rule)
        return [
            {
                "rule": id_,
                "document": rule.source.document,
                "reason": said.get(id_) or _lacking(rule, toolchain),
            }
            for id_, rule in rules.items()
            if id_ in asked - judged
        ]


def _lacking(rule: Rule, toolchain: Toolchain) -> str:
    """What the toolchain lacks for a rule; empty if it has everything."""
    lacking = sorted(rule.capabilities - toolchain.capabilities)
    return f"{toolchain.name}: {lacking[0].lacking}" if lacking else ""


def accounting_of(config: pytest.Config) -> Accounting | None:
    """The plugin of this run, if it judges."""
    plugin: Accounting | None = config.pluginmanager.getplugin("ascendcache-accounting")
    return plugin
