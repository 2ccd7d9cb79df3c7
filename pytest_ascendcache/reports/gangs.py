"""The records of a gang's ranks become one: a check is judged once, however many ranks did it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_ascendcache.reports.records import WORST_FIRST, VerdictRecord

_JOINED = ("steps", "readings", "accuracy")
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
    return VerdictRecord(
        rule=worst.record.rule,
        check=check,
        verdict=worst.record.verdict,
        message=message,
        repeat=worst.record.repeat,
        seconds=max(each.record.seconds for each in records),
        evidence=evidence,
    )
