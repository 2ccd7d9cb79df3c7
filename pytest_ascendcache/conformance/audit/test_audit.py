"""Audits of existing caches (``--ascend-audit``): each is read once, and judged by every rule."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_ascendcache.audit import Audit, Check, story, undecided
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import Evidence, NotDecidable

_CHECKS = [
    pytest.param(check, marks=rule(check.value), id=check.value.partition("/")[2])
    for check in Check
]


@pytest.mark.parametrize("check", _CHECKS)
def test_audit(
    check: Check, ascend_audit: Audit, ascend_evidence: Evidence, ascend_session: Any
) -> None:
    several = len(ascend_session.settings.audit.directories) > 1
    where = f"{ascend_audit.directory}: " if several else ""
    ascend_evidence.notes += [where + note for note in ascend_audit.notes.get(check, ())]
    if findings := ascend_audit.found.get(check):
        ascend_evidence.findings = [each.as_dict() for each in findings.first]
    if reason := undecided(ascend_audit, check):
        raise NotDecidable(reason)
    if failure := story(ascend_audit, check):
        pytest.fail(failure)
    # A skip means 'not applicable': the directory has nothing that the rule is about.
    if check in ascend_audit.inapplicable:
        pytest.skip(ascend_audit.inapplicable[check])
