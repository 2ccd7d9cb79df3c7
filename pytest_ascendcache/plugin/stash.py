"""What the plugin keeps in pytest's stash, and the session's shared state."""

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
GANG: pytest.StashKey[str] = pytest.StashKey()
RENDEZVOUS: pytest.StashKey[Rendezvous] = pytest.StashKey()


def settings_of(config: pytest.Config) -> Settings:
    """What the options ask for; they were checked before anything else."""
    return config.stash[SETTINGS]


def ascend_session_of(config: pytest.Config) -> AscendSession:
    """The session's shared state, made now if this is the first use."""
    if SESSION not in config.stash:
        from pytest_ascendcache.plugin.session import AscendSession

        config.stash[SESSION] = AscendSession(config, settings_of(config))
    return config.stash[SESSION]


def tells_a_story(report: pytest.TestReport) -> bool:
    """Whether the summary points at what the test did, so that its directory is kept."""
    verdict = getattr(report, "ascend_verdict", "")
    return report.failed or verdict in ("warn", "known deviation")
