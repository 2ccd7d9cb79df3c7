"""What a report says of the run itself: what was judged, by which documents, where, and how far."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from typing import Any

import pytest

from pytest_ascendcache.contract import Rule, rules_for
from pytest_ascendcache.contract.deviations import Deviation, Judged, Occurrence, occurrences
from pytest_ascendcache.observation.health import Health
from pytest_ascendcache.plugin.accounting import accounting_of
from pytest_ascendcache.plugin.judged import judged
from pytest_ascendcache.plugin.selection import selecting_of
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.reports.baseline import News
from pytest_ascendcache.reports.records import VerdictRecord, tried_cells
from pytest_ascendcache.reports.release_answer import release_answer
from pytest_ascendcache.toolchains import Toolchain, ToolchainError


class Description:
    """Describes one run. It begins when the run does; ``toolchain`` is None where only files are
    judged."""

    def __init__(self, config: pytest.Config, toolchain: Toolchain | None) -> None:
        self._config = config
        self._toolchain = toolchain
        self._settings = settings_of(config)
        self._started = datetime.now().astimezone()

    def document(
        self,
        records: Sequence[VerdictRecord],
        *,
        exit_status: int,
        missing: int,
        is_suite: bool,
        occurrences: Sequence[tuple[Deviation, Occurrence]],
        health: Health,
        pace: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The fields of the JSON document that describe the run itself. ``missing`` checks gave no
        verdict; ``is_suite`` says that the run covers the suite."""
        session, toolchain = ascend_session_of(self._config), self._toolchain
        description: dict[str, Any] = {
            "plugin": version("pytest-ascendcache"),
            "toolchain": {**self.judged(), **(toolchain.details if toolchain is not None else {})},
            "judged": judged(self._settings, toolchain),
            "editions": self._editions(records),
            "edition_notices": session.judged_by.notices,
            "host": self.host(),
            "exit_status": exit_status,
            "started": self._started.isoformat(timespec="seconds"),
            "checks_without_verdict": missing,
            "deviations": [
                {**asdict(entry), "cell": dict(entry.cell), "occurrence": occurrence.value}
                for entry, occurrence in occurrences
            ],
        }
        selecting, news = selecting_of(self._config), self.news(records)
        selected = selecting.document() if selecting else {}
        is_part = records and "selection" not in selected and not is_suite
        accounting = accounting_of(self._config)
        notices = [] if toolchain is None else health.notices(toolchain.name)
        optional = {
            "matrix": self._matrix(records),
            **selected,
            "is_part": bool(is_part),
            "pace": pace,
            "answers": self._answers(records, missing),
            "not_judged": accounting.not_judged(records, self.rules, toolchain)
            if accounting is not None and records
            else [],
            "notices": notices,
            "baseline": news.as_dict() if news else None,
        }
        kept = {name: value for name, value in optional.items() if value or name in selected}
        return description | kept

    def judged(self) -> dict[str, str]:
        """Name and version of the toolchain, if one is judged."""
        if self._toolchain is None:
            return {"name": "no toolchain", "version": "is judged"}
        return {"name": self._toolchain.name, "version": self._toolchain.version}

    def host(self) -> dict[str, str]:
        """The machine and the file system of the sandboxes."""
        try:
            file_system = str(ascend_session_of(self._config).file_system)
        except (ToolchainError, OSError) as error:
            # Every check will report it too; the header must not end the run.
            file_system = f"no usable temporary directory: {error}"
        return {
            "machine": platform.machine(),
            "python": platform.python_version(),
            "file_system": file_system,
        }

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules that this run judges by."""
        editions = ascend_session_of(self._config).judged_by.editions
        return rules_for(self._settings.toolchain, *editions)

    def news(self, records: Sequence[VerdictRecord]) -> News | None:
        """What is new and what is fixed since the baseline, if there is one."""
        baseline = self._settings.baseline
        return None if baseline is None else News.of(baseline, records)

    def occurrences(self, records: Sequence[VerdictRecord]) -> list[tuple[Deviation, Occurrence]]:
        """Whether each listed deviation occurred in a run that covers the suite."""
        editions = ascend_session_of(self._config).judged_by.editions
        return occurrences(
            [each for each in self._settings.deviations if each.is_by(editions)],
            (
                Judged(
                    each.rule,
                    each.check,
                    each.evidence["factors"],
                    each.verdict,
                    (each.deviation or {}).get("entry", ""),
                )
                for each in records
            ),
        )

    def _editions(self, records: Sequence[VerdictRecord]) -> list[str]:
        """The editions of those documents whose promises were judged."""
        rules, judged = self.rules, {record.rule for record in records}
        products = {rule.product for id_, rule in rules.items() if id_ in judged}
        editions = ascend_session_of(self._config).judged_by.editions
        return [str(each) for each in editions if each.product in products]

    def _matrix(self, records: Sequence[VerdictRecord]) -> list[str]:
        """Which combinations were tried, what they cover, and what else was generated."""
        tried = tried_cells(records)
        lines = ascend_session_of(self._config).plan.describe(tried) if tried else []
        if records and (seed := self._settings.seed):
            lines.append(
                f"Generated input comes from seed {seed}; --ascend-seed={seed} repeats it."
            )
        return lines

    def _answers(self, records: Sequence[VerdictRecord], missing: int) -> list[str]:
        """The answer about each release, in one sentence."""
        release, toolchain = self._settings.release, self._toolchain
        if toolchain is not None and toolchain.name == "reference":
            compiler = f"the embedded reference {toolchain.version}, which says nothing about CANN"
        else:
            compiler = "" if toolchain is None else f"{toolchain.name} {toolchain.version}"
        return [
            release_answer(each.name, {id_, *map(str, each.caches)}, compiler, records, missing)
            for id_, each in zip(release.ids, release.releases, strict=True)
        ]
