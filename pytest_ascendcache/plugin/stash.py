"""Keys of what the plugin keeps in pytest's stash, and access to settings and session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.observation import Evidence
    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.plugin.session import AscendSession
    from pytest_ascendcache.ranks import Rendezvous

SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
SESSION: pytest.StashKey[AscendSession] = pytest.StashKey()
EVIDENCE: pytest.StashKey[Evidence] = pytest.StashKey()
FAILED: pytest.StashKey[bool] = pytest.StashKey()
"""Set on a test whose sandbox is kept."""
GANG: pytest.StashKey[str] = pytest.StashKey()
"""The node id of the gang's check, where each rank is a test of its own."""
MERGED: pytest.StashKey[pytest.TestReport] = pytest.StashKey()
"""The report of a whole gang, while other plugins are shown it."""
RENDEZVOUS: pytest.StashKey[Rendezvous] = pytest.StashKey()
JUDGED: pytest.StashKey[set[str]] = pytest.StashKey()
"""What the workers of a run judged, a line for each toolchain."""
JUDGED_BY = "ascendcache_judged"
"""The name under which a worker gives that line to the controller."""


def settings_of(config: pytest.Config) -> Settings:
    """The checked options of the run."""
    return config.stash[SETTINGS]


def ascend_session_of(config: pytest.Config) -> AscendSession:
    """The shared state of the session, created on first use."""
    if SESSION not in config.stash:
        from pytest_ascendcache.plugin.session import AscendSession

        config.stash[SESSION] = AscendSession(config, settings_of(config))
    return config.stash[SESSION]


def as_known(report: pytest.TestReport, reason: str) -> None:
    """Make a report that of a failure that was expected, as pytest's xfail does."""
    report.outcome, report.longrepr = "skipped", None
    report.wasxfail = reason


def keeps_sandbox(report: pytest.TestReport) -> bool:
    """Whether the sandbox of the test is kept, because the summary points into it."""
    verdict = getattr(report, "ascend_verdict", "")
    return report.failed or verdict in ("warn", "known deviation")
