"""Verdict records: what each check said, and what that means for each rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_ascendcache.contract import Rule, Verdict
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.language import Language, text

WORST_FIRST = (
    Verdict.FAIL,
    Verdict.UNDECIDED,
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
    ``harm`` is the :class:`~pytest_ascendcache.contract.harm.Harm` a broken promise was seen to
    do, by its value; None where nothing is broken, or where no harm was seen.
    """

    rule: str
    check: str
    verdict: Verdict
    message: str
    repeat: str
    seconds: float
    evidence: Mapping[str, Any]
    deviation: Mapping[str, str] | None = None
    harm: str | None = None

    @property
    def beneath(self) -> Verdict:
        """The verdict without any list of deviations, and without a baseline."""
        return beneath(vars(self))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports and for xdist."""
        return {**vars(self), "verdict": self.verdict.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> VerdictRecord:
        """The record :meth:`as_dict` was made of."""
        return cls(**{**data, "verdict": Verdict(data["verdict"])})


@dataclass(frozen=True)
class RuleResult:
    """A rule with the records of its checks: the worst verdict first, then the worst harm."""

    rule: Rule
    records: tuple[VerdictRecord, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of any check."""
        return self.records[0].verdict

    @property
    def harm(self) -> str | None:
        """The worst harm that any check of it saw; None where none did."""
        seen = [Harm(each.harm) for each in self.records if each.harm is not None]
        return min(seen, key=lambda each: each.rank).value if seen else None

    @property
    def tally(self) -> list[tuple[Verdict, int]]:
        """How many checks say what the rule's verdict says, then how many say anything else."""
        return tally(each.verdict for each in self.records)

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
        RuleResult(rule, tuple(sorted(grouped[name], key=_badness)))
        for name, rule in rules.items()
        if name in grouped
    ]


def beneath(check: Mapping[str, Any]) -> Verdict:
    """The verdict of a record, as plain data or not, without what a list or a baseline knows."""
    deviation = check.get("deviation")
    return Verdict(deviation["instead"] if deviation else check["verdict"])


def _badness(record: VerdictRecord) -> tuple[int, int]:
    harm = len(Harm) if record.harm is None else Harm(record.harm).rank
    return WORST_FIRST.index(record.verdict), harm


def tally(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, int]]:
    """Verdicts that occur with their counts, the worst first."""
    counts = Counter(verdicts)
    return [(verdict, counts[verdict]) for verdict in WORST_FIRST if counts[verdict]]


def tally_text(counts: Sequence[tuple[Verdict, int]], language: Language = Language.ENGLISH) -> str:
    """A tally in words: ``pass 3``, ``pass 1 (1 not applicable)``, ``fail 2 (3 pass)``."""
    (worst, count), *rest = counts
    others = ", ".join(f"{number} {verdict_text(verdict, language)}" for verdict, number in rest)
    return f"{verdict_text(worst, language)} {count}" + (f" ({others})" if others else "")


def verdict_text(verdict: Verdict, language: Language) -> str:
    """A verdict's word."""
    return text(f"v_{verdict.value}", language)


def accuracy_rows(records: Iterable[VerdictRecord]) -> list[dict[str, Any]]:
    """What checks measured of kernels (``observation.Accuracy`` as plain data), by operator."""
    rows = [row for record in records for row in record.evidence["accuracy"]]
    return sorted(rows, key=lambda row: (row["operator"], row["max_ulp"]))


def tried_cells(records: Iterable[VerdictRecord]) -> list[dict[str, str]]:
    """The combinations of which some check could tell something, as level by factor."""
    undecided = (Verdict.NOT_APPLICABLE, Verdict.UNDECIDED)
    told = (each for each in records if each.verdict not in undecided)
    cells = (tuple(each.evidence["factors"].items()) for each in told)
    return [dict(cell) for cell in dict.fromkeys(cells) if cell]


def totals(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each of the six verdicts occurs, zeros included."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in Verdict}
