"""Registers the plugins of one run. Which of them a run needs is decided here and nowhere else."""

from __future__ import annotations

import pytest

from pytest_ascendcache.audit import RemovalPlan
from pytest_ascendcache.combinations import seed
from pytest_ascendcache.plugin.accounting import Accounting
from pytest_ascendcache.plugin.audits import PlanWriter
from pytest_ascendcache.plugin.collector import Collector
from pytest_ascendcache.plugin.elementary import Elementary
from pytest_ascendcache.plugin.resuming import join_resuming
from pytest_ascendcache.plugin.selection import join_selecting
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.plugin.termination import end_as_interrupted


def register_plugins(config: pytest.Config) -> None:
    """Register what a run of the suite needs, and check the toolchain's name.

    Names are checked before anything is collected: a wrong one is one usage error, not an error of
    every check. Raises ``pytest.UsageError`` if the toolchain, the budget or the journal cannot be
    used.
    """
    settings, session = settings_of(config), ascend_session_of(config)
    if settings.judges:
        seed.choose(settings.seed)
    if settings.looks or not settings.judges:
        if settings.typed:
            _ = session.toolchain
        return
    end_as_interrupted(config)
    collector = Collector(config, session.toolchain if settings.needs_toolchain else None)
    config.pluginmanager.register(collector, "ascendcache-collector")
    if settings.audit.fix is not None:

        def plans() -> list[RemovalPlan]:
            return [session.audits.plan(each) for each in settings.audit.directories]

        writer = PlanWriter(config, settings.audit.fix, plans)
        config.pluginmanager.register(writer, "ascendcache-plan")
    config.pluginmanager.register(Elementary(config), "ascendcache-elementary")
    config.pluginmanager.register(Accounting(config), "ascendcache-accounting")
    join_selecting(config)
    if settings.resume is not None:
        join_resuming(config, collector.adopt)
