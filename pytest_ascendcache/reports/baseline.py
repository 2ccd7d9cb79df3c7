"""An earlier report: what was broken there too is no news."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.deviations import Fault
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.renamed import present_name
from pytest_ascendcache.reports.files import read_report
from pytest_ascendcache.reports.records import VerdictRecord, beneath

AS_BEFORE = "as in the baseline"
"""The reason of a deviation that the baseline has too."""

_BROKEN = frozenset({Verdict.FAIL, Verdict.WARN})
_DECIDED = _BROKEN | {Verdict.PASS}
_NEW = frozenset({Verdict.FAIL, Verdict.WARN, Verdict.UNDECIDED})


@dataclass(frozen=True)
class Baseline:
    """What an earlier report said; ``verdicts`` and ``observed`` by rule and check.

    A check is as in the baseline if it was broken there (known by a list then or not), the same
    was observed, and the harm is no worse. What was undecided, then or now, is never as in the
    baseline. ``editions`` are those it judged by, and ``turned`` the rules and checks that were
    new or fixed against a baseline of its own.
    """

    path: Path
    toolchain: str
    verdicts: Mapping[tuple[str, str], Verdict]
    observed: Mapping[tuple[str, str], tuple[str, str]]
    harms: Mapping[tuple[str, str], Harm | None]
    editions: tuple[str, ...] = ()
    turned: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read an earlier ``--ascend-report``.

        Raises:
            ReportFileError: for anything else.
        """
        report = read_report(path)
        verdicts, observed, harms = {}, {}, {}
        for check in report["checks"]:
            key = check["rule"], present_name(check["check"])
            verdicts[key] = beneath(check)
            observed[key] = _fault(check["evidence"].get("observed", ""), check["message"])
            harms[key] = Harm(check["harm"]) if check.get("harm") else None
        name = f"{report['toolchain']['name']} {report['toolchain']['version']}"
        news = report.get("baseline", {})
        turned = frozenset(
            (each["rule"], present_name(each["check"]))
            for each in (*news.get("new", ()), *news.get("fixed", ()))
        )
        editions = tuple(report.get("editions", ()))
        return cls(path, name, verdicts, observed, harms, editions, turned)

    @property
    def judged(self) -> int:
        """How many checks it decided."""
        return sum(each in _DECIDED for each in self.verdicts.values())

    @property
    def unsettled(self) -> frozenset[tuple[str, str]]:
        """Rules and checks that may well be judged otherwise now: what was broken then or could
        not be told, and what had just turned."""
        return self.turned | {key for key, verdict in self.verdicts.items() if verdict in _NEW}

    @property
    def broken(self) -> frozenset[str]:
        """Checks of any rule that were broken then."""
        return frozenset(check for (_, check), each in self.verdicts.items() if each in _BROKEN)

    def deviation(self, fault: Fault, verdict: Verdict, observed: str) -> dict[str, str] | None:
        """What a record says of a broken promise that was broken in the same way before."""
        key = fault.rule, fault.check
        if self.verdicts.get(key) not in _BROKEN:
            return None
        if self.observed[key] != _fault(observed, fault.message):
            return None
        then = self.harms[key]
        if (
            fault.harm is not None
            and fault.harm.fails
            and (then is None or fault.harm.rank < then.rank)
        ):
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
    many checks that were broken, or passed, then were not judged now."""

    baseline: Baseline
    new: tuple[VerdictRecord, ...]
    fixed: tuple[VerdictRecord, ...]
    same: tuple[VerdictRecord, ...]
    not_judged: int
    lost: int = 0

    @classmethod
    def of(cls, baseline: Baseline, records: Sequence[VerdictRecord]) -> News:
        """Compare; a check that cannot tell now has not been fixed."""
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
                each for each in records if each.deviation and each.deviation["reason"] == AS_BEFORE
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
        """For people: what is new and what is fixed, by rule."""
        found = [f"{AS_BEFORE}: {_counted(self.same)}"]
        if not self.baseline.judged:
            found.append("the baseline judged nothing: it has no check that passed or failed")
        for word, records in (("new", self.new), ("fixed", self.fixed)):
            for (rule, verdict), checks in Counter(
                (each.rule, each.verdict.value) for each in records
            ).items():
                found.append(f"{word:<6} {rule}: {verdict}, {_checks(checks)}")
        if not self.new and not self.fixed:
            found.append("nothing is new, nothing is fixed")
        if self.not_judged:
            found.append(f"broken in the baseline and not judged now: {_checks(self.not_judged)}")
        if self.lost:
            found.append(f"passed in the baseline and not judged now: {_checks(self.lost)}")
        return found


def _fault(observed: str, message: str) -> tuple[str, str]:
    """What makes two faults the same: what was observed, and what the check says in its first
    line, but for numbers, digests and directories, which differ from run to run."""
    first = message.strip().partition("\n")[0]
    return observed, _VARYING.sub("#", first)


_VARYING = re.compile(r"(?:/[\w.+-]+)+|(?<![0-9a-f])[0-9a-f]{8,}|\d+")


def _named(record: VerdictRecord) -> dict[str, str]:
    return {"rule": record.rule, "check": record.check, "verdict": record.verdict.value}


def _counted(records: Sequence[VerdictRecord]) -> str:
    rules = len({each.rule for each in records})
    return f"{_checks(len(records))} of {rules} rule{'' if rules == 1 else 's'}"


def _checks(count: int) -> str:
    return f"{count} check{'' if count == 1 else 's'}"
