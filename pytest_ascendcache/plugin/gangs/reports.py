"""Merges the reports of all ranks of an item, each with three phases, into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from pytest_ascendcache.observation import RankNote
from pytest_ascendcache.reports.gangs import RankRecord, gang_record
from pytest_ascendcache.reports.records import VerdictRecord


@dataclass(frozen=True)
class PlainReport:
    """A rank's ``TestReport`` as plain data, which fits through a pipe.

    ``skip`` is path, line and reason of a skip; ``record`` a verdict record as plain data;
    ``aborted``: another rank kept this one from going on.
    """

    outcome: str
    text: str
    skip: tuple[str, int, str] | None
    wasxfail: str | None
    aborted: bool
    record: dict[str, Any] | None


@dataclass(frozen=True)
class RankFate:
    """How a rank's process ended, the end of its output (``words``), and its phases' reports."""

    rank: int
    ending: str
    words: str
    phases: Sequence[PlainReport]

    @property
    def outcome(self) -> str:
        """``failed``, ``skipped`` or ``passed``."""
        outcomes = {phase.outcome for phase in self.phases}
        return next((each for each in ("failed", "skipped") if each in outcomes), "passed")

    @property
    def aborted(self) -> bool:
        """Whether another rank kept this one from going on."""
        return any(phase.aborted for phase in self.phases)

    @property
    def note(self) -> RankNote:
        """The rank's outcome in a line, for the report."""
        verdicts = [phase.record["verdict"] for phase in self.phases if phase.record is not None]
        outcome = "aborted" if self.aborted else verdicts[0] if verdicts else self.outcome
        return RankNote(self.rank, f"{outcome}, {self.ending}", self.words)


def plain(report: pytest.TestReport) -> PlainReport:
    """A report as plain data."""
    rank = getattr(report, "ascend_rank", {})
    longrepr = report.longrepr
    return PlainReport(
        outcome=report.outcome,
        text=report.longreprtext,
        skip=(str(longrepr[0]), int(longrepr[1]), str(longrepr[2]))
        if isinstance(longrepr, tuple)
        else None,
        wasxfail=getattr(report, "wasxfail", None),
        aborted=rank.get("aborted", False),
        record=getattr(report, "ascend_record", None),
    )


def outcome_of(fates: Sequence[RankFate]) -> dict[str, Any]:
    """Outcome and text of the gang, as arguments of ``TestReport``.

    A gang fails if a rank failed, is skipped if every rank was, and passes otherwise.
    """
    outcomes = {fate.outcome for fate in fates}
    marks = [
        phase.wasxfail for fate in fates for phase in fate.phases if phase.wasxfail is not None
    ]
    extra = {"wasxfail": marks[0]} if marks and len(outcomes) == 1 else {}
    if "failed" in outcomes:
        return {"outcome": "failed", "longrepr": _story(fates)}
    if outcomes == {"skipped"}:
        skips = [phase.skip for fate in fates for phase in fate.phases if phase.skip]
        return {"outcome": "skipped", "longrepr": tuple(skips[0]) if skips else None, **extra}
    return {"outcome": "passed", "longrepr": None, **extra}


def _story(fates: Sequence[RankFate]) -> str:
    """A line for every rank, and the text of each that failed by itself."""
    lines = [f"gang of {len(fates)} ranks"]
    for fate in fates:
        lines.append(f"rank {fate.rank}: {fate.note.ending}")
    by_itself = [fate for fate in fates if fate.outcome == "failed" and not fate.aborted]
    for fate in by_itself or [fate for fate in fates if fate.outcome == "failed"]:
        lines += [f"--- rank {fate.rank} ---"]
        lines += [phase.text for phase in fate.phases if phase.outcome == "failed"]
    return "\n".join(lines)


def sections(fates: Sequence[RankFate], leftovers: int) -> list[tuple[str, str]]:
    """The end of every rank's output, and how many processes had to be killed."""
    texts = [
        (f"Captured output of rank {fate.rank} ({fate.ending})", fate.words)
        for fate in fates
        if fate.words.strip()
    ]
    if leftovers:
        texts.append(("Left behind", f"{leftovers} processes of the ranks had to be killed"))
    return texts


def record_of(check: str, fates: Sequence[RankFate], sandbox: str) -> VerdictRecord | None:
    """The gang's verdict record, if the check judges a rule."""
    records = [
        RankRecord(fate.rank, fate.aborted, VerdictRecord.from_dict(phase.record))
        for fate in fates
        for phase in fate.phases
        if phase.record is not None
    ]
    if not records:
        return None
    return gang_record(check, records, [asdict(fate.note) for fate in fates], sandbox)
