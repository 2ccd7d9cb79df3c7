"""The audits of a session: each directory is read once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ascendcache.audit import Audit, RemovalPlan, audit

if TYPE_CHECKING:
    from pytest_ascendcache.contract import Edition
    from pytest_ascendcache.plugin.options.audit import AuditSettings


class Audits:
    """Made on first use; one a process, so that every xdist worker looks for itself."""

    def __init__(self, settings: AuditSettings, edition: Edition) -> None:
        self._settings = settings
        self._edition = edition
        self._known: dict[Path, Audit] = {}
        self._plans: dict[Path, RemovalPlan] = {}

    def of(self, directory: Path) -> Audit:
        """The audit of a directory, done now if this is the first use."""
        if directory not in self._known:
            self._known[directory] = self._look(directory)
        return self._known[directory]

    def _look(self, directory: Path) -> Audit:
        suggest = None
        if self._settings.fix is not None:
            self._plans[directory] = RemovalPlan(directory)
            suggest = self._plans[directory].add
        return audit(directory, suggest=suggest, edition=self._edition)

    def plan(self) -> list[RemovalPlan]:
        """What to remove of all directories; those another process looked at are looked at now."""
        for directory in self._settings.directories:
            self.of(directory)
        return list(self._plans.values())
