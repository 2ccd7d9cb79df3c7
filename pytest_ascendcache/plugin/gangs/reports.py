"""Merges what the ranks of a gang report: a check has one verdict, however many ranks ran it.

The reports of an item's ranks, each with three phases, become one; so do verdict records, which
separate tests on xdist workers have too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.observation import RankNote
from pytest_ascendcache.reports.records import WORST_FIRST, VerdictRecord

_JOINED = ("steps", "readings", "accuracy", "timeline", "sizes")
_SUMMED = ("compiles", "starts")


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
    """Outcome and text of the gang as arguments of ``TestReport``: failed if a rank failed, skipped
    if every rank was, else passed."""
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


@dataclass(frozen=True)
class RankRecord:
    """The record of one rank; ``aborted``: it only says that another rank stopped this one.

    A rank that was a separate test on an xdist ``worker`` is one of ``size``.
    """

    rank: int
    aborted: bool
    record: VerdictRecord
    size: int = 0
    worker: str = ""


def gang_record(
    check: str, records: Sequence[RankRecord], notes: Sequence[Mapping[str, Any]], sandbox: str = ""
) -> VerdictRecord:
    """One record for ``check``: the worst verdict, and the evidence of all ranks.

    The message is that of the rank with the worst verdict. ``notes`` are ``observation.RankNote``
    as plain data; ``sandbox`` is the directory of all ranks' sandboxes, if they share one.
    """
    ordered = sorted(
        records, key=lambda each: (WORST_FIRST.index(each.record.verdict), each.aborted, each.rank)
    )
    worst = ordered[0]
    evidence = dict(worst.record.evidence)
    in_order = sorted(records, key=lambda each: each.rank)
    for name in _JOINED:
        evidence[name] = [part for each in in_order for part in each.record.evidence[name]]
    for name in _SUMMED:
        evidence[name] = sum(each.record.evidence[name] for each in in_order)
    evidence["ranks"] = list(notes)
    evidence["sandbox"] = sandbox or evidence["sandbox"]
    message = worst.record.message
    name = f"rank {worst.rank}"
    if message and not message.startswith(name):
        message = f"{name}: {message}"
    return replace(
        worst.record,
        check=check,
        message=message,
        seconds=max(each.record.seconds for each in records),
        evidence=evidence,
    )


def whole_gang(check: str, ranks: Sequence[RankRecord]) -> VerdictRecord:
    """One record for ranks on workers. A rank without a record, whose worker died, is undecided."""
    by_rank = {each.rank: each for each in reversed(ranks)}
    records = list(ranks)
    notes = []
    for rank in range(ranks[0].size):
        if rank in by_rank:
            each = by_rank[rank]
            outcome = "aborted" if each.aborted else each.record.verdict.value
            ending = f"{outcome}, on worker {each.worker}"
        else:
            ending = "no verdict: its worker was lost"
            like, message = records[0].record, f"rank {rank} gave {ending}"
            nothing: dict[str, Any] = {name: [] for name in _JOINED} | dict.fromkeys(_SUMMED, 0)
            evidence = {**like.evidence, **nothing}
            record = replace(like, verdict=Verdict.UNDECIDED, message=message, evidence=evidence)
            # As aborted: the records of the other ranks say more.
            records.append(RankRecord(rank, True, record))
        notes.append({"rank": rank, "ending": ending, "output": ""})
    return gang_record(check, records, notes)
