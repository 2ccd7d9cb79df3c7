"""Directories of the field: no unsound one is called good, no sound one accused."""

from __future__ import annotations

from pathlib import Path

import pytest
from directories import FAIL, GREEN, SOUND, UNDECIDED, UNSOUND, WARN, Case

from pytest_ascendcache.audit import answer, audit
from pytest_ascendcache.contract import Verdict

_SAID = {
    Verdict.PASS: GREEN,
    Verdict.WARN: WARN,
    Verdict.UNDECIDED: UNDECIDED,
    Verdict.FAIL: FAIL,
}


def _said(case: Case, directory: Path) -> str:
    directory.mkdir(exist_ok=True)
    case.build(directory)
    result = audit(directory, environment={})
    verdict = _SAID[answer(result)]
    found = [f"{rule.value} {one.first[:2]}" for rule, one in result.found.items()]
    found += result.account.lines()
    return "" if case.least <= verdict <= case.most else f"{answer(result).value}: {found}"


@pytest.mark.parametrize("case", UNSOUND, ids=[each.name for each in UNSOUND])
def test_an_unsound_directory_is_not_called_good(case: Case, tmp_path: Path) -> None:
    assert not _said(case, tmp_path / "audited")


@pytest.mark.parametrize("case", SOUND, ids=[each.name for each in SOUND])
def test_a_sound_directory_is_not_accused(case: Case, tmp_path: Path) -> None:
    assert not _said(case, tmp_path / "audited")
