"""Verdict records of checks, and what several reports compute from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_ascendcache.contract import Verdict
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
"""A rule's verdict is the first of these that one of its checks has."""


@dataclass(frozen=True)
class VerdictRecord:
    """One check's verdict on one rule.

    ``message`` is the reason for a verdict other than pass; ``repeat`` the command that repeats
    the check; ``seconds`` its duration; ``evidence`` is
    :class:`~pytest_ascendcache.observation.Evidence` as plain data. A known deviation has a
    ``deviation``: the ``entry`` that lists it, its ``reason`` and ``link``, and the verdict that
    it replaces, ``instead``. ``harm`` is the value of the observed
    :class:`~pytest_ascendcache.contract.harm.Harm`, None if none was observed.
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

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports and for xdist."""
        return {**vars(self), "verdict": self.verdict.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> VerdictRecord:
        """The record that :meth:`as_dict` returned as plain data."""
        return cls(**{**data, "verdict": Verdict(data["verdict"])})


def beneath(check: Mapping[str, Any]) -> Verdict:
    """The verdict of a record's data regardless of known deviations and of a baseline."""
    deviation = check.get("deviation")
    return Verdict(deviation["instead"] if deviation else check["verdict"])


def harm_rank(harm: str | None) -> int:
    """The place of a harm in their order: 0 for the worst, the last for None."""
    return Harm(harm).rank if harm else len(Harm)


def tally(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, int]]:
    """The verdicts that occur with their counts, the worst first."""
    counts = Counter(verdicts)
    return [(verdict, counts[verdict]) for verdict in WORST_FIRST if counts[verdict]]


def tally_text(counts: Sequence[tuple[Verdict, int]], language: Language = Language.ENGLISH) -> str:
    """A tally as text: ``pass 3``, ``pass 1 (1 not applicable)``, ``fail 2 (3 pass)``."""
    (worst, count), *rest = counts
    others = ", ".join(f"{number} {verdict_text(verdict, language)}" for verdict, number in rest)
    return f"{verdict_text(worst, language)} {count}" + (f" ({others})" if others else "")


def verdict_text(verdict: Verdict, language: Language) -> str:
    """The name of a verdict in a language."""
    return text(f"v_{verdict.value}", language)


def accuracy_rows(records: Iterable[VerdictRecord]) -> list[dict[str, Any]]:
    """The accuracy of kernels as checks measured it (``observation.Accuracy``), by operator."""
    rows = [row for record in records for row in record.evidence["accuracy"]]
    return sorted(rows, key=lambda row: (row["operator"], row["max_ulp"]))


def tried_cells(records: Iterable[VerdictRecord]) -> list[dict[str, str]]:
    """The combinations that some check decided, as level by factor."""
    undecided = (Verdict.NOT_APPLICABLE, Verdict.UNDECIDED)
    decided = (each for each in records if each.verdict not in undecided)
    cells = (tuple(each.evidence["factors"].items()) for each in decided)
    return [dict(cell) for cell in dict.fromkeys(cells) if cell]
