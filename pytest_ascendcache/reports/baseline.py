"""The baseline: an earlier report, with which a run is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.deviations import BrokenPromise
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.renamed import present_name
from pytest_ascendcache.reports.files import read_report
from pytest_ascendcache.reports.records import VerdictRecord, beneath
from pytest_ascendcache.words import count

AS_BEFORE = "as in the baseline"
"""The reason of a deviation that is broken in the baseline too."""

_BROKEN = frozenset({Verdict.FAIL, Verdict.WARN})
_DECIDED = _BROKEN | {Verdict.PASS}
_NEW = frozenset({Verdict.FAIL, Verdict.WARN, Verdict.UNDECIDED})


@dataclass(frozen=True)
class Baseline:
    """An earlier report; ``verdicts``, ``facts`` (their codes) and ``harms`` are by rule and
    check.

    A check is as in the baseline if it was broken there (whether or not a list of deviations knew
    of it), the same was observed, and the harm is no worse. A check that was or is undecided is
    never as in the baseline. ``editions`` are those that the report judged by; ``turned`` has the
    rules and checks that were new or fixed compared with the report's own baseline.
    """

    path: Path
    toolchain: str
    verdicts: Mapping[tuple[str, str], Verdict]
    facts: Mapping[tuple[str, str], frozenset[str]]
    harms: Mapping[tuple[str, str], Harm | None]
    editions: tuple[str, ...] = ()
    turned: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read an earlier ``--ascend-report``. Raises ``ReportFileError`` for another file."""
        report = read_report(path)
        verdicts, facts, harms = {}, {}, {}
        for check in report["checks"]:
            key = check["rule"], present_name(check["check"])
            verdicts[key] = beneath(check)
            facts[key] = frozenset(each["code"] for each in check["evidence"]["facts"])
            harms[key] = Harm(check["harm"]) if check.get("harm") else None
        name = f"{report['toolchain']['name']} {report['toolchain']['version']}"
        news = report.get("baseline", {})
        turned = frozenset(
            (each["rule"], present_name(each["check"]))
            for each in (*news.get("new", ()), *news.get("fixed", ()))
        )
        editions = tuple(report.get("editions", ()))
        return cls(path, name, verdicts, facts, harms, editions, turned)

    @property
    def judged(self) -> int:
        """How many checks the report decided."""
        return sum(each in _DECIDED for each in self.verdicts.values())

    @property
    def unsettled(self) -> frozenset[tuple[str, str]]:
        """Rules and checks whose verdict may have changed since: they were broken or undecided, or
        had just become new or fixed."""
        return self.turned | {key for key, verdict in self.verdicts.items() if verdict in _NEW}

    def deviation(self, fault: BrokenPromise, verdict: Verdict) -> dict[str, str] | None:
        """The ``deviation`` of a record, if the baseline has the same broken promise."""
        key = fault.rule, fault.check
        if self.verdicts.get(key) not in _BROKEN:
            return None
        if self.facts[key] != frozenset(fault.facts):
            return None
        if fault.harm is not None and fault.harm.fails:
            before = self.harms[key]
            if before is None or fault.harm.rank < before.rank:
                return None
        return {"entry": str(self.path), "reason": AS_BEFORE, "link": "", "instead": verdict.value}


@dataclass(frozen=True)
class News:
    """A run compared with its baseline: records that are ``new``, ``fixed`` or the ``same``.

    ``not_judged`` and ``lost`` count checks that this run did not judge: those that were broken in
    the baseline, and those that passed there.
    """

    baseline: Baseline
    new: tuple[VerdictRecord, ...]
    fixed: tuple[VerdictRecord, ...]
    same: tuple[VerdictRecord, ...]
    not_judged: int
    lost: int = 0

    @classmethod
    def of(cls, baseline: Baseline, records: Sequence[VerdictRecord]) -> News:
        """Compare the records of a run with its baseline. An undecided check is not fixed."""
        then = {key for key, verdict in baseline.verdicts.items() if verdict in _BROKEN}
        passed = {key for key, verdict in baseline.verdicts.items() if verdict is Verdict.PASS}
        decided = {
            (each.rule, each.check)
            for each in records
            if each.verdict not in (Verdict.UNDECIDED, Verdict.NOT_APPLICABLE)
        }
        return cls(
            baseline,
            new=tuple(each for each in records if each.verdict in _NEW),
            fixed=tuple(
                each
                for each in records
                if each.verdict is Verdict.PASS and (each.rule, each.check) in then
            ),
            same=tuple(
                each
                for each in records
                if each.deviation and each.deviation["entry"] == str(baseline.path)
            ),
            not_judged=len(then - decided),
            lost=len(passed - decided),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports."""
        return {
            "file": str(self.baseline.path),
            "toolchain": self.baseline.toolchain,
            "new": [_named(each) for each in self.new],
            "fixed": [_named(each) for each in self.fixed],
            "same": len(self.same),
            "not_judged": self.not_judged,
            "passed_not_judged": self.lost,
        }

    def lines(self) -> list[str]:
        """What is new and what is fixed, by rule, as lines for the terminal."""
        rules = len({each.rule for each in self.same})
        checks = count(len(self.same), "check")
        lines = [f"{AS_BEFORE}: {checks} of {count(rules, 'rule')}"]
        if not self.baseline.judged:
            lines.append("the baseline judged nothing: it has no check that passed or failed")
        for word, records in (("new", self.new), ("fixed", self.fixed)):
            counts = Counter((each.rule, each.verdict.value) for each in records)
            for (rule, verdict), number in counts.items():
                lines.append(f"{word:<6} {rule}: {verdict}, {count(number, 'check')}")
        if not self.new and not self.fixed:
            lines.append("nothing is new, nothing is fixed")
        if self.not_judged:
            lines.append(
                f"broken in the baseline and not judged now: {count(self.not_judged, 'check')}"
            )
        if self.lost:
            lines.append(f"passed in the baseline and not judged now: {count(self.lost, 'check')}")
        return lines


def _named(record: VerdictRecord) -> dict[str, str]:
    return {"rule": record.rule, "check": record.check, "verdict": record.verdict.value}
