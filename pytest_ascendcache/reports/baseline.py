"""An earlier report: what was broken there too is no news."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.renamed import present_name
from pytest_ascendcache.reports.files import read_report
from pytest_ascendcache.reports.records import VerdictRecord

AS_BEFORE = "as in the baseline"
"""The reason of a deviation that the baseline has too."""

_BROKEN = frozenset({Verdict.FAIL, Verdict.WARN, Verdict.KNOWN_DEVIATION})
_NEW = frozenset({Verdict.FAIL, Verdict.WARN, Verdict.UNDECIDED})


@dataclass(frozen=True)
class Baseline:
    """What an earlier report said; ``verdicts`` and ``observed`` by rule and check.

    A check is as in the baseline if it was broken there and the same was observed. What could
    not be told, then or now, is never as in the baseline.
    """

    path: Path
    toolchain: str
    verdicts: Mapping[tuple[str, str], Verdict]
    observed: Mapping[tuple[str, str], str]

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read an earlier ``--ascend-report``.

        Raises:
            ReportFileError: for anything else.
        """
        report = read_report(path)
        verdicts, observed = {}, {}
        for check in report["checks"]:
            key = check["rule"], present_name(check["check"])
            verdicts[key] = Verdict(check["verdict"])
            observed[key] = check["evidence"].get("observed", "")
        name = f"{report['toolchain']['name']} {report['toolchain']['version']}"
        return cls(path, name, verdicts, observed)

    def deviation(
        self, rule: str, check: str, verdict: Verdict, observed: str
    ) -> dict[str, str] | None:
        """What a record says of a broken promise that was broken in the same way before."""
        key = rule, check
        if self.verdicts.get(key) not in _BROKEN or self.observed[key] != observed:
            return None
        return {
            "entry": str(self.path),
            "reason": AS_BEFORE,
            "link": "",
            "instead": verdict.value,
        }


@dataclass(frozen=True)
class News:
    """A run against its baseline: records that are ``new``, ``fixed`` or the ``same``, and how
    many checks that were broken then were not judged now."""

    baseline: Baseline
    new: tuple[VerdictRecord, ...]
    fixed: tuple[VerdictRecord, ...]
    same: tuple[VerdictRecord, ...]
    not_judged: int

    @classmethod
    def of(cls, baseline: Baseline, records: Sequence[VerdictRecord]) -> News:
        """Compare; a check that cannot tell now has not been fixed."""
        then = {key for key, verdict in baseline.verdicts.items() if verdict in _BROKEN}
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
                each for each in records if each.deviation and each.deviation["reason"] == AS_BEFORE
            ),
            not_judged=len(then - decided),
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
        }

    def lines(self) -> list[str]:
        """For people: what is new and what is fixed, by rule."""
        found = [f"{AS_BEFORE}: {_counted(self.same)}"]
        for word, records in (("new", self.new), ("fixed", self.fixed)):
            for (rule, verdict), checks in Counter(
                (each.rule, each.verdict.value) for each in records
            ).items():
                found.append(f"{word:<6} {rule}: {verdict}, {_checks(checks)}")
        if not self.new and not self.fixed:
            found.append("nothing is new, nothing is fixed")
        if self.not_judged:
            found.append(f"broken in the baseline and not judged now: {_checks(self.not_judged)}")
        return found


def _named(record: VerdictRecord) -> dict[str, str]:
    return {"rule": record.rule, "check": record.check, "verdict": record.verdict.value}


def _counted(records: Sequence[VerdictRecord]) -> str:
    rules = len({each.rule for each in records})
    return f"{_checks(len(records))} of {rules} rule{'' if rules == 1 else 's'}"


def _checks(count: int) -> str:
    return f"{count} check{'' if count == 1 else 's'}"
