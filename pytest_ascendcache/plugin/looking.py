"""Runs that only look around: the suite is collected, told about, and not run."""

from __future__ import annotations

import pytest
from _pytest.main import wrap_session  # as pytest's own --fixtures; there is no public way

from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.plugin.summary import language_of


def look_around(config: pytest.Config) -> int | pytest.ExitCode:
    """Collect the suite, and print the list of rules, or what ``--ascend-doctor`` finds."""
    # One process is enough: nothing is run.
    config.option.numprocesses, config.option.dist, config.option.tx = None, "no", []
    return wrap_session(config, _look)


def _look(config: pytest.Config, session: pytest.Session) -> int | None:
    from pytest_ascendcache.plugin.doctor import Doctor
    from pytest_ascendcache.plugin.listing import rule_list

    config.hook.pytest_collection(session=session)
    reporter = config.get_terminal_writer()
    settings = settings_of(config)
    items = [item for item in session.items if item.get_closest_marker("ascend_rule")]
    if settings.listed is not None:
        for line in rule_list(items, settings.listed, language_of(config), settings.editions):
            reporter.line(line)
    if not settings.doctor:
        return None
    doctor = Doctor(ascend_session_of(config), items, language_of(config))
    for line in doctor.lines():
        reporter.line(line)
        reporter.flush()
    return None if doctor.fine else pytest.ExitCode.TESTS_FAILED
