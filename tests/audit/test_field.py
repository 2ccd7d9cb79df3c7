"""Directories of the field: no unsound one is called good, no sound one accused."""

from __future__ import annotations

import random
from pathlib import Path

import generated
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


def _score(directory: Path, seeds: range) -> list[str]:
    """Return the generated directories of which an audit says something wrong."""
    wrong = []
    for seed in seeds:
        place = generated.fresh(directory / "audited")
        generated.sound(place, random.Random(seed))
        result = audit(place, environment={})
        if answer(result) is not Verdict.PASS:
            found = [str(each.first[0]) for each in result.found.values()]
            wrong.append(f"{seed}: sound, and {found} {result.account.unread}")
        place = generated.fresh(directory / "audited")
        change = generated.unsound(place, random.Random(seed))
        if answer(audit(place, environment={})) not in (Verdict.FAIL, Verdict.UNDECIDED):
            wrong.append(f"{seed}: {change} is not told")
    return wrong


def test_a_change_is_told_and_its_sound_twin_is_not(tmp_path: Path) -> None:
    assert _score(tmp_path, range(40)) == []


@pytest.mark.nightly
def test_many_changes_are_told_and_their_sound_twins_are_not(tmp_path: Path) -> None:
    assert _score(tmp_path, range(1000, 2000)) == []
