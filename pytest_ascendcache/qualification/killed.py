"""What a run of the suite said of a defect."""

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
"""What the rules begin with that several nodes are needed for."""


@dataclass(frozen=True)
class Killed:
    """What a run of the suite said of one defect: rule -> verdict, the kinds of interruption
    after which a check found fault, the simplest first, and the kinds of harm, the worst first.
    ``miswritten`` says that a slip of the defect's writer was noticed instead. ``lacking`` are the
    rules of nodes of which this machine cannot have every check: it makes not all mounts."""

    defect: Defect
    verdicts: dict[str, str]
    crashes: list[str]
    harms: list[Harm]
    miswritten: bool = False
    lacking: frozenset[str] = frozenset()

    @classmethod
    def of(cls, defect: Defect, ended: Ended) -> Killed:
        """Read a run of a defect."""
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
        """Rules that noticed."""
        return [rule for rule, verdict in self.verdicts.items() if verdict in matrix.BROKEN]

    @property
    def missed(self) -> list[str]:
        """Rules that should have noticed and did not."""
        return [rule for rule in self.defect.breaks if rule not in self.by]

    @property
    def blamed(self) -> list[str]:
        """Rules that noticed what is none of their business."""
        return [rule for rule in self.defect.keeps if rule in self.by]

    @property
    def other_harm(self) -> bool:
        """Whether the worst harm seen is not the one it claims to do."""
        return self.defect.harm is not None and self.harms[:1] != [self.defect.harm]

    @property
    def is_elsewhere(self) -> bool:
        """Whether what should notice has checks that do not apply here; on a machine that cannot
        have all mounts nothing can be said then."""
        return bool(self.missed) and {*self.missed} <= self.lacking

    @property
    def survived(self) -> bool:
        """Whether a rule missed it, it takes another interruption to find it than it says, it does
        other harm, a rule blames it that must not, or it fails in its own code."""
        simplest = self.crashes[0] if self.crashes else ""
        other = self.defect.crash not in ("", simplest) or self.other_harm
        return bool(self.missed or self.blamed) or other or self.miswritten


def _crashes(document: Mapping[str, Any]) -> list[str]:
    """The kinds of interruption after which a check found fault, the simplest first."""
    found = {
        check["evidence"]["crash"]
        for check in document["checks"]
        if check["verdict"] in matrix.BROKEN
    }
    return [each.value for each in CrashKind if each.value in found]


def _harms(document: Mapping[str, Any]) -> list[Harm]:
    """The kinds of harm that broken checks saw, the worst first."""
    seen = {check["harm"] for check in document["checks"] if check["verdict"] in matrix.BROKEN}
    return [each for each in Harm if each.value in seen]


def verdicts_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Verdicts by rule, warnings of should rules included."""
    verdicts = {rule["id"]: rule["verdict"] for rule in document["rules"]}
    # One check that found fault is enough, whatever the rule's other checks could not tell.
    verdicts.update(
        {c["rule"]: c["verdict"] for c in document["checks"] if c["verdict"] in matrix.BROKEN}
    )
    return verdicts
