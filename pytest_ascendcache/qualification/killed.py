"""Reads from a run of the suite whether it noticed a defect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.qualification.defective import MISWRITTEN
from pytest_ascendcache.qualification.runs import Ended

OF_NODES = "shared/"
"""The prefix of rules that need several nodes."""


@dataclass(frozen=True)
class Killed:
    """The result of a run of the suite on one defect.

    ``verdicts`` maps rules to verdicts. ``crashes`` are the kinds of interruption after which a
    check failed, the simplest first, and ``harms`` the kinds of harm, the worst first.
    ``miswritten`` says that the defect's own code failed. ``lacking`` are rules of nodes with
    checks that do not apply here, because this machine cannot make their mounts.
    """

    defect: Defect
    verdicts: dict[str, str]
    crashes: list[str]
    harms: list[Harm]
    miswritten: bool = False
    lacking: frozenset[str] = frozenset()

    @classmethod
    def of(cls, defect: Defect, ended: Ended) -> Killed:
        """Read it from a run."""
        report = ended.report
        miswritten = MISWRITTEN in json.dumps(report)
        lacking = frozenset(
            check["rule"]
            for check in report["checks"]
            if check["verdict"] == Verdict.NOT_APPLICABLE.value
            and check["rule"].startswith(OF_NODES)
        )
        found = verdicts_of(report), _crashes(report), _harms(report)
        return cls(defect, *found, miswritten, lacking)

    @property
    def by(self) -> list[str]:
        """Rules that noticed the defect."""
        return [rule for rule, verdict in self.verdicts.items() if verdict in matrix.BROKEN]

    @property
    def missed(self) -> list[str]:
        """Rules that should have noticed the defect and did not."""
        return [rule for rule in self.defect.breaks if rule not in self.by]

    @property
    def blamed(self) -> list[str]:
        """Rules that noticed the defect although it keeps them."""
        return [rule for rule in self.defect.keeps if rule in self.by]

    @property
    def other_harm(self) -> bool:
        """Whether the worst harm seen differs from the one the defect claims."""
        return self.defect.harm is not None and self.harms[:1] != [self.defect.harm]

    @property
    def is_elsewhere(self) -> bool:
        """Whether every rule that missed the defect has checks that do not apply on this machine,
        so that nothing follows from it."""
        return bool(self.missed) and {*self.missed} <= self.lacking

    @property
    def survived(self) -> bool:
        """Whether the run contradicts the defect's claims.

        A rule missed it, a rule noticed it that must not, its simplest interruption or its worst
        harm differs, or it failed in its own code.
        """
        simplest = self.crashes[0] if self.crashes else ""
        other = self.defect.crash not in ("", simplest) or self.other_harm
        return bool(self.missed or self.blamed) or other or self.miswritten


def _crashes(document: Mapping[str, Any]) -> list[str]:
    """The kinds of interruption after which a check failed, the simplest first."""
    found = {
        check["evidence"]["crash"]
        for check in document["checks"]
        if check["verdict"] in matrix.BROKEN
    }
    return [each.value for each in CrashKind if each.value in found]


def _harms(document: Mapping[str, Any]) -> list[Harm]:
    """The kinds of harm that failed checks saw, the worst first."""
    seen = {check["harm"] for check in document["checks"] if check["verdict"] in matrix.BROKEN}
    return [each for each in Harm if each.value in seen]


def verdicts_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The verdict of each rule, including warnings of should rules."""
    verdicts = {rule["id"]: rule["verdict"] for rule in document["rules"]}
    # One failed check is enough, even if other checks of the rule are undecided.
    verdicts.update(
        {c["rule"]: c["verdict"] for c in document["checks"] if c["verdict"] in matrix.BROKEN}
    )
    return verdicts
