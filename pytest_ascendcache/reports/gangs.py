"""Merges the records of a gang's ranks: a check has one verdict, however many ranks ran it."""

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
            record = _no_verdict(records[0].record, f"rank {rank} gave {ending}")
            # As aborted: the records of the other ranks say more.
            records.append(RankRecord(rank, True, record))
        notes.append({"rank": rank, "ending": ending, "output": ""})
    return gang_record(check, records, notes)


def _no_verdict(like: VerdictRecord, message: str) -> VerdictRecord:
    nothing: dict[str, Any] = {name: [] for name in _JOINED} | dict.fromkeys(_SUMMED, 0)
    evidence = {**like.evidence, **nothing}
    return replace(like, verdict=Verdict.UNDECIDED, message=message, evidence=evidence)
