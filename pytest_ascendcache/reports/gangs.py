"""The records of a gang's ranks become one: a check is judged once, however many ranks did it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.records import WORST_FIRST, VerdictRecord

_JOINED = ("steps", "readings", "accuracy", "timeline", "sizes")
_SUMMED = ("compiles", "starts")


@dataclass(frozen=True)
class RankRecord:
    """A record of one rank; ``aborted``: it only says that another rank kept it from going on."""

    rank: int
    aborted: bool
    record: VerdictRecord


def gang_record(
    check: str, records: Sequence[RankRecord], notes: Sequence[Mapping[str, Any]], sandbox: str = ""
) -> VerdictRecord:
    """One record for ``check``: the worst verdict, and what all ranks did.

    The message is that of the rank that found it. ``notes`` are ``observation.RankNote`` as
    plain data; ``sandbox`` holds the sandboxes of all ranks, where there is such a place.
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


@dataclass(frozen=True)
class WorkerRank:
    """A record of a rank that was a test of its own on a worker, one of ``size``."""

    of_rank: RankRecord
    size: int
    worker: str


def whole_gang(check: str, ranks: Sequence[WorkerRank]) -> VerdictRecord:
    """One record of ranks on workers. A rank that gave none, as its worker died: *undecided*."""
    given = {each.of_rank.rank: each for each in reversed(ranks)}
    records = [each.of_rank for each in ranks]
    notes = []
    for rank in range(ranks[0].size):
        if rank in given:
            each = given[rank]
            verdict = each.of_rank.record.verdict.value
            said = "aborted" if each.of_rank.aborted else verdict
            ending = f"{said}, on worker {each.worker}"
        else:
            ending = "no verdict: its worker was lost"
            record = _no_verdict(records[0].record, f"rank {rank} gave {ending}")
            # What the others say of it is more than this.
            records.append(RankRecord(rank, True, record))
        notes.append({"rank": rank, "ending": ending, "output": ""})
    return gang_record(check, records, notes)


def _no_verdict(like: VerdictRecord, message: str) -> VerdictRecord:
    nothing: dict[str, Any] = {name: [] for name in _JOINED} | dict.fromkeys(_SUMMED, 0)
    evidence = {**like.evidence, **nothing}
    return replace(like, verdict=Verdict.UNDECIDED, message=message, evidence=evidence)
