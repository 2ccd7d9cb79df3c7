"""Verdict records: what each check said, and what that means for each rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_ascendcache.contract import Rule, Verdict

WORST_FIRST = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.WARN,
    Verdict.KNOWN_DEVIATION,
    Verdict.PASS,
    Verdict.NOT_APPLICABLE,
)
"""What a rule is when its checks differ: the first of these that any of them says."""


@dataclass(frozen=True)
class VerdictRecord:
    """One check's verdict on one rule.

    ``message`` says why where it is no pass; ``repeat`` is a command that does it again;
    ``evidence`` is :class:`~pytest_ascendcache.observation.Evidence` as plain data;
    ``seconds`` is the check's duration. ``deviation`` is there for a known deviation: the
    ``entry`` that names it, its ``reason`` and ``link``, and the verdict it had ``instead``.
    """

    rule: str
    check: str
    verdict: Verdict
    message: str
    repeat: str
    seconds: float
    evidence: Mapping[str, Any]
    deviation: Mapping[str, str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports and for xdist."""
        return {**vars(self), "verdict": self.verdict.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> VerdictRecord:
        """The record :meth:`as_dict` was made of."""
        return cls(**{**data, "verdict": Verdict(data["verdict"])})


@dataclass(frozen=True)
class RuleResult:
    """A rule with the records of its checks, worst first."""

    rule: Rule
    records: tuple[VerdictRecord, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of any check."""
        return self.records[0].verdict

    @property
    def readings(self) -> list[str]:
        """Which reading of an open question the toolchain chose, each once."""
        return list(
            dict.fromkeys(
                reading for record in self.records for reading in record.evidence["readings"]
            )
        )


def by_rule(records: Iterable[VerdictRecord], rules: Mapping[str, Rule]) -> list[RuleResult]:
    """Records grouped by rule, in the order of the rule files."""
    grouped: dict[str, list[VerdictRecord]] = {}
    for record in records:
        grouped.setdefault(record.rule, []).append(record)
    return [
        RuleResult(
            rule, tuple(sorted(grouped[name], key=lambda each: WORST_FIRST.index(each.verdict)))
        )
        for name, rule in rules.items()
        if name in grouped
    ]


def accuracy_rows(records: Iterable[VerdictRecord]) -> list[dict[str, Any]]:
    """What checks measured of kernels (``observation.Accuracy`` as plain data), by operator."""
    rows = [row for record in records for row in record.evidence["accuracy"]]
    return sorted(rows, key=lambda row: (row["operator"], row["max_ulp"]))


def tried_cells(records: Iterable[VerdictRecord]) -> list[dict[str, str]]:
    """The combinations of which some check could tell something, as level by factor."""
    undecided = (Verdict.NOT_APPLICABLE, Verdict.ERROR)
    told = (each for each in records if each.verdict not in undecided)
    cells = (tuple(each.evidence["factors"].items()) for each in told)
    return [dict(cell) for cell in dict.fromkeys(cells) if cell]


def totals(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each of the six verdicts occurs, zeros included."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in Verdict}


def totals_line(what: str, verdicts: Sequence[Verdict]) -> str:
    """All six counts in one line."""
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in totals(verdicts).items())
    return f"{len(verdicts)} {what}: {counts}"
